// SPDX-License-Identifier: Apache-2.0
//
// Batches whose layers stay on the device as long as they fit. Layers leave and come back, and
// nothing of it changes a token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/random.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/batch_fixture.h"
#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::BatchTest;
using testing::EngineFixture;
using testing::FakeCudaDevice;
using testing::FakeCudaStream;
using ::testing::HasSubstr;
using testing::LateStreams;
using testing::Stream;

constexpr uint32_t kLayers = 6;
/// A page of one layer; a budget has six of them.
constexpr uint64_t kSlotBytes = 4 * 2 * 8 * 2 * sizeof(float);
constexpr uint64_t kAllOff = kLayers * 6 * kSlotBytes;

/// Checks what holds in every step of a batch.
class WatchedBatch {
 public:
  WatchedBatch(Batch* batch, uint64_t slot_bytes) : batch_(*batch), slot_bytes_(slot_bytes) {}

  /// `starts`: a sequence may start in this step, and take several layers at once.
  bool Step(bool starts = false) {
    const uint64_t before = offloaded();
    if (!batch_.Step()) return false;
    uint64_t bytes = 0;
    for (const SequenceStats& stats : batch_.Stats()) bytes += stats.slot_bytes;
    EXPECT_LE(bytes, slot_bytes_) << "Eq. 7";
    if (!starts) EXPECT_LE(offloaded(), before + 1) << "one more token costs more than a layer";
    most_ = std::max(most_, offloaded());
    most_bytes_ = std::max(most_bytes_, bytes);
    return true;
  }
  uint64_t offloaded() const { return Value("batch_offloaded_layers"); }
  uint64_t most_offloaded() const { return most_; }
  uint64_t most_bytes() const { return most_bytes_; }
  uint64_t Value(const std::string& metric) const { return MetricValuesOf(batch_).at(metric); }

 private:
  Batch& batch_;
  const uint64_t slot_bytes_;
  uint64_t most_ = 0;
  uint64_t most_bytes_ = 0;
};

class WholeLayersTest : public BatchTest {
 protected:
  explicit WholeLayersTest(Device* device = &CpuDevice())
      : BatchTest(device, EngineFixture::Small(), 61, {.num_layers = kLayers}) {}

  std::unique_ptr<Batch> MakeCapped(uint64_t slot_bytes,
                                    OffloadRule rule = OffloadRule::kLayerByLayer) {
    return Make({.max_running = 4, .slot_bytes = slot_bytes, .offload = rule});
  }
  uint64_t Recalls() { return fixture_.store().calls("Session/Recall"); }

  /// A sequence outgrows its slots by `layers` layers or more.
  void ExpectLayersToLeave(std::string_view policy, uint32_t tokens, uint64_t layers) {
    SCOPED_TRACE(policy);
    constexpr uint64_t kCap = 60'000;
    const auto batch = MakeCapped(kCap);
    const BatchRequest request = Request(2, 3, tokens, Retrieval(policy));
    const Stream stream = Submit(*batch, request);
    WatchedBatch watched(batch.get(), kCap);
    ASSERT_TRUE(watched.Step(/*starts=*/true));
    EXPECT_EQ(watched.offloaded(), 0u) << "17 pages of 6 layers take 52224 bytes";
    while (watched.Step()) {
    }
    EXPECT_GE(watched.most_offloaded(), layers);
    EXPECT_GT(watched.most_bytes(), kCap - 2 * kLayers * 4 * kSlotBytes) << "memory lies idle";
    EXPECT_EQ(watched.Value("batch_layers_left"), watched.most_offloaded());
    EXPECT_EQ(Read(*stream), Alone(request));
  }

  /// Layers of one sequence leave with another one, come back, and leave again.
  void ExpectLayersToComeBack(std::string_view policy) {
    SCOPED_TRACE(policy);
    constexpr uint64_t kCap = 150 * kSlotBytes;
    const auto batch = MakeCapped(kCap);
    const BatchRequest first = Request(3, 3, 110, Retrieval(policy));
    const BatchRequest second = Request(4, 3, 20, Retrieval(policy));
    const Stream a = Submit(*batch, first), b = Submit(*batch, second);
    WatchedBatch watched(batch.get(), kCap);
    ASSERT_TRUE(watched.Step(/*starts=*/true));
    while (watched.Value("batch_finished") == 0) ASSERT_TRUE(watched.Step());
    const uint64_t with_both = watched.offloaded();
    EXPECT_GE(with_both, 2u);
    while (watched.Value("batch_layers_returned") < with_both) ASSERT_TRUE(watched.Step());
    EXPECT_EQ(watched.offloaded(), 0u);
    while (watched.Step()) {
    }
    EXPECT_GE(watched.Value("batch_layers_left"), with_both + 2) << "they left once more";
    EXPECT_EQ(Read(*a), Alone(first));
    EXPECT_EQ(Read(*b), Alone(second));
  }
};

/// On a device all of whose streams are late, so that a missing wait changes the tokens.
class WholeLayersOnDeviceTest : public WholeLayersTest {
 protected:
  WholeLayersOnDeviceTest() : WholeLayersTest(&FakeCudaDevice()) {}

  const LateStreams late_{
      {FakeCudaStream::kCompute, FakeCudaStream::kCopy, FakeCudaStream::kConvert}};
};

TEST_F(WholeLayersTest, WithoutACapNothingIsRecalled) {
  const auto batch = MakeCapped(uint64_t{1} << 30);
  const BatchRequest request = Request(1, 3, 60);
  const uint64_t recalls = Recalls();
  const Stream stream = Submit(*batch, request);
  RunToTheEnd(*batch);
  EXPECT_EQ(Recalls(), recalls);
  EXPECT_GT(stream->result().stats.selections, 60u) << "a layer that is whole selects, too";
  EXPECT_EQ(Read(*stream), Alone(request));
}

TEST_F(WholeLayersTest, AsASequenceGrowsItsLayersLeaveOneAfterTheOther) {
  for (const std::string_view policy : {"quest", "freekv", "arkvale", "specontext"}) {
    ExpectLayersToLeave(policy, /*tokens=*/300, /*layers=*/4);
  }
}

TEST_F(WholeLayersOnDeviceTest, LayersLeave) {
  ExpectLayersToLeave("freekv", /*tokens=*/50, /*layers=*/2);
  ExpectLayersToLeave("specontext", /*tokens=*/50, /*layers=*/2);
}

TEST_F(WholeLayersTest, AllAtOnceLeavesWithTheFirstThatHasTo) {
  const auto batch = MakeCapped(60'000, OffloadRule::kAllAtOnce);
  const BatchRequest request = Request(2, 3, 100);
  const Stream stream = Submit(*batch, request);
  uint64_t before = 0;
  while (batch->Step()) {
    const uint64_t offloaded = Value(*batch, "batch_offloaded_layers");
    ASSERT_TRUE(offloaded == before || (before == 0 && offloaded == kLayers));
    before = offloaded;
  }
  EXPECT_EQ(before, kLayers);
  EXPECT_EQ(Read(*stream), Alone(request));
}

TEST_F(WholeLayersTest, LayersComeBackWhenASequenceEndsAndLeaveAgain) {
  for (const std::string_view policy : {"quest", "freekv", "specontext"}) {
    ExpectLayersToComeBack(policy);
  }
}

TEST_F(WholeLayersOnDeviceTest, LayersComeBack) { ExpectLayersToComeBack("freekv"); }

TEST_F(WholeLayersTest, SequencesOfEveryPolicyComeAndGoWithinTheMemory) {
  constexpr uint64_t kSeed = 17;
  std::cout << "seed " << kSeed << "\n";
  SeededRandom random(kSeed);
  constexpr uint64_t kCap = 3 * kAllOff + 40'000;
  const auto batch = MakeCapped(kCap);
  std::vector<BatchRequest> requests;
  for (const std::string_view policy : AllPolicyNames()) {
    if (policy == "full" || policy == "razor")
      continue;  // More than there is, with nothing to move.
    RetrievalOptions retrieval = Retrieval(policy);
    if (random.Below(3) == 0) retrieval.uncompressed_layers = {0};
    requests.push_back(Request(30 + requests.size(), 1 + random.Below(9),
                               static_cast<uint32_t>(20 + random.Below(60)), retrieval));
    // Some compute their own prompts, with all pages of all layers.
    if (random.Below(3) == 0) requests.back().document.reset();
  }
  std::vector<Stream> streams;
  WatchedBatch watched(batch.get(), kCap);
  for (const BatchRequest& request : requests) {
    streams.push_back(Submit(*batch, request));
    for (uint64_t steps = random.Below(25); steps > 0; --steps) watched.Step(/*starts=*/true);
  }
  while (watched.Step(/*starts=*/true)) {
  }
  EXPECT_GT(watched.Value("batch_layers_left"), 3u);
  EXPECT_GT(watched.Value("batch_layers_returned"), 0u);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(requests[i].retrieval->policy);
    EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
  }
}

TEST_F(WholeLayersTest, WhereNoLayerHelpsTheLastToComeWaits) {
  constexpr uint64_t kCap = 2 * kAllOff;  // Room for two sequences.
  const auto batch = MakeCapped(kCap);
  const BatchRequest first = Request(5, 3, 80), second = Request(6, 3, 80);
  BatchRequest urgent = Request(7, 3, 10);
  urgent.priority = 15;
  const Stream a = Submit(*batch, first), b = Submit(*batch, second);
  WatchedBatch watched(batch.get(), kCap);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(watched.Step(i == 0));
  const Stream c = Submit(*batch, urgent);
  while (watched.Step(/*starts=*/true)) {
  }
  EXPECT_GT(watched.Value("batch_preempted"), 0u);
  EXPECT_EQ(Read(*a), Alone(first));
  EXPECT_EQ(Read(*b), Alone(second));
  EXPECT_EQ(Read(*c), Alone(urgent));
}

TEST_F(WholeLayersTest, FailuresWhileLayersMoveChangeNoToken) {
  const BatchRequest request = Request(8, 3, 200);
  const std::vector<TokenId> expected = Alone(request);
  for (const bool restart : {false, true}) {
    SCOPED_TRACE(restart);
    const auto batch = MakeCapped(60'000);
    const Stream stream = Submit(*batch, request);
    // The first recall is that of the first layer that leaves.
    if (!restart) fixture_.store().FailOnce("Session/Recall", 0, NotFound("no such session"));
    while (Value(*batch, "batch_layers_left") == 0) ASSERT_TRUE(batch->Step());
    if (restart) fixture_.store().Restart();
    RunToTheEnd(*batch);
    EXPECT_EQ(Read(*stream), expected);
    EXPECT_EQ(Value(*batch, "batch_restarted"), 1u);
  }
}

TEST_F(WholeLayersTest, SlotsHaveWhatTheModelAsMeasuredLeavesOfTheDevice) {
  const uint64_t used = CpuDevice().allocated_bytes();
  EXPECT_GT(used, 0u) << "the model is there";
  const Status refused = Batch::Create(&fixture_.engine(), {.device_bytes = used / 2}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("leaves no slots within"));
  // Steps work in less than a tenth of a MiB.
  const BatchLimits limits{.max_running = 1,
                           .step_tokens = 1,
                           .offload = OffloadRule::kLayerByLayer,
                           .device_bytes = used + kAllOff + 100'000};
  const auto batch = Make(limits);
  const BatchRequest request = Request(9, 1, 300);
  const Stream stream = Submit(*batch, request);
  while (batch->Step()) {
    uint64_t bytes = 0;
    for (const SequenceStats& stats : batch->Stats()) bytes += stats.slot_bytes;
    ASSERT_LE(used + bytes, limits.device_bytes);
  }
  EXPECT_GT(Value(*batch, "batch_layers_left"), 0u);
  EXPECT_EQ(Read(*stream), Alone(request));
}

}  // namespace
}  // namespace quire::worker
