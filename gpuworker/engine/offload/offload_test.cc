// SPDX-License-Identifier: Apache-2.0
//
// Pages that decoding completes are sent beside its steps: what waits for them, what does not, and
// that no answer depends on when they arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/offload/page_exporter.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "gpuworker/testing/followed_run.h"
#include "gpuworker/testing/tiny_spec.h"
#include "tests/kit/manual_executor.h"

namespace quire::worker {
namespace {

using quire::testing::ManualExecutor;
using testing::EngineFixture;
using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaStream;
using testing::FakeStore;
using testing::FollowedRun;
using testing::FollowedStep;
using ::testing::HasSubstr;
using testing::LateStreams;
using testing::RandomTokens;
using testing::TinySpec;

constexpr char kAppend[] = "Store/AppendPages";

RetrievalOptions With(std::string_view policy) {
  RetrievalOptions retrieval = EngineFixture::Small().retrieval;
  retrieval.policy = policy;
  return retrieval;
}

/// Says of every token of every layer whether the store had all pages that could be selected.
class CheckedPolicy final : public RetrievalPolicy {
 public:
  CheckedPolicy(std::unique_ptr<RetrievalPolicy> next, const FakeStore* store)
      : next_(std::move(next)), store_(store) {}

  uint64_t asked() const { return asked_; }
  uint64_t lacking() const { return lacking_; }

  std::string_view name() const override { return "checked"; }
  CacheLayout Layout(uint32_t layer) const override { return next_->Layout(layer); }
  PageObserver* page_observer() override { return next_->page_observer(); }
  StatusOr<Selection> Select(const SelectRequest& request) override {
    return next_->Select(request);
  }
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override {
    ++asked_;
    if (request.candidates.end > store_->last_context_pages()) ++lacking_;
    return next_->NeedsBlocking(request);
  }
  bool MayBeLate(const SelectRequest& request) const override { return next_->MayBeLate(request); }

 private:
  const std::unique_ptr<RetrievalPolicy> next_;
  const FakeStore* const store_;
  uint64_t asked_ = 0;
  uint64_t lacking_ = 0;
};

/// A thread that does something else before each of its tasks.
class LateExecutor final : public Executor {
 public:
  explicit LateExecutor(std::function<void()> before) : before_(std::move(before)) {}
  Status Submit(Task task) override {
    return thread_.Submit([this, task = std::move(task)] {
      before_();
      task();
    });
  }

 private:
  const std::function<void()> before_;
  ThreadPool thread_{{.threads = 1}};
};

/// Pages of four tokens. The document has 15 pages, and the window two. Page 15 is complete with
/// the 4th token and leaves the window with the 9th.
class OffloadTest : public ::testing::Test {
 protected:
  OffloadTest() { fixture_.Ingest(RandomTokens(60, 1)); }

  /// Takes longer than a step.
  void DoSomethingLong() {
    EXPECT_TRUE(fixture_.engine().DenseLogits(RandomTokens(200, 3), 1).ok());
  }
  static void ExpectSame(const FollowedStep& step, const FollowedStep& expected) {
    EXPECT_EQ(step.pages, expected.pages);
    EXPECT_EQ(step.logits, expected.logits);
  }

  EngineFixture fixture_;
  const std::vector<TokenId> question_ = RandomTokens(40, 2);
};

TEST_F(OffloadTest, StepsGoOnUntilAPageThatIsNotSentLeavesTheWindow) {
  InlineExecutor at_once;  // As if each page were sent within its step.
  const std::vector<FollowedStep> expected =
      FollowedRun(fixture_, With("quest"), &at_once).Steps(question_);
  const uint64_t before = fixture_.store().calls(kAppend);
  ManualExecutor later;
  {
    FollowedRun run(fixture_, With("quest"), &later);
    for (size_t i = 0; i < 8; ++i) ExpectSame(run.Next(question_[i]), expected[i]);
    EXPECT_EQ(fixture_.store().calls(kAppend), before);
    std::thread sending([&] {
      DoSomethingLong();
      EXPECT_TRUE(later.RunOne());
    });
    const FollowedStep ninth = run.Next(question_[8]);
    EXPECT_GE(fixture_.store().last_context_pages(), 16u) << "the step waited";
    sending.join();
    ExpectSame(ninth, expected[8]);
    for (size_t i = 9; i < question_.size(); ++i) {
      ExpectSame(run.Next(question_[i]), expected[i]);
      later.RunOne();
    }
    EXPECT_EQ(fixture_.store().last_context_pages(), 25u);
    EXPECT_EQ(fixture_.store().calls(kAppend), before + 10) << "each page once";
  }
}

TEST_F(OffloadTest, NothingIsSelectedFromThatTheServerDoesNotHave) {
  for (const std::string_view policy : {"quest", "freekv"}) {
    SCOPED_TRACE(policy);
    InlineExecutor at_once;
    const std::vector<FollowedStep> expected =
        FollowedRun(fixture_, With(policy), &at_once).Steps(question_);
    LateExecutor late([this] { DoSomethingLong(); });
    FollowedRun run(fixture_, With(policy), &late);
    CheckedPolicy* checked = nullptr;
    run.Wrap([&](std::unique_ptr<RetrievalPolicy> next) {
      auto policy_of_run = std::make_unique<CheckedPolicy>(std::move(next), &fixture_.store());
      checked = policy_of_run.get();
      return policy_of_run;
    });
    for (size_t i = 0; i < question_.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSame(run.Next(question_[i]), expected[i]);
    }
    EXPECT_GT(checked->asked(), 0u);
    EXPECT_EQ(checked->lacking(), 0u);
  }
}

TEST_F(OffloadTest, APageThatCannotBeAppendedIsTheSequencesError) {
  fixture_.store().FailOnce(kAppend, 0, InvalidArgument("refused"));
  const auto sequence = fixture_.Open();
  for (int attempt = 0; attempt < 2; ++attempt) {  // It stays.
    const Status status = sequence->Append(std::span(question_).first(12));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr("pages 15 to 16 could not be appended to the open context: refused"));
    EXPECT_THAT(std::string(Message(status)), HasSubstr("this sequence cannot go on"));
  }
  EXPECT_EQ(fixture_.store().calls(kAppend), 1u) << "nothing follows a page that is missing";
}

TEST_F(OffloadTest, ASequenceThatEndsWaitsForThePageOnItsWay) {
  std::atomic<bool> released = false;
  auto sequence = fixture_.Open();
  fixture_.store().Hold(kAppend);
  ASSERT_EQ(sequence->Append(std::span(question_).first(8)), OkStatus());
  fixture_.store().AwaitCalls(kAppend, 1);
  std::thread releasing([&] {
    DoSomethingLong();
    released = true;
    fixture_.store().Release();
  });
  sequence.reset();
  EXPECT_TRUE(released);
  releasing.join();
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

TEST_F(OffloadTest, PagesThatOthersMayFindAreSentBeforeTheirSequenceGoes) {
  auto sequence = fixture_.Open({.retrieval = With("full")});
  fixture_.store().Hold(kAppend);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(sequence->Append(std::span(question_).subspan(4 * i, 4)), OkStatus());
  }
  fixture_.store().AwaitCalls(kAppend, 1);
  std::thread releasing([&] { fixture_.store().Release(); });
  sequence.reset();
  EXPECT_EQ(fixture_.store().calls(kAppend), 3u);
  releasing.join();
}

TEST_F(OffloadTest, ASequenceThatIsPreemptedWaitsForItsPagesAndGoesOnAsIfNothingHadHappened) {
  const auto request = [](uint64_t seed, uint32_t priority) {
    return BatchRequest{.document = DocumentName{.name = "doc"},
                        .prompt = RandomTokens(7, seed),
                        .retrieval = With("quest"),
                        .params = {.max_new_tokens = 20},
                        .priority = priority};
  };
  const auto tokens_of = [](BatchStream& stream) {
    std::vector<TokenId> tokens;
    for (auto next = stream.Next(); next.ok() && next->has_value(); next = stream.Next()) {
      tokens.push_back(**next);
    }
    return tokens;
  };
  const auto alone = [&](const BatchRequest& asked) {
    const auto sequence = fixture_.Open({.retrieval = asked.retrieval});
    EXPECT_EQ(sequence->Append(asked.prompt), OkStatus());
    return sequence->Generate(asked.params)->tokens;
  };
  const std::vector<TokenId> expected_low = alone(request(5, 0));
  const std::vector<TokenId> expected_high = alone(request(6, 1));

  auto batch = *Batch::Create(&fixture_.engine(), {.max_running = 1});
  const auto low = *batch->Submit(request(5, 0));
  fixture_.store().Hold(kAppend);
  const uint64_t before = fixture_.store().calls(kAppend);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(batch->Step());  // 4 tokens, 3, and the 8th.
  fixture_.store().AwaitCalls(kAppend, before + 1);
  const auto high = *batch->Submit(request(6, 1));
  std::thread releasing([&] {
    DoSomethingLong();
    fixture_.store().Release();
  });
  while (batch->Step()) {
  }
  releasing.join();
  EXPECT_EQ(tokens_of(*high), expected_high);
  EXPECT_EQ(tokens_of(*low), expected_low);
  EXPECT_EQ(low->result().preempted, 1u);
  EXPECT_EQ(low->result().stats.reopened, 0u);
}

TEST(PageExporterTest, NobodyWaitsForAPageButWhoReadsItsUnits) {
  const KvSpec spec = TinySpec();
  const std::vector<CacheLayout> layouts(spec.num_layers, {.everything = true});
  const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
  std::vector<float> values(spec.page_tokens * row);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  std::vector<std::vector<std::byte>> exported;
  for (Device* const device : {&CpuDevice(), &FakeCudaDevice()}) {
    UnitBuffers buffers(device, SegmentBytes(spec, 1));
    const EngineParts parts{.device = device, .spec = &spec, .unit_buffers = &buffers};
    const auto cache = *BudgetCache::Create(spec, device, layouts);
    const DeviceBuffer rows = *device->Allocate(values.size() * sizeof(float));
    ASSERT_EQ(device->CopyToDevice(rows.data(), values.data(), rows.size_bytes()), OkStatus());
    const LateStreams late({FakeCudaStream::kCompute});
    const int64_t before = FakeCudaHostWaits();
    PageExporter exporter(parts);
    const auto units = *buffers.Take();
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      ASSERT_EQ(cache->AppendTokens(layer, rows.as<float>(), rows.as<float>(), spec.page_tokens),
                OkStatus());
      ASSERT_EQ(exporter.Export(*cache, layer, 0, spec.page_tokens, units.get(),
                                layer * exporter.layer_bytes()),
                OkStatus());
    }
    EXPECT_EQ(FakeCudaHostWaits(), before);
    ASSERT_EQ(units->arrived->Await(), OkStatus());
    exported.emplace_back(units->bytes.get(), units->bytes.get() + exporter.page_bytes());
  }
  EXPECT_EQ(exported[1], exported[0]);
  EXPECT_NE(exported[0], std::vector<std::byte>(exported[0].size()));
}

}  // namespace
}  // namespace quire::worker
