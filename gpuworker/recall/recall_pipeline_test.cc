// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/page/layout.h"
#include "common/transport/loopback_transport.h"
#include "gpuworker/testing/fake_store.h"
#include "tests/kit/fake_clock.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Pages = std::vector<std::vector<uint32_t>>;

constexpr uint32_t kPages = 12;

KvSpec TestSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 4;
  spec.page_tokens = 2;
  spec.segment_pages = 4;
  spec.rope.rotary_dim = 4;
  return spec;
}

/// Selects and blocks as the test says, and writes down what it is told.
class ScriptedPolicy final : public RetrievalPolicy {
 public:
  std::string_view name() const override { return "scripted"; }
  CacheLayout Layout(uint32_t) const override { return {.window_pages = 2, .selectable_pages = 2}; }
  StatusOr<Selection> Select(const SelectRequest& request) override {
    candidates = request.candidates;
    return Selection{.pages = next};
  }
  std::vector<bool> NeedsBlocking(uint32_t, const float*) override { return blocking; }
  void OnRecalled(uint32_t, uint32_t head, std::span<const uint32_t> pages) override {
    recalled[head].insert(recalled[head].end(), pages.begin(), pages.end());
  }
  void OnEvict(uint32_t, uint32_t head, std::span<const uint32_t> pages) override {
    evicted[head].insert(evicted[head].end(), pages.begin(), pages.end());
  }

  Pages next;
  std::vector<bool> blocking = {true, true};
  PageRange candidates;
  Pages recalled = Pages(2);
  Pages evicted = Pages(2);
};

class RecallPipelineTest : public ::testing::Test {
 protected:
  RecallPipelineTest() {
    client_ = *Client::Create({.transport = std::make_shared<LoopbackTransport>(
                                   &store_, LoopbackTransport::Options{.clock = &clock_}),
                               .clock = &clock_});
    const uint64_t context = client_->OpenContext(spec_, std::nullopt)->id;
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec_, kPages)));
    EXPECT_TRUE(client_->AppendPages(context, 0, std::vector<TokenId>(kPages * 2), payload).ok());
    session_ = *client_->OpenSession(ContextRef(context),
                                     {.spec = spec_, .slots_per_head = 2, .managed_layers = {}});
    cache_ = *BudgetCache::Create(spec_, &CpuDevice(), std::vector{policy_.Layout(0)});
    EXPECT_EQ(cache_->StartAt(kPages * 2), OkStatus());
    pipeline_.emplace(RecallPipeline::Dependencies{.session = session_.get(),
                                                   .cache = cache_.get(),
                                                   .policy = &policy_,
                                                   .device = &CpuDevice(),
                                                   .options = &options_,
                                                   .stats = &stats_});
  }

  Status Before(const Pages& select, std::vector<bool> blocking) {
    policy_.next = select;
    policy_.blocking = std::move(blocking);
    return pipeline_->BeforeAttention(0, query_.data());
  }
  std::vector<uint32_t> Active(uint32_t head) const { return cache_->table(0).ActivePages(head); }

  const KvSpec spec_ = TestSpec();
  const RetrievalOptions options_;
  const std::vector<float> query_ = std::vector<float>(8);
  quire::testing::FakeClock clock_;
  testing::FakeStore store_;
  ScriptedPolicy policy_;
  RecallStats stats_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<BudgetCache> cache_;
  std::optional<RecallPipeline> pipeline_;
};

TEST_F(RecallPipelineTest, BringsWhatIsMissingAndActivatesTheSelection) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_EQ(policy_.candidates, (PageRange{0, kPages - 2}));
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  ASSERT_EQ(Before({{2, 5}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_EQ(stats_.units_selected, 8u);
  EXPECT_EQ(stats_.units_missed, 5u);
  EXPECT_EQ(stats_.bytes_moved, 5 * UnitBytes(spec_));
  EXPECT_THAT(policy_.recalled[0], ElementsAre(1, 2, 5));
  EXPECT_THAT(policy_.evicted[0], ElementsAre(1));
  EXPECT_THAT(policy_.evicted[1], IsEmpty());
}

TEST_F(RecallPipelineTest, AResidentSelectionSendsNoCall) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{2}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_EQ(stats_.recalls, 1u);
  EXPECT_EQ(store_.calls("Session/Recall"), 1u);
  EXPECT_THAT(Active(0), ElementsAre(2));  // Page 1 is resident and takes no part.
}

TEST_F(RecallPipelineTest, HeadsThatDoNotBlockKeepTheirPagesUntilAfterAttention) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  ASSERT_EQ(Before({{2, 5}, {6, 7}}, {true, false}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_THAT(Active(1), ElementsAre(3, 4));
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(2, 5));
  EXPECT_THAT(Active(1), ElementsAre(6, 7));
  EXPECT_EQ(stats_.units_selected, 8u);
  EXPECT_EQ(stats_.units_missed, 7u);
}

TEST_F(RecallPipelineTest, WhenNoHeadBlocksTheWholeRecallFollowsAttention) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {false, false}), OkStatus());
  EXPECT_THAT(Active(0), IsEmpty());
  EXPECT_EQ(stats_.recalls, 0u);
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(1, 2));
  ASSERT_EQ(pipeline_->AfterAttention(0), OkStatus());
  EXPECT_EQ(stats_.recalls, 1u);  // Done once.
}

TEST_F(RecallPipelineTest, AFailedRecallIsAnErrorAndPlacesNothing) {
  ASSERT_EQ(Before({{1, 2}, {3, 4}}, {true, true}), OkStatus());
  store_.FailOnce("Session/Recall", 0, NotFound("no such session"));
  EXPECT_EQ(Before({{5, 6}, {3, 4}}, {true, true}).code(), StatusCode::kNotFound);
  EXPECT_FALSE(cache_->table(0).IsResident(0, 5));
  // The pending reply was never acknowledged: the next recall starts from the same map.
  ASSERT_EQ(Before({{5, 6}, {3, 4}}, {true, true}), OkStatus());
  EXPECT_THAT(Active(0), ElementsAre(5, 6));
}

}  // namespace
}  // namespace quire::worker
