// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over in-process pipes: the suites of transports.
#include <map>

#include "transport/frames/frame_client.h"
#include "transport/frames/frame_server.h"
#include "transport/local/inproc_pipe.h"
#include "transport/testing/parts_conformance.h"
#include "transport/testing/streaming_conformance.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {
namespace {

/// Accepts every ticket, for the tenant whose name it is.
StatusOr<std::string> TenantOfTicket(std::string_view, std::string_view ticket) {
  return std::string(ticket);
}

class FrameUnderTest final : public TransportUnderTest {
 public:
  FrameUnderTest(CallHandler* handler, uint64_t max_message_bytes, const InprocOptions& pipe)
      : max_message_bytes_(max_message_bytes),
        pipe_(pipe),
        server_(handler, &TenantOfTicket, {.max_message_bytes = max_message_bytes}) {
    (void)TransportOf("default");  // Made here, because tests may ask for it from several threads.
  }

  Transport& transport() override { return TransportOf("default"); }
  Transport& TransportOf(const std::string& tenant) override {
    std::shared_ptr<FrameClient>& client = clients_[tenant];
    if (client == nullptr) client = Connect(tenant);
    return *client;
  }
  void KillPeer() override { server_.Shutdown(); }

 private:
  std::shared_ptr<FrameClient> Connect(const std::string& tenant) {
    InprocPair pair = MakeInprocPair(pipe_);
    server_.Accept(std::move(pair.server));
    auto client = FrameClient::Connect(
        std::move(pair.client),
        {.tenant = tenant,
         .ticket = tenant,
         .max_message_bytes = max_message_bytes_,
         .window_bytes = 1 << 20,
         .announce =
             [this, tenant](uint64_t connection, uint64_t landing, uint64_t bytes,
                            std::string_view key) {
               return server_.OpenLanding(tenant, connection, landing, key, bytes);
             },
         .withdraw =
             [this, tenant](uint64_t connection, uint64_t landing) {
               EXPECT_TRUE(server_.CloseLanding(tenant, connection, landing).ok());
             },
         .sends_traces = true});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? std::move(client).value() : nullptr;
  }

  const uint64_t max_message_bytes_;
  const InprocOptions pipe_;
  FrameServer server_;
  std::map<std::string, std::shared_ptr<FrameClient>> clients_;
};

std::unique_ptr<TransportUnderTest> MakeFrame(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<FrameUnderTest>(handler, max_message_bytes, InprocOptions());
}
std::unique_ptr<TransportUnderTest> MakeDirect(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<FrameUnderTest>(handler, max_message_bytes,
                                          InprocOptions{.direct_landing = true});
}
/// Cuts parts into pieces of a few slices each.
std::unique_ptr<TransportUnderTest> MakeCut(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<FrameUnderTest>(handler, max_message_bytes,
                                          InprocOptions{.piece_bytes = 1000});
}

INSTANTIATE_TEST_SUITE_P(Frame, TransportConformance, ::testing::Values(&MakeFrame));
INSTANTIATE_TEST_SUITE_P(Frame, PartsConformance, ::testing::Values(&MakeFrame));
INSTANTIATE_TEST_SUITE_P(Cut, TransportConformance, ::testing::Values(&MakeCut));
INSTANTIATE_TEST_SUITE_P(Cut, PartsConformance, ::testing::Values(&MakeCut));
INSTANTIATE_TEST_SUITE_P(Cut, StreamingConformance, ::testing::Values(&MakeCut));
INSTANTIATE_TEST_SUITE_P(Direct, PartsConformance, ::testing::Values(&MakeDirect));
INSTANTIATE_TEST_SUITE_P(Frame, StreamingConformance, ::testing::Values(&MakeFrame));
INSTANTIATE_TEST_SUITE_P(Direct, StreamingConformance, ::testing::Values(&MakeDirect));

}  // namespace
}  // namespace quire::testing
