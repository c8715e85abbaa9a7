// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over UCX: the suites of transports, for each available lane.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/testing/parts_conformance.h"
#include "transport/testing/pipe_connection.h"
#include "transport/testing/streaming_conformance.h"
#include "transport/testing/transport_conformance.h"
#include "transport/testing/ucx_test_peer.h"

namespace quire::testing {
namespace {

class Ucx final : public PipeKind {
 public:
  explicit Ucx(const UcxLane& lane) : lane_(lane) {}
  std::string SkipReason() const override { return WhyNoLane(lane_); }
  StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) override {
    return ListenUcx("127.0.0.1:0", lane_.options, std::move(accept));
  }
  StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) override {
    return ConnectUcx(address, lane_.options);
  }

 private:
  const UcxLane lane_;
};

std::unique_ptr<TransportUnderTest> MakeOver(const UcxLane& lane, CallHandler* handler,
                                             uint64_t max_message_bytes) {
  return std::make_unique<PipeConnectionUnderTest>(std::make_unique<Ucx>(lane), handler,
                                                   max_message_bytes);
}
template <size_t kLane>
std::unique_ptr<TransportUnderTest> Make(CallHandler* handler, uint64_t max_message_bytes) {
  return MakeOver(UcxLanesHere().at(kLane), handler, max_message_bytes);
}

/// Gives the lane a queue shorter than the replies of the streaming suite. Senders then wait for
/// room as they do for larger replies.
UcxLane WithShortQueue(UcxLane lane) {
  lane.options.queue_bytes = 256 << 10;
  return lane;
}
template <size_t kLane>
std::unique_ptr<TransportUnderTest> MakeShort(CallHandler* handler, uint64_t max_message_bytes) {
  return MakeOver(WithShortQueue(UcxLanesHere().at(kLane)), handler, max_message_bytes);
}

constexpr std::array<TransportFactory, 4> kLanes = {&Make<0>, &Make<1>, &Make<2>, &Make<3>};
constexpr std::array<TransportFactory, 4> kShortLanes = {&MakeShort<0>, &MakeShort<1>,
                                                         &MakeShort<2>, &MakeShort<3>};

std::string NameOf(const ::testing::TestParamInfo<TransportFactory>& info) {
  return UcxLanesHere().at(info.index).name;
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, ::testing::ValuesIn(kLanes), &NameOf);
INSTANTIATE_TEST_SUITE_P(Ucx, PartsConformance, ::testing::ValuesIn(kLanes), &NameOf);
INSTANTIATE_TEST_SUITE_P(Ucx, StreamingConformance, ::testing::ValuesIn(kShortLanes), &NameOf);

}  // namespace
}  // namespace quire::testing
