// SPDX-License-Identifier: Apache-2.0
//
// Servers that require proof of the tenant. With its token everything works, over every transport.
// Without it no method of any service answers, and nothing is returned.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics/prometheus_text.h"
#include "gpuworker/service/worker_server.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "quire/connect.h"
#include "tests/integration/fault_document.h"
#include "tests/integration/worker_fixture.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/ucx/ucx.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRefused[] = "does not prove its tenant";
constexpr char kWorkerService[] = "/quire.v1.Worker/";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

std::shared_ptr<const TenantTokens> Tokens() {
  auto tokens = TenantTokens::Parse(kTenantTokens, {});
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  return std::make_shared<const TenantTokens>(*std::move(tokens));
}
BearerToken TokenOf(const std::string& secret) {
  auto token = BearerToken::Make(secret);
  EXPECT_TRUE(token.ok()) << token.status();
  return *std::move(token);
}

bool DefinesService(const std::filesystem::path& proto) {
  std::ifstream file(proto);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("service ")) return true;
  }
  return false;
}

/// Every method that proto/quire/v1 defines, as a path of gRPC.
std::vector<std::string> Methods() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(QUIRE_SOURCE_DIR "/proto/quire/v1")) {
    if (entry.path().extension() != ".proto" || !DefinesService(entry.path())) continue;
    const std::string name = "quire/v1/" + entry.path().filename().string();
    const auto* const file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    if (file == nullptr) {
      ADD_FAILURE() << name << " is not linked into this test: who serves it?";
      continue;
    }
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        paths.push_back("/" + file->service(i)->full_name() + "/" +
                        file->service(i)->method(j)->name());
      }
    }
  }
  return paths;
}

/// The metadata of a call; empty fields are not sent.
struct Caller {
  std::string tenant;
  std::string authorization;
};
std::string Bearer(const std::string& secret) { return "Bearer " + secret; }

struct Outcome {
  grpc::Status status;
  bool answered = false;  ///< With a message.
};

/// Makes a call with an empty request. On the wire a stream of one message equals a unary call.
Outcome Call(const std::string& address, const std::string& path, const Caller& caller) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(std::chrono::seconds(60)));
  if (!caller.tenant.empty()) context.AddMetadata(kTenantMetadata, caller.tenant);
  if (!caller.authorization.empty()) {
    context.AddMetadata(kAuthorizationMetadata, caller.authorization);
  }
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  const std::unique_ptr<Stream> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(),
          grpc::internal::RpcMethod(path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING),
          &context));
  const grpc::Slice nothing;
  (void)stream->Write(grpc::ByteBuffer(&nothing, 1));
  (void)stream->WritesDone();
  Outcome outcome;
  for (grpc::ByteBuffer reply; stream->Read(&reply); reply.Clear()) outcome.answered = true;
  outcome.status = stream->Finish();
  return outcome;
}

void ExpectRefused(const Outcome& outcome) {
  EXPECT_FALSE(outcome.answered);
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(outcome.status.error_message(), HasSubstr(kRefused));
  for (const char* const secret : {kDefaultToken, kOtherToken, kDefaultTokenHash, "wrong-token"}) {
    EXPECT_THAT(outcome.status.error_message(), Not(HasSubstr(secret)));
  }
}

/// Authorizations that do not prove a call of the tenant "default".
std::vector<std::string> WrongProofs() {
  return {"",
          Bearer(kOtherToken),
          Bearer("wrong-token-wrong-token-wrong-token"),
          Bearer(kDefaultTokenHash),
          Bearer(""),
          kDefaultToken,
          "Basic " + std::string(kDefaultToken)};
}

class CallerProofTest : public ::testing::Test {
 protected:
  /// Offers data connections over `transports`.
  void Serve(const std::vector<std::string>& transports,
             const std::shared_ptr<const TenantTokens>& tokens = Tokens()) {
    kvserver::ServerOptions options;
    options.data_dir = dir_ / "data";
    options.dram_bytes = 64 << 20;
    options.tenants = {"default", "other"};
    auto server = kvserver::Server::Open(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto network = kvserver::NetworkServer::Start(
        *server_, options,
        {.tokens = tokens, .listeners = {.transports = transports, .shm_socket = dir_ / "socket"}});
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
  }
  const std::string& address() const { return network_->address(); }

  /// A client with `control_token`, whose recalls use `kind` and `data_token`.
  StatusOr<std::unique_ptr<Client>> Connect(const std::string& kind, const std::string& tenant,
                                            const BearerToken& control_token,
                                            const BearerToken& data_token) {
    QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(address(), {.token = control_token}));
    QUIRE_ASSIGN_OR_RETURN(const auto data, ConnectData(control, {.transport = kind,
                                                                  .tenant = tenant,
                                                                  .token = data_token,
                                                                  .control_address = address()}));
    EXPECT_EQ(data.report.taken, kind);
    return Client::Create(
        {.transport = control, .data_transport = data.transport, .tenant = tenant});
  }

  /// A value in the form that Prometheus reads.
  uint64_t Metric(const std::string& name) const {
    PrometheusText page;
    server_->VisitMetrics(page);
    network_->VisitMetrics(page);
    const std::string text = page.Text(), line = "\nquire_" + name + " ";
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::strtoull(&text[at + line.size()], nullptr, 10);
  }

  TempDir dir_;
  std::unique_ptr<kvserver::Server> server_;
  std::unique_ptr<kvserver::NetworkServer> network_;
};

/// Runs over each kind of data connection.
class CallerProofOverTest : public CallerProofTest,
                            public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (kind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    Serve({kind()});
  }
  std::string kind() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Transports, CallerProofOverTest, ::testing::Values("grpc", "shm", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(CallerProofOverTest, WithItsTokenATenantStoresAndRecalls) {
  for (const auto& [tenant, secret] :
       {std::pair{"default", kDefaultToken}, {"other", kOtherToken}}) {
    const auto client = Connect(kind(), tenant, TokenOf(secret), TokenOf(secret));
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_EQ(PutFaultDocument(**client), OkStatus());
    const auto session = OpenFaultSession(**client);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto result = (*session)->Recall(WantAllOfIt());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->placements.size(), FaultUnits());
    EXPECT_EQ(CheckFaultUnits(result->placements, result->payload), OkStatus());
  }
  EXPECT_EQ(Metric("calls_unauthenticated_total"), 0u);
}

TEST_P(CallerProofOverTest, WithoutItNothingIsOffered) {
  for (const BearerToken& token :
       {BearerToken(), TokenOf(kOtherToken), TokenOf(std::string(40, 'x'))}) {
    const Status status = Connect(kind(), "default", token, token).status();
    EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(kRefused));
    EXPECT_THAT(std::string(Message(status)), Not(HasSubstr(kOtherToken)));
  }
  EXPECT_EQ(Metric("calls_unauthenticated_total"), 3u);
  EXPECT_EQ(Metric("transport_offers_total"), 0u);
  EXPECT_EQ(Metric("transport_tickets"), 0u);
}

TEST_F(CallerProofTest, AStreamNeedsTheTokenBesidesItsTicket) {
  Serve({"grpc"});
  for (const BearerToken& token : {BearerToken(), TokenOf(kOtherToken)}) {
    const Status status = Connect("grpc", "default", TokenOf(kDefaultToken), token).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(kRefused));
  }
  EXPECT_EQ(Metric("transport_tickets"), 2u) << "a stream that is refused uses no ticket up";
}

TEST_F(CallerProofTest, NoMethodAnswersWithoutProof) {
  Serve({"grpc"});
  WorkerFixture fixture;
  const auto worker = worker::WorkerServer::Start({.tokens = Tokens()}, &fixture.engine());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const std::vector<std::string> methods = Methods();
  EXPECT_GT(methods.size(), 25u);
  uint64_t refused = 0;
  for (const std::string& path : methods) {
    SCOPED_TRACE(path);
    const bool of_worker = path.starts_with(kWorkerService);
    const std::string at = of_worker ? (*worker)->address() : address();
    std::vector<Caller> callers;
    for (const std::string& proof : WrongProofs()) callers.push_back({"default", proof});
    callers.push_back({"", Bearer(kOtherToken)});
    if (!of_worker) {  // A worker has one tenant, whatever the call names.
      callers.push_back({"other", Bearer(kDefaultToken)});
      callers.push_back({"nobody", Bearer(kDefaultToken)});
      callers.push_back({"no name", Bearer(kDefaultToken)});
    }
    for (const Caller& caller : callers) {
      SCOPED_TRACE(caller.tenant + " " + caller.authorization);
      ExpectRefused(Call(at, path, caller));
      refused += of_worker ? 0 : 1;
    }
  }
  EXPECT_EQ(Metric("calls_unauthenticated_total"), refused);
  EXPECT_EQ(Metric("calls_total"), 0u) << "a call got as far as a service";
  EXPECT_EQ(Metric("transport_offers_total"), 0u);
  EXPECT_EQ(Metric("transport_tickets"), 0u);
}

TEST_F(CallerProofTest, EveryMethodIsReachedWithProof) {
  Serve({"grpc"});
  WorkerFixture fixture;
  const auto worker = worker::WorkerServer::Start({.tokens = Tokens()}, &fixture.engine());
  ASSERT_TRUE(worker.ok()) << worker.status();
  for (const std::string& path : Methods()) {
    SCOPED_TRACE(path);
    const std::string at = path.starts_with(kWorkerService) ? (*worker)->address() : address();
    // A call without a name belongs to the default tenant.
    for (const char* const tenant : {"default", ""}) {
      const grpc::Status status = Call(at, path, {tenant, Bearer(kDefaultToken)}).status;
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
      EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    }
  }
}

TEST_F(CallerProofTest, ProbesNeedNoProofAndReflectionIsNotThere) {
  Serve({"grpc"});
  const Outcome health = Call(address(), "/grpc.health.v1.Health/Check", {});
  EXPECT_TRUE(health.status.ok()) << health.status.error_message();
  EXPECT_TRUE(health.answered);
  EXPECT_EQ(Call(address(), kReflection, {"default", Bearer(kDefaultToken)}).status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(CallerProofTest, WithoutTokensEveryCallerIsBelieved) {
  Serve({"grpc"}, nullptr);
  for (const std::string& proof : WrongProofs()) {
    const Outcome stats = Call(address(), "/quire.v1.Admin/Stats", {"other", proof});
    EXPECT_TRUE(stats.status.ok()) << stats.status.error_message();
  }
  EXPECT_EQ(Metric("calls_unauthenticated_total"), 0u);
}

}  // namespace
}  // namespace quire::testing
