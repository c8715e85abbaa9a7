// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/frame_pipe_conformance.h"
#include "transport/testing/ucx_test_peer.h"

namespace quire::testing {
namespace {

/// Closes an end to simulate death; tests/integration kills whole processes.
class UcxUnderTest final : public PipesUnderTest {
 public:
  explicit UcxUnderTest(const UcxLane& lane) : lane_(lane), listening_(lane.options) {
    auto connected = listening_.Dial();
    EXPECT_TRUE(connected.ok()) << connected.status();
    client_ = *std::move(connected);
    server_ = listening_.Take();
  }
  std::string SkipReason() const override { return WhyNoLane(lane_); }
  FramePipe& client() override { return *client_; }
  FramePipe& server() override { return *server_; }
  void KillClient() override { client_->Close(); }
  void KillServer() override { server_->Close(); }

 private:
  const UcxLane lane_;
  Listening listening_;
  std::unique_ptr<FramePipe> client_, server_;
};

template <size_t kLane>
std::unique_ptr<PipesUnderTest> Make() {
  return std::make_unique<UcxUnderTest>(UcxLanesHere().at(kLane));
}

INSTANTIATE_TEST_SUITE_P(UcxTcp, FramePipeConformance, ::testing::Values(&Make<0>));
INSTANTIATE_TEST_SUITE_P(UcxTcpRendezvous, FramePipeConformance, ::testing::Values(&Make<1>));
INSTANTIATE_TEST_SUITE_P(UcxSharedMemory, FramePipeConformance, ::testing::Values(&Make<2>));
INSTANTIATE_TEST_SUITE_P(UcxSharedMemoryDirect, FramePipeConformance, ::testing::Values(&Make<3>));
INSTANTIATE_TEST_SUITE_P(UcxDirectWithoutALane, FramePipeConformance,
                         ::testing::Values(+[]() -> std::unique_ptr<PipesUnderTest> {
                           return std::make_unique<UcxUnderTest>(
                               UcxLane{.name = "DirectWithoutALane",
                                       .options = DirectOptionsWithoutALane(),
                                       .carriers = {"tcp/"}});
                         }));

}  // namespace
}  // namespace quire::testing
