// SPDX-License-Identifier: Apache-2.0
//
// The promises of simt.h: correct kernels run as on a GPU, and each kind of fault is detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cuda/library.h"
#include "kernels/simt/simt_test_kernels.h"

namespace quire::kernels::cuda::testing {
namespace {

/// Device memory for a test's kernels, which may access nothing else.
template <typename T>
class Watched {
 public:
  explicit Watched(std::vector<T> values) : values_(std::move(values)) {
    simt::WatchMemory(values_.data(), values_.size() * sizeof(T));
  }
  ~Watched() { simt::UnwatchMemory(values_.data()); }
  T* data() { return values_.data(); }
  const std::vector<T>& values() const { return values_; }

 private:
  std::vector<T> values_;
};

class SimtDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kChecksAccesses) GTEST_SKIP() << "a sanitizer looks at the accesses of this build";
  }
  Watched<int> out_{std::vector<int>(4096, -1)};
};

TEST(SimtTest, EveryThreadOfEveryBlockRunsOnce) {
  constexpr dim3 kGrid(3, 2, 2);
  constexpr dim3 kBlock(5, 7, 3);
  constexpr size_t kThreads = size_t{3} * 2 * 2 * 5 * 7 * 3;
  Watched<int> runs(std::vector<int>(kThreads, 0));
  ASSERT_EQ(CountRuns(kGrid, kBlock, runs.data()), OpStatus::kOk);
  EXPECT_EQ(runs.values(), std::vector<int>(kThreads, 1));
}

TEST(SimtTest, BlocksComeInAnotherOrderWithAnotherSeed) {
  constexpr int kBlocks = 64;
  const auto order = [](uint32_t seed) {
    simt::SetSeed(seed);
    Watched<int> turns(std::vector<int>(kBlocks, -1));
    Watched<int> next({0});
    EXPECT_EQ(TakeTurns(kBlocks, next.data(), turns.data()), OpStatus::kOk);
    return turns.values();
  };
  const std::vector<int> first = order(1);
  EXPECT_EQ(first, order(1));
  EXPECT_NE(first, order(2));
  std::vector<int> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> all(kBlocks);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
}

TEST(SimtTest, ThreadsMeetAtBarriersAndInWarps) {
  Watched<int> sums(std::vector<int>(2, 0));
  ASSERT_EQ(SumOfIndices(2, 96, sums.data()), OpStatus::kOk);
  EXPECT_EQ(sums.values(), std::vector<int>(2, 95 * 96 / 2));
  Watched<unsigned> votes(std::vector<unsigned>(1, 0));
  ASSERT_EQ(VoteOfOddLanes(votes.data()), OpStatus::kOk);
  EXPECT_EQ(votes.values()[0], 0xaaaaaaaau);
}

TEST(SimtTest, ACopyThatIsNotAwaitedHasNotArrived) {
  Watched<uint4> from({uint4{1, 2, 3, 4}});
  Watched<unsigned> to(std::vector<unsigned>(2, 0));
  ASSERT_EQ(CopyThroughShared(from.data(), to.data(), /*await=*/true), OpStatus::kOk);
  EXPECT_EQ(to.values()[0], 3u);
  EXPECT_EQ(to.values()[1], 0u) << "no source: zeros";
  ASSERT_EQ(CopyThroughShared(from.data(), to.data(), /*await=*/false), OpStatus::kOk);
  EXPECT_EQ(to.values()[0], 0xffffffffu);
}

TEST(SimtTest, CopiesArriveByGroups) {
  Watched<uint4> from({uint4{1, 2, 3, 4}, uint4{5, 6, 7, 8}, uint4{9, 10, 11, 12}});
  constexpr unsigned kNot = 0xffffffffu;
  const unsigned kArrived[4][3] = {{3, 7, 11}, {3, 7, kNot}, {3, kNot, kNot}, {kNot, kNot, kNot}};
  for (int but = 0; but < 4; ++but) {
    Watched<unsigned> to(std::vector<unsigned>(3, 0));
    ASSERT_EQ(CopyInGroups(from.data(), to.data(), but), OpStatus::kOk);
    EXPECT_EQ(to.values(), std::vector<unsigned>(kArrived[but], kArrived[but] + 3)) << but;
  }
}

TEST(SimtTest, KernelsThatAskHaveMoreSharedMemory) {
  EXPECT_EQ(LaunchAsking(60 * 1024, 50 * 1024), OpStatus::kOk);
  EXPECT_EQ(LaunchAsking(60 * 1024, 61 * 1024), OpStatus::kDeviceError);
  EXPECT_EQ(LaunchAsking(100 * 1024, 50 * 1024), OpStatus::kDeviceError);
}

TEST(SimtTest, LaunchesThatAGpuWouldRefuseAreRefused) {
  Watched<int> runs({0});
  const auto refused = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    return DoNothing(grid, block, shared_bytes) == OpStatus::kDeviceError;
  };
  EXPECT_FALSE(refused(dim3(1), dim3(1024), 48 * 1024));
  EXPECT_FALSE(refused(dim3(1, 65535, 1), dim3(1), 0));
  EXPECT_TRUE(refused(dim3(1), dim3(1025), 0));
  EXPECT_TRUE(refused(dim3(1), dim3(32, 33), 0));
  EXPECT_TRUE(refused(dim3(1), dim3(1, 1, 65), 0));
  EXPECT_TRUE(refused(dim3(0), dim3(1), 0));
  EXPECT_TRUE(refused(dim3(1), dim3(0), 0));
  EXPECT_TRUE(refused(dim3(1, 65536, 1), dim3(1), 0));
  EXPECT_TRUE(refused(dim3(1, 1, 65536), dim3(1), 0));
  EXPECT_TRUE(refused(dim3(1), dim3(1), 48 * 1024 + 1));
}

TEST(SimtTest, ABarrierThatNotAllThreadsReachEndsTheProgram) {
  EXPECT_DEATH(BarrierOf(Barrier::kSomeReturn),
               "BarrierKernel.*block \\(0, 0, 0\\).*(not all threads reach|do not come).*returned");
  EXPECT_DEATH(BarrierOf(Barrier::kTwoPlaces), "simt_test_kernels.*not all threads reach");
  EXPECT_DEATH(BarrierOf(Barrier::kSomeInWarp),
               "(do not come|takes part in something else).*waits for");
}

TEST(SimtTest, AWarpOperationThatALaneIsMissingFromEndsTheProgram) {
  EXPECT_DEATH(ShuffleOf(Shuffle::kLaneReturned), "does not take part: thread .* has returned");
  EXPECT_DEATH(ShuffleOf(Shuffle::kLaneElsewhere), "takes part in something else");
  EXPECT_DEATH(ShuffleOf(Shuffle::kCallerNotInMask), "leaves out lane");
  EXPECT_DEATH(ShuffleOf(Shuffle::kSourceNotInMask), "leaves out");
}

TEST_F(SimtDeathTest, AMissingBarrierIsARace) {
  EXPECT_EQ(Neighbours(Order::kBarrier, out_.data()), OpStatus::kOk);
  EXPECT_DEATH((void)Neighbours(Order::kNone, out_.data()),
               "NeighboursKernel.*::shared: thread [0-9]+ of the block .*nothing orders");
  EXPECT_DEATH((void)Neighbours(Order::kWarp, out_.data()), "nothing orders the two");
}

TEST_F(SimtDeathTest, AWarpOrdersItsOwnLanes) {
  EXPECT_EQ(NeighboursInWarp(true, out_.data()), OpStatus::kOk);
  EXPECT_DEATH((void)NeighboursInWarp(false, out_.data()), "nothing orders the two");
}

TEST_F(SimtDeathTest, BlocksThatWriteTheSameAreARaceUnlessAtomic) {
  Watched<int> count({0});
  EXPECT_EQ(CountBlocks(true, count.data()), OpStatus::kOk);
  EXPECT_EQ(count.values()[0], 8);
  EXPECT_DEATH((void)CountBlocks(false, count.data()), "another block of the launch");
}

TEST_F(SimtDeathTest, SharedMemoryIsWrittenBeforeItIsRead) {
  EXPECT_DEATH((void)ReadUnwritten(false, out_.data()), "nothing of the block has written it");
  EXPECT_DEATH((void)ReadUnwritten(true, out_.data()), "nothing of the block has written it");
}

TEST_F(SimtDeathTest, OnlyTheDevicesMemoryIsTouched) {
  EXPECT_EQ(Fill(out_.data(), 4096), OpStatus::kOk);
  EXPECT_DEATH((void)Fill(out_.data(), 4097), "FillKernel.*not the device's");
  std::vector<int> host(1);
  EXPECT_DEATH((void)Fill(host.data(), 1), "not the device's");
}

TEST_F(SimtDeathTest, VectorsAreAligned) {
  Watched<uint4> memory(std::vector<uint4>(2));
  auto* const bytes = reinterpret_cast<char*>(memory.data());
  EXPECT_EQ(LoadVector(bytes, out_.data()), OpStatus::kOk);
  EXPECT_DEATH((void)LoadVector(bytes + 8, out_.data()), "not aligned");
}

TEST_F(SimtDeathTest, StaticAndDynamicSharedMemoryCountTogether) {
  EXPECT_EQ(UseBothShared(47 * 1024), OpStatus::kOk);
  EXPECT_DEATH((void)UseBothShared(48 * 1024), "too much together");
}

/// The library over streams, as programs use it.
class SimtLibraryTest : public ::testing::Test {
 protected:
  SimtLibraryTest() {
    CudaStreams streams;
    CudaFacts facts;
    EXPECT_EQ(library_.open(&streams, &facts), nullptr);
    EXPECT_FALSE(facts.cublas);
    stream_ = streams.compute;
    recorder_ = streams.recorder;
    copy_ = streams.copy;
    EXPECT_EQ(library_.allocate(stream_, sizeof(float), reinterpret_cast<void**>(&value_)),
              nullptr);
    EXPECT_EQ(library_.pin(sizeof(float), reinterpret_cast<void**>(&pinned_)), nullptr);
    EXPECT_EQ(library_.create_event(&event_), nullptr);
  }
  ~SimtLibraryTest() override {
    EXPECT_EQ(library_.synchronize(copy_), nullptr);
    library_.free_event(event_);
    EXPECT_EQ(library_.unpin(pinned_), nullptr);
    EXPECT_EQ(library_.release(stream_, value_), nullptr);
    EXPECT_EQ(library_.synchronize(stream_), nullptr);
  }
  OpStatus Double(void* stream) {
    return library_.kernels->add({.a = value_, .b = value_, .y = value_, .n = 1, .stream = stream});
  }
  float Get() {
    float value = -1;
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToHost, &value, value_, sizeof value),
              nullptr);
    return value;
  }
  void Set(float value) {
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToDevice, value_, &value, sizeof value),
              nullptr);
  }

  const CudaLibrary& library_ = *quire_cuda_library();
  void* stream_ = nullptr;
  void* recorder_ = nullptr;
  void* copy_ = nullptr;
  void* event_ = nullptr;
  float* value_ = nullptr;
  float* pinned_ = nullptr;
};

TEST_F(SimtLibraryTest, WorkRunsWhenTheStreamIsAwaited) {
  EXPECT_EQ(Get(), 0.0f);
  Set(1.5f);
  ASSERT_EQ(Double(stream_), OpStatus::kOk);
  EXPECT_EQ(*value_, 0.0f);
  ASSERT_EQ(library_.synchronize(stream_), nullptr);
  EXPECT_EQ(*value_, 3.0f);
}

TEST_F(SimtLibraryTest, WhatIsCapturedRunsAtEachLaunch) {
  Set(1);
  void* graph = nullptr;
  ASSERT_EQ(library_.begin_capture(recorder_), nullptr);
  ASSERT_EQ(Double(recorder_), OpStatus::kOk);
  ASSERT_EQ(Double(recorder_), OpStatus::kOk);
  ASSERT_EQ(library_.end_capture(recorder_, &graph), nullptr);
  EXPECT_EQ(Get(), 1.0f);
  ASSERT_EQ(library_.launch(graph, stream_), nullptr);
  ASSERT_EQ(library_.launch(graph, stream_), nullptr);
  library_.free_graph(graph);  // The launches have their own copies.
  EXPECT_EQ(Get(), 16.0f);
}

TEST_F(SimtLibraryTest, WhatCannotBeCapturedEndsTheCapture) {
  void* graph = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(library_.begin_capture(recorder_), nullptr);
  EXPECT_NE(library_.allocate(recorder_, 16, &memory), nullptr);
  EXPECT_EQ(Double(recorder_), OpStatus::kDeviceError);
  EXPECT_NE(library_.end_capture(recorder_, &graph), nullptr);
  EXPECT_EQ(graph, nullptr);
  ASSERT_EQ(library_.begin_capture(recorder_), nullptr);
  EXPECT_NE(library_.synchronize(recorder_), nullptr);
  EXPECT_NE(library_.end_capture(recorder_, &graph), nullptr);
}

TEST_F(SimtLibraryTest, PinnedMemoryIsReadWhenItsCopyRuns) {
  EXPECT_EQ(Get(), 0.0f);
  *pinned_ = 1;
  ASSERT_EQ(library_.copy_pinned(copy_, CopyDirection::kToDevice, value_, pinned_, sizeof *pinned_),
            nullptr);
  EXPECT_EQ(Get(), 0.0f);  // The stream has not been waited for.
  *pinned_ = 2;
  ASSERT_EQ(library_.synchronize(copy_), nullptr);
  EXPECT_EQ(Get(), 2.0f);
}

TEST_F(SimtLibraryTest, PinnedMemoryIsWrittenWhenItsCopyRuns) {
  Set(3);
  *pinned_ = 1;
  ASSERT_EQ(library_.copy_pinned(stream_, CopyDirection::kToHost, pinned_, value_, sizeof *pinned_),
            nullptr);
  ASSERT_EQ(library_.record_event(event_, stream_), nullptr);
  ASSERT_EQ(Double(stream_), OpStatus::kOk);
  EXPECT_EQ(*pinned_, 1);  // The copy has not been waited for.
  ASSERT_EQ(library_.await_event(event_), nullptr);
  EXPECT_EQ(*pinned_, 3);
}

TEST_F(SimtLibraryTest, AStreamThatIsHeldFollowsTheEvent) {
  Set(0);
  ASSERT_EQ(library_.record_event(event_, stream_), nullptr);
  ASSERT_EQ(library_.hold(copy_, event_), nullptr);  // Copies the value first.
  *pinned_ = 2;
  ASSERT_EQ(library_.copy_pinned(copy_, CopyDirection::kToDevice, value_, pinned_, sizeof *pinned_),
            nullptr);
  ASSERT_EQ(library_.record_event(event_, copy_), nullptr);
  ASSERT_EQ(library_.hold(stream_, event_), nullptr);
  ASSERT_EQ(Double(stream_), OpStatus::kOk);  // Doubles the value after its change.
  EXPECT_EQ(Get(), 4.0f);
  EXPECT_EQ(library_.await_event(event_), nullptr);
}

TEST_F(SimtLibraryTest, AnEventIsWhereItWasRecordedLast) {
  EXPECT_EQ(library_.await_event(event_), nullptr);  // Not recorded yet.
  ASSERT_EQ(library_.hold(stream_, event_), nullptr);
  Set(1);
  ASSERT_EQ(library_.record_event(event_, stream_), nullptr);
  ASSERT_EQ(Double(stream_), OpStatus::kOk);
  ASSERT_EQ(library_.await_event(event_), nullptr);
  EXPECT_EQ(*value_, 1.0f);
  ASSERT_EQ(library_.record_event(event_, stream_), nullptr);
  ASSERT_EQ(library_.await_event(event_), nullptr);
  EXPECT_EQ(*value_, 2.0f);
}

TEST_F(SimtLibraryTest, TimedEventsTellHowLongAStreamWasHeld) {
  void* from = nullptr;
  void* to = nullptr;
  ASSERT_EQ(library_.create_timed_event(&from), nullptr);
  ASSERT_EQ(library_.create_timed_event(&to), nullptr);
  float milliseconds = 0;
  EXPECT_NE(library_.elapsed(from, to, &milliseconds), nullptr);  // Not recorded yet.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Double(copy_), OpStatus::kOk);
  ASSERT_EQ(library_.record_event(event_, copy_), nullptr);
  ASSERT_EQ(library_.record_event(from, stream_), nullptr);
  ASSERT_EQ(library_.hold(stream_, event_), nullptr);
  ASSERT_EQ(library_.record_event(to, stream_), nullptr);
  ASSERT_EQ(library_.elapsed(from, to, &milliseconds), nullptr);
  EXPECT_LT(milliseconds, 0);  // Not waited for.
  ASSERT_EQ(library_.synchronize(stream_), nullptr);
  ASSERT_EQ(library_.elapsed(from, to, &milliseconds), nullptr);
  EXPECT_EQ(milliseconds, 3);
  EXPECT_NE(library_.elapsed(from, event_, &milliseconds), nullptr);  // Not timed.
  library_.free_event(from);
  library_.free_event(to);
}

TEST_F(SimtLibraryTest, CopiesGoBetweenTheHostAndTheDevice) {
  float host = 0;
  EXPECT_NE(library_.copy(stream_, CopyDirection::kToHost, &host, &host, sizeof host), nullptr);
  EXPECT_NE(library_.copy(stream_, CopyDirection::kToDevice, &host, &host, sizeof host), nullptr);
  EXPECT_NE(library_.copy(stream_, CopyDirection::kOnDevice, value_, &host, sizeof host), nullptr);
  EXPECT_NE(library_.copy(stream_, CopyDirection::kToHost, &host, value_, 2 * sizeof host),
            nullptr);
}

}  // namespace
}  // namespace quire::kernels::cuda::testing
