// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over gRPC streams: the suites of transports.
#include <map>

#include "transport/frames/frame_client.h"
#include "transport/frames/frame_server.h"
#include "transport/grpc/grpc_pipe.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/parts_conformance.h"
#include "transport/testing/streaming_conformance.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {
namespace {

/// Accepts every ticket but an empty one, for the tenant whose name it is.
StatusOr<std::string> TenantOfTicket(std::string_view, std::string_view ticket) {
  if (ticket.empty()) return MakeStatus(StatusCode::kUnauthenticated, "no ticket");
  return std::string(ticket);
}

class GrpcConnectionUnderTest final : public TransportUnderTest {
 public:
  GrpcConnectionUnderTest(CallHandler* handler, uint64_t max_message_bytes)
      : max_message_bytes_(max_message_bytes),
        frames_(handler, &TenantOfTicket, {.max_message_bytes = max_message_bytes}) {
    auto server =
        GrpcServer::Start({.max_message_bytes = max_message_bytes,
                           .accept_pipe = [this](auto pipe) { frames_.Accept(std::move(pipe)); },
                           .max_streams = 8},
                          handler);
    EXPECT_TRUE(server.ok()) << server.status();
    grpc_ = *std::move(server);
    (void)TransportOf("default");  // Made here, because tests may ask for it from several threads.
  }
  ~GrpcConnectionUnderTest() override {
    clients_.clear();
    frames_.Shutdown();
    grpc_->Shutdown(Duration::zero());
  }

  Transport& transport() override { return TransportOf("default"); }
  Transport& TransportOf(const std::string& tenant) override {
    std::shared_ptr<FrameClient>& client = clients_[tenant];
    if (client == nullptr) {
      auto connected = Connect(tenant, tenant);
      EXPECT_TRUE(connected.ok()) << connected.status();
      client = *std::move(connected);
    }
    return *client;
  }
  void KillPeer() override { grpc_->Shutdown(Duration::zero()); }

  StatusOr<std::shared_ptr<FrameClient>> Connect(const std::string& tenant,
                                                 const std::string& ticket) {
    QUIRE_ASSIGN_OR_RETURN(auto pipe, ConnectGrpcPipe({.address = grpc_->address(),
                                                       .max_message_bytes = max_message_bytes_}));
    return FrameClient::Connect(std::move(pipe), {.tenant = tenant,
                                                  .ticket = ticket,
                                                  .max_message_bytes = max_message_bytes_,
                                                  .window_bytes = 1 << 20,
                                                  .sends_traces = true});
  }

 private:
  const uint64_t max_message_bytes_;
  FrameServer frames_;
  std::unique_ptr<GrpcServer> grpc_;
  std::map<std::string, std::shared_ptr<FrameClient>> clients_;
};

std::unique_ptr<TransportUnderTest> MakeGrpc(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<GrpcConnectionUnderTest>(handler, max_message_bytes);
}

INSTANTIATE_TEST_SUITE_P(GrpcStream, TransportConformance, ::testing::Values(&MakeGrpc));
INSTANTIATE_TEST_SUITE_P(GrpcStream, PartsConformance, ::testing::Values(&MakeGrpc));
INSTANTIATE_TEST_SUITE_P(GrpcStream, StreamingConformance, ::testing::Values(&MakeGrpc));

TEST(GrpcConnectionTest, AConnectionThatIsRefusedIsNotMade) {
  TestHandler handler;
  GrpcConnectionUnderTest under_test(&handler, kTestMaxMessageBytes);
  const Status refused = under_test.Connect("default", "").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated) << refused;
}

}  // namespace
}  // namespace quire::testing
