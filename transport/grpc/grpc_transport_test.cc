// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_transport.h"

#include <grpcpp/channel.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

#include "common/base/observe/metrics.h"
#include "common/base/retry_hint.h"
#include "common/base/unique_fd.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/health_lines.h"
#include "tests/kit/look_again.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/server_memory.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class GrpcUnderTest final : public TransportUnderTest {
 public:
  GrpcUnderTest(CallHandler* handler, uint64_t max_message_bytes) {
    auto server = GrpcServer::Start({.max_message_bytes = max_message_bytes}, handler);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    auto transport = GrpcTransport::Create(
        {.address = server_->address(), .max_message_bytes = max_message_bytes});
    EXPECT_TRUE(transport.ok()) << transport.status();
    transport_ = std::move(*transport);
  }
  ~GrpcUnderTest() override {
    transport_.reset();
    server_->Shutdown(Duration::zero());
  }
  Transport& transport() override { return *transport_; }
  void KillPeer() override { server_->Shutdown(Duration::zero()); }

 private:
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcTransport> transport_;
};

std::unique_ptr<TransportUnderTest> MakeGrpc(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<GrpcUnderTest>(handler, max_message_bytes);
}

INSTANTIATE_TEST_SUITE_P(Grpc, TransportConformance, ::testing::Values(&MakeGrpc));

class GrpcServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<GrpcServer> Start(const GrpcServer::Options& options) {
    auto server = GrpcServer::Start(options, &handler_);
    EXPECT_TRUE(server.ok()) << server.status();
    return std::move(*server);
  }
  Status Call(const std::string& address, std::string_view method, const CallMessage& request,
              CallMessage* reply, uint64_t max_message_bytes = kTestMaxMessageBytes) {
    auto transport =
        GrpcTransport::Create({.address = address, .max_message_bytes = max_message_bytes});
    EXPECT_TRUE(transport.ok()) << transport.status();
    return (*transport)->Call(method, request, reply, {.timeout = std::chrono::seconds(60)});
  }

  TestHandler handler_;
};

TEST_F(GrpcServerTest, ATakenPortIsRefusedNamingIt) {
  const auto first = Start({});
  const auto second = GrpcServer::Start({.address = first->address()}, &handler_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr(first->address()));
}

TEST_F(GrpcServerTest, OptionsOutOfRangeAreRefused) {
  for (const GrpcServer::Options& options :
       {GrpcServer::Options{.address = ""}, GrpcServer::Options{.max_message_bytes = 0},
        GrpcServer::Options{.max_message_bytes = uint64_t{1} << 40},
        GrpcServer::Options{.max_threads = 0}}) {
    EXPECT_EQ(GrpcServer::Start(options, &handler_).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(GrpcTransport::Create({.address = ""}).ok());
  EXPECT_FALSE(GrpcTransport::Create({.address = "a:1", .max_message_bytes = 0}).ok());
}

TEST_F(GrpcServerTest, TheServerEnforcesItsOwnLimitOnRequests) {
  const auto server = Start({.max_message_bytes = 1 << 20});
  CallMessage request, reply;
  request.payload.Append(std::vector<std::byte>(2 << 20));
  const Status status = Call(server->address(), "quire.test.A/Echo", request, &reply);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("send less at a time"));
}

/// Answers with the priority of the call.
class PriorityHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {"quire.test.A/Priority"}; }
  Status Handle(const CallContext& context, std::string_view, const CallMessage&,
                ReplyWriter& reply) override {
    const auto name = std::as_bytes(std::span(PriorityName(context.priority)));
    CallMessage answer;
    answer.payload.Append(std::vector<std::byte>(name.begin(), name.end()));
    return reply.Write(std::move(answer));
  }
};

Priority PriorityIn(const CallMessage& answer) {
  std::string name(answer.payload.size_bytes(), ' ');
  answer.payload.CopyTo(reinterpret_cast<std::byte*>(name.data()));
  return PriorityOf(name);
}

TEST_F(GrpcServerTest, UnaryCallsSayHowUrgentTheyAre) {
  PriorityHandler handler;
  const auto server = GrpcServer::Start({}, &handler);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto transport = GrpcTransport::Create({.address = (*server)->address()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  for (const Priority priority : {Priority::kPrefetch, Priority::kNormal, Priority::kCorrection}) {
    CallMessage reply;
    const CallOptions options{.timeout = std::chrono::seconds(60), .priority = priority};
    ASSERT_EQ((*transport)->Call("quire.test.A/Priority", {}, &reply, options), OkStatus());
    EXPECT_EQ(PriorityIn(reply), priority);
    const auto call = (*transport)->Start("quire.test.A/Priority", {}, options);
    ASSERT_TRUE(call.ok()) << call.status();
    const auto part = (*call)->Next(TimePoint::max());
    ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
    EXPECT_EQ(PriorityIn(**part), priority);
  }
  EXPECT_EQ(PriorityOf("urgent!"), Priority::kNormal);
}

TEST_F(GrpcServerTest, AMalformedTraceparentIsIgnored) {
  const auto server = Start({});
  const auto channel = *MakeGrpcChannel(server->address(), kTestMaxMessageBytes);
  const grpc::internal::RpcMethod method("/quire.test.A/Trace",
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  for (const std::string& text :
       {std::string("nonsense"), std::string(5000, '0'),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")}) {
    grpc::ClientContext context;
    context.AddMetadata(kTraceparent, text);
    grpc::ByteBuffer answer;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            channel.get(), method, &context, ToByteBuffer(CallMessage()), &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    CallMessage reply;
    ASSERT_EQ(FromByteBuffer(answer, &reply), OkStatus());
    EXPECT_EQ(TextOf(reply.control), "none");
  }
}

TEST_F(GrpcServerTest, ANewServerIsFoundOnTheOldAddress) {
  auto server = Start({});
  auto transport = GrpcTransport::Create({.address = server->address()});
  ASSERT_TRUE(transport.ok());
  CallMessage reply;
  const CallOptions options{.timeout = std::chrono::seconds(60)};
  ASSERT_TRUE((*transport)->Call("quire.test.A/Echo", {}, &reply, options).ok());
  const GrpcServer::Options same{.address = server->address()};
  server->Shutdown(Duration::zero());
  server.reset();
  ASSERT_EQ((*transport)->Call("quire.test.A/Echo", {}, &reply, options).code(),
            StatusCode::kUnavailable);
  server = Start(same);
  Status status;
  do {  // Reconnecting backs off for at most a second.
    status = (*transport)->Call("quire.test.A/Echo", {}, &reply, options);
  } while (status.code() == StatusCode::kUnavailable);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(GrpcServerTest, AStartedCallRunsBesideTheCallerAndCanBeCancelled) {
  const auto server = Start({});
  const auto transport = GrpcTransport::Create({.address = server->address()});
  ASSERT_TRUE(transport.ok());
  const CallOptions options{.timeout = std::chrono::seconds(60)};
  auto echo = (*transport)->Start("quire.test.A/Echo", {Control("hi"), {}}, options);
  ASSERT_TRUE(echo.ok()) << echo.status();
  const auto part = (*echo)->Next(TimePoint::max());
  ASSERT_TRUE(part.ok() && *part) << part.status();
  EXPECT_EQ(TextOf((*part)->control), "hi");
  EXPECT_FALSE((*echo)->Next(TimePoint::max())->has_value());

  auto block = (*transport)->Start("quire.test.B/Block", {}, options);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ((*block)->Next(SystemClock().Now()).status().code(), StatusCode::kDeadlineExceeded);
  (*block)->Cancel();
  EXPECT_EQ((*block)->Next(TimePoint::max()).status().code(), StatusCode::kCancelled);
  handler_.Release();
}

TEST_F(GrpcServerTest, ATokenGoesWithCallsOfBothKinds) {
  auto tokens = TenantTokens::Parse(kTenantTokens, {});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto server = Start({.tokens = std::make_shared<const TenantTokens>(*std::move(tokens))});
  const CallOptions options{.tenant = "other", .timeout = std::chrono::seconds(60)};
  for (const auto& [secret, code] :
       {std::pair{kOtherToken, StatusCode::kOk}, {kDefaultToken, StatusCode::kUnauthenticated}}) {
    const auto transport =
        GrpcTransport::Create({.address = server->address(), .token = *BearerToken::Make(secret)});
    ASSERT_TRUE(transport.ok()) << transport.status();
    CallMessage reply;
    EXPECT_EQ((*transport)->Call("quire.test.A/Echo", {}, &reply, options).code(), code);
    const auto call = (*transport)->Start("quire.test.A/Echo", {}, options);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ((*call)->Next(TimePoint::max()).status().code(), code);
  }
}

TEST_F(GrpcServerTest, AnswersTheStandardHealthService) {
  const auto server = Start({});
  CallMessage reply;
  const Status status = Call(server->address(), "grpc.health.v1.Health/Check", {}, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reply.control, "\x08\x01");  // HealthCheckResponse{status = SERVING}
}

/// A hand-made HTTP/2 connection that sends requests and reads nothing. Its window for answers is
/// 0, or its socket buffer is small.
class TakesNothing {
 public:
  explicit TakesNothing(int port, int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes),
                0);
    }
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  void Greet(uint32_t window = 0) {
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    SendFrame(4, 0, 0, std::string("\0\4", 2) + BigEndian(window));  // SETTINGS_INITIAL_WINDOW_SIZE
    if (window > 0) SendFrame(8, 0, 0, BigEndian(window));           // WINDOW_UPDATE
  }
  void Call(const std::string& path, const std::string& message = "") {
    std::string headers = "\x83\x86";  // :method POST, :scheme http
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":path", path},
                                      {":authority", "x"},
                                      {"content-type", "application/grpc"},
                                      {"te", "trailers"}}) {
      headers += std::string(1, 0) + static_cast<char>(name.size()) + name +
                 static_cast<char>(value.size()) + value;
    }
    SendFrame(1, 4, stream_, headers);  // HEADERS, END_HEADERS
    const std::string size = BigEndian(static_cast<uint32_t>(message.size()));
    SendFrame(0, 1, stream_, std::string(1, 0) + size + message);  // DATA, END_STREAM
    stream_ += 2;
  }

 private:
  static std::string BigEndian(uint32_t value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(value >> shift));
    return bytes;
  }
  void SendFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& body) {
    std::string head = BigEndian(static_cast<uint32_t>(body.size())).substr(1);
    head.push_back(static_cast<char>(type));
    head.push_back(static_cast<char>(flags));
    Send(head + BigEndian(stream) + body);
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  const UniqueFd fd_;
  uint32_t stream_ = 1;
};

// Promise: a caller that reads no answers does not delay those of others.
TEST_F(GrpcServerTest, WhoTakesNoAnswersKeepsNoOthersFromTheirs) {
  HealthLines health;
  const auto server = Start({.max_threads = 8,
                             .max_calls_per_tenant = 4,
                             .stall_timeout = std::chrono::seconds(60),
                             .health = health.board()});
  std::vector<std::unique_ptr<TakesNothing>> greedy;
  for (int i = 0; i < 3; ++i) {
    greedy.push_back(std::make_unique<TakesNothing>(server->port()));
    greedy.back()->Greet();
    for (int call = 0; call < 100; ++call) greedy.back()->Call("/quire.test.A/Echo");
  }
  ASSERT_TRUE(BecomesTrue([&] { return !health.lines().empty(); }));
  EXPECT_THAT(health.lines().front(), HasSubstr("call_refused: "));
  const auto transport = GrpcTransport::Create({.address = server->address()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const CallOptions other{.tenant = "other", .timeout = std::chrono::seconds(20)};
  for (int i = 0; i < 50; ++i) {
    CallMessage reply;
    Status status;
    do {  // Promise: a refusal has a retry hint.
      status = (*transport)->Call("quire.test.A/Echo", {}, &reply, other);
    } while (RetryAfter(status));
    ASSERT_EQ(status, OkStatus());
  }
}

// Promise: many connections that read nothing, not even refusals, delay no others.
TEST_F(GrpcServerTest, WhoReadsNothingAtAllKeepsNoOthersFromTheirs) {
  const auto server = Start(
      {.max_threads = 16, .max_calls_per_tenant = 8, .stall_timeout = std::chrono::seconds(600)});
  const std::string large = Control("", 100000);
  std::vector<std::unique_ptr<TakesNothing>> greedy;
  for (int i = 0; i < 6; ++i) {
    greedy.push_back(std::make_unique<TakesNothing>(server->port(), /*receive_bytes=*/1024));
    greedy.back()->Greet(/*window=*/1 << 30);
    for (int call = 0; call < 200; ++call) greedy.back()->Call("/quire.test.B/Produce", large);
  }
  while (MetricValuesOf(*server)["calls_over_tenant_limit"] == 0) WaitToLookAgain();
  const auto transport = GrpcTransport::Create({.address = server->address()});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const CallOptions other{.tenant = "other", .timeout = std::chrono::seconds(20)};
  for (int i = 0; i < 50; ++i) {
    CallMessage reply;
    Status status;
    do {
      status = (*transport)->Call("quire.test.A/Echo", {}, &reply, other);
    } while (RetryAfter(status));
    ASSERT_EQ(status, OkStatus());
  }
}

TEST_F(GrpcServerTest, AnAnswerThatNobodyTakesIsGivenUp) {
  HealthLines health;
  const auto server = Start({.max_threads = 8,
                             .max_calls_per_tenant = 2,
                             .stall_timeout = std::chrono::milliseconds(200),
                             .health = health.board()});
  TakesNothing greedy(server->port());
  greedy.Greet();
  for (int call = 0; call < 2; ++call) greedy.Call("/quire.test.A/Echo");
  const auto stalled = [&] { return MetricValuesOf(*server)["calls_stalled"]; };
  while (stalled() < 2) WaitToLookAgain();
  CallMessage reply;
  Status status;
  do {
    status = Call(server->address(), "quire.test.A/Echo", {}, &reply);
  } while (RetryAfter(status));
  EXPECT_EQ(status, OkStatus());
  EXPECT_THAT(health.lines(), Contains(HasSubstr("takes no answer")));
}

// Promise: a shutdown waits for calls, not for silent connections.
TEST_F(GrpcServerTest, SilentConnectionsDoNotDelayAShutdown) {
  const auto server = Start({});
  TakesNothing silent(server->port());
  TakesNothing greeted(server->port());
  greeted.Greet();
  CallMessage reply;
  ASSERT_EQ(Call(server->address(), "quire.test.A/Echo", {}, &reply), OkStatus());
  const TimePoint start = SystemClock().Now();
  server->Shutdown(std::chrono::seconds(30));
  EXPECT_LT(SystemClock().Now() - start, std::chrono::seconds(5));
}

TEST_F(GrpcServerTest, ShutdownIsIdempotent) {
  const auto server = Start({});
  server->Shutdown(std::chrono::seconds(1));
  server->Shutdown(std::chrono::seconds(1));
}

}  // namespace
}  // namespace quire::testing
