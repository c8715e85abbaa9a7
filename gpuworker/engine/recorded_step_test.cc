// SPDX-License-Identifier: Apache-2.0
//
// Decode steps that a device has recorded: one launch where no layer selects, the same tokens, and
// nobody's failure in another's step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/batch/batch_attention.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "gpuworker/testing/recorded_steps.h"

namespace quire::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::EngineFixture;
using testing::ExpectLaunchesOfSteps;
using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;
using testing::RandomTokens;

// Over 38 pages: the pools of "full" grow a page at a time, and two from the 32nd on.
TEST(RecordedStepTest, AStepThatNeedsNoHostIsOneLaunch) {
  for (const std::string_view policy : {"streaming", "full", "quest", "freekv"}) {
    ExpectLaunchesOfSteps(&FakeCudaDevice(), FakeCudaLaunches, policy, 70, 0.0f);
  }
}

struct Asked {
  std::string_view policy;
  uint32_t new_tokens = 0;
};
struct BatchAnswer {
  std::vector<std::vector<TokenId>> tokens;  ///< Answer of each sequence.
  std::vector<int64_t> launches;             ///< Launches of each step.
};

BatchAnswer RunBatch(Device& device, const std::vector<Asked>& asked) {
  EngineFixture fixture(quire::testing::TinyModel{}, EngineFixture::Small(), &device);
  fixture.Ingest(RandomTokens(61, 3));
  const auto batch = std::move(Batch::Create(&fixture.engine(), {})).value();
  std::vector<std::shared_ptr<BatchStream>> streams;
  for (const Asked& one : asked) {
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = one.policy;
    streams.push_back(batch
                          ->Submit({.document = DocumentName{.name = "doc"},
                                    .prompt = RandomTokens(4, streams.size()),
                                    .retrieval = retrieval,
                                    .params = {.max_new_tokens = one.new_tokens}})
                          .value());
  }
  BatchAnswer answer;
  for (int64_t before = FakeCudaLaunches(); batch->Step(); before = FakeCudaLaunches()) {
    answer.launches.push_back(FakeCudaLaunches() - before);
  }
  for (const auto& stream : streams) {
    std::vector<TokenId>& tokens = answer.tokens.emplace_back();
    for (auto next = stream->Next(); next.ok() && next->has_value(); next = stream->Next()) {
      tokens.push_back(**next);
    }
  }
  return answer;
}

void ExpectAsOnTheCpu(const BatchAnswer& answer, const std::vector<Asked>& asked) {
  EXPECT_EQ(answer.tokens, RunBatch(CpuDevice(), asked).tokens);
  for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(answer.tokens[i].size(), asked[i].new_tokens);
}

// The first step runs the prompts. Then there are steps of two sequences, and of the one that is
// left: neither has run before when it is first run.
TEST(RecordedStepTest, ABatchIsOneLaunchUntilOtherSequencesAreInIt) {
  const std::vector<Asked> asked = {{"streaming", 6}, {"streaming", 12}};
  const BatchAnswer answer = RunBatch(FakeCudaDevice(), asked);
  ExpectAsOnTheCpu(answer, asked);
  EXPECT_THAT(answer.launches, ElementsAre(0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1));
}

TEST(RecordedStepTest, ABatchWithASequenceThatSelectsIsLaunchedInParts) {
  const std::vector<Asked> asked = {{"streaming", 8}, {"quest", 8}, {"full", 8}};
  const BatchAnswer answer = RunBatch(FakeCudaDevice(), asked);
  ExpectAsOnTheCpu(answer, asked);
  ASSERT_EQ(answer.launches.size(), 8u);
  const std::vector<int64_t> replayed(answer.launches.begin() + 2, answer.launches.end());
  EXPECT_THAT(replayed, Each(3));
}

/// Counts the pages that it is given.
class CountingSink final : public PageSink {
 public:
  Status Export(const BudgetCache&, uint32_t, PageRange pages) override {
    pages_ += pages.size();
    return OkStatus();
  }
  Status Await(uint32_t) override { return OkStatus(); }
  uint32_t pages() const { return pages_; }

 private:
  uint32_t pages_ = 0;
};

class RecordedBatchStepTest : public ::testing::Test {
 protected:
  RecordedBatchStepTest() {
    spec_.model = "test";
    spec_.dtype = DType::kF32;
    spec_.num_layers = 1;
    spec_.num_query_heads = 2;
    spec_.num_kv_heads = 1;
    spec_.head_dim = 8;
    spec_.page_tokens = 1;
  }
  std::unique_ptr<BudgetCache> MakeCache() {
    const CacheLayout layout = {.everything = true};
    return std::move(BudgetCache::Create(spec_, &FakeCudaDevice(), {&layout, 1})).value();
  }
  KvSpec spec_;
};

TEST_F(RecordedBatchStepTest, ASequenceThatFailsHasNoKernelsInTheStep) {
  const auto behind = MakeCache(), cache = MakeCache();
  CountingSink sink_behind, sink;
  CacheBackend failing(behind.get(), nullptr, &sink_behind);
  CacheBackend running(cache.get(), nullptr, &sink);
  BatchStep batch({&failing, &running}, nullptr, nullptr, nullptr);

  // A single token attends to itself: out is its v, for both of its query heads.
  std::vector<float> rows(2 * 8);
  SeededRandom random(1);
  for (float& value : rows) value = static_cast<float>(random.Normal());
  const DeviceBuffer v = *FakeCudaDevice().Allocate(rows.size() * 4);
  ASSERT_EQ(FakeCudaDevice().CopyToDevice(v.data(), rows.data(), rows.size() * 4), OkStatus());
  const DeviceBuffer out = *FakeCudaDevice().Allocate(2 * rows.size() * 4);
  std::vector<LayerStep> steps;
  for (size_t i = 0; i < 2; ++i) {
    steps.push_back({.num_tokens = 1,
                     .first_position = i == 0 ? 7u : 0u,  // The first does not go on there.
                     .q = v.as<float>(),
                     .k = v.as<float>() + i * 8,
                     .v = v.as<float>() + i * 8,
                     .out = out.as<float>() + i * 16});
  }
  RecordableAttention* const recordable = batch.AsRecordable();
  ASSERT_NE(recordable, nullptr);
  const StatusOr<StepKey> key = recordable->Prepare(steps);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_THAT(*key, ElementsAre(nullptr, cache->recording_key()));
  EXPECT_EQ(batch.status(0).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(recordable->Launch(steps), OkStatus());
  EXPECT_EQ(recordable->Finish(steps), OkStatus());
  EXPECT_EQ(batch.status(1), OkStatus());
  EXPECT_EQ(sink_behind.pages(), 0u);
  EXPECT_EQ(sink.pages(), 1u);
  std::vector<float> got(4 * 8);
  ASSERT_EQ(FakeCudaDevice().CopyToHost(got.data(), out.data(), got.size() * 4), OkStatus());
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(got[c], 0.0f);
    EXPECT_NEAR(got[16 + c], rows[8 + c], 1e-6f);
    EXPECT_NEAR(got[24 + c], rows[8 + c], 1e-6f);
  }
}

TEST_F(RecordedBatchStepTest, OneSequenceThatSelectsKeepsABatchFromBeingRecorded) {
  const auto cache = MakeCache();
  const CacheLayout layout = {.window_pages = 2, .selectable_pages = 1};
  const auto selects =
      std::move(BudgetCache::Create(spec_, &FakeCudaDevice(), {&layout, 1})).value();
  CountingSink sink;
  CacheBackend one(cache.get(), nullptr, &sink), other(selects.get(), nullptr, &sink);
  EXPECT_NE(BatchStep({&one, &one}, nullptr, nullptr, nullptr).AsRecordable(), nullptr);
  EXPECT_EQ(BatchStep({&one, &other}, nullptr, nullptr, nullptr).AsRecordable(), nullptr);
}

}  // namespace
}  // namespace quire::worker
