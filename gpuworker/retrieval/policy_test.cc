// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policy.h"

#include <cmath>
#include <functional>

#include "gpuworker/retrieval/policy_conformance.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Registered() {
  const std::vector<std::string_view> names = AllPolicyNames();
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Registered, PolicyConformance, ::testing::ValuesIn(Registered()),
                         [](const auto& info) { return info.param; });

PolicyContext Context() {
  static const testing::RandomHead head({16, 2, 1, 4, 20});
  PolicyContext context;
  context.head = &head.weights();
  context.spec.num_layers = 2;
  context.spec.num_query_heads = 2;
  context.spec.num_kv_heads = 1;
  context.spec.head_dim = 4;
  context.spec.page_tokens = 16;
  context.device = &CpuDevice();
  context.max_context_tokens = 4096;
  context.options.budget_tokens = 256;
  context.options.sink_tokens = 16;
  context.options.window_tokens = 32;
  return context;
}

TEST(PolicyRegistryTest, NamesArePublishedAndUnknownOnesListThem) {
  EXPECT_THAT(PolicyNames(), ElementsAre("arkvale", "clusterkv", "freekv", "full", "infllm",
                                         "quest", "raas", "razor", "shadowkv", "streaming"));
  EXPECT_THAT(AllPolicyNames(),
              ElementsAre("arkvale", "clusterkv", "freekv", "full", "infllm", "quest", "raas",
                          "razor", "shadowkv", "specontext", "streaming"));
  PolicyContext context = Context();
  context.options.policy = "best";
  const Status status = MakePolicy(context).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'best'; use one of: arkvale, clusterkv, freekv, full"));
}

TEST(PolicyRegistryTest, PublishedOptionsAreThoseOfSpecE) {
  struct Row {
    const char* policy;
    uint32_t sinks, window, selected, kept;  ///< Pages of 16 tokens.
    std::vector<uint32_t> dense_layers;
    kernels::Pooling pooling = kernels::Pooling::kAvgSM;
    RecallLayout recall_layout = RecallLayout::kUnits;
  };
  const Row rows[] = {{.policy = "arkvale",
                       .sinks = 2,
                       .window = 2,
                       .selected = 128,
                       .kept = 252,
                       .dense_layers = {},
                       .recall_layout = RecallLayout::kRows},
                      {"clusterkv", 1, 2, 64, 64, {0, 1}},
                      {"freekv", 8, 8, 112, 112, {0}},
                      {"infllm", 8, 256, 128, 256, {}},
                      {"quest", 0, 2, 126, 126, {0, 1}, kernels::Pooling::kMaxS},
                      {"raas", 0, 2, 126, 126, {}},
                      {"razor", 1, 2, 248, 248, {}},
                      {"shadowkv", 0, 2, 128, 128, {}},
                      {"specontext", 1, 4, 123, 123, {}},
                      {"streaming", 1, 2, 123, 123, {}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.policy);
    const auto options = AsPublished({.policy = row.policy}, 16);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->policy, row.policy);
    EXPECT_EQ(options->sink_tokens, row.sinks * 16);
    EXPECT_EQ(options->window_tokens, row.window * 16);
    EXPECT_EQ(options->budget_tokens, (row.sinks + row.window + row.kept) * 16);
    EXPECT_EQ(options->select_tokens, row.kept > row.selected ? row.selected * 16 : 0);
    EXPECT_EQ(options->uncompressed_layers, row.dense_layers);
    EXPECT_EQ(options->pooling, row.pooling);
    EXPECT_EQ(options->recall_layout, row.recall_layout);
  }
  EXPECT_EQ(AsPublished({.policy = "specontext"}, 16)->selection_memory, 1u);
  EXPECT_GT(RetrievalOptions().selection_memory, 1u) << "the default departs from it";
}

TEST(PolicyRegistryTest, PublishedOptionsFitPagesOfAnySizeAndLeaveTheRestAsItIs) {
  for (const std::string& policy : Registered()) {
    for (const uint32_t page_tokens : {1u, 16u, 32u, 64u, 1024u}) {
      PolicyContext context = Context();
      context.spec.page_tokens = page_tokens;
      const auto options =
          AsPublished({.policy = policy, .correction_threshold = 0.7f}, page_tokens);
      ASSERT_TRUE(options.ok()) << options.status();
      context.options = *options;
      EXPECT_TRUE(MakePolicy(context).ok()) << MakePolicy(context).status() << page_tokens;
      EXPECT_EQ(options->correction_threshold, 0.7f);
    }
  }
  EXPECT_EQ(AsPublished({.policy = "shadowkv", .key_rank = 64}, 32)->key_rank, 0u);
  EXPECT_EQ(AsPublished({.policy = "best"}, 32).status().code(), StatusCode::kInvalidArgument);
}

TEST(PolicyRegistryTest, AnotherPolicyComesWithItsLayersAndKeepsTheBudget) {
  const RetrievalOptions options{
      .policy = "quest", .budget_tokens = 768, .sink_tokens = 32, .uncompressed_layers = {}};
  EXPECT_EQ(WithPolicy(options, "quest")->uncompressed_layers, std::vector<uint32_t>());
  for (const std::string& policy : Registered()) {
    if (policy == options.policy) continue;
    const auto other = WithPolicy(options, policy);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->policy, policy);
    EXPECT_EQ(other->uncompressed_layers, AsPublished({.policy = policy}, 16)->uncompressed_layers);
    EXPECT_EQ(other->budget_tokens, 768u);
    EXPECT_EQ(other->sink_tokens, 32u);
  }
  EXPECT_EQ(WithPolicy(options, "freekv")->uncompressed_layers, std::vector<uint32_t>{0});
  EXPECT_EQ(WithPolicy(options, "best").status().code(), StatusCode::kInvalidArgument);
}

TEST(PolicyOptionsTest, FewerPagesAreSelectedThanThereAreSlots) {
  PolicyContext context = Context();
  context.options.policy = "quest";
  context.options.select_tokens = 64;
  const auto policy = MakePolicy(context);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ((*policy)->Layout(1).selectable_pages, (256u - 16 - 32) / 16);
  EXPECT_EQ((*policy)->Layout(1).most_selected(), 4u);
}

TEST(PolicyOptionsTest, BadOptionsAreRefusedByName) {
  struct Case {
    std::function<void(RetrievalOptions&)> spoil;
    std::string message;
  };
  const Case cases[] = {
      {[](auto& o) { o.budget_tokens = 250; }, "budget_tokens is 250"},
      {[](auto& o) { o.sink_tokens = 1; }, "sink_tokens is 1"},
      {[](auto& o) { o.window_tokens = 40; }, "use 32 or 48"},
      {[](auto& o) { o.window_tokens = 16; }, "two pages, 32 tokens"},
      {[](auto& o) { o.select_tokens = 8; }, "select_tokens is 8"},
      {[](auto& o) { o.select_tokens = 224; },
       "less than sinks, window and select_tokens together (272 tokens)"},
      {[](auto& o) { o.sink_tokens = 240; },
       "less than sinks, window and one page together (288 tokens)"},
      {[](auto& o) { o.budget_tokens = o.sink_tokens + o.window_tokens; },
       "less than sinks, window and one page together"},
      {[](auto& o) { o.uncompressed_layers = {2}; }, "names layer 2"},
      {[](auto& o) { o.pooling = static_cast<kernels::Pooling>(9); }, "pooling is 9"},
      {[](auto& o) { o.score_scale = -1; }, "score_scale is -1"},
      {[](auto& o) { o.digest = static_cast<kernels::DigestKind>(7); }, "digest is 7"},
      {[](auto& o) { o.correction_threshold = NAN; }, "correction_threshold is nan"},
      {[](auto& o) {
         o.retrieval_heads = {1, 2};
       },
       "retrieval_heads names head 2"},
      {[](auto& o) { o.key_rank = 5; }, "key_rank is 5; keys of this model are 4 channels wide"},
      {[](auto& o) { o.recall_deadline = Duration(-1); }, "recall_deadline is negative"},
  };
  for (const Case& c : cases) {
    for (const char* name : {"freekv", "quest", "streaming"}) {
      PolicyContext context = Context();
      context.options.policy = name;
      c.spoil(context.options);
      const Status status = MakePolicy(context).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    }
  }
}

TEST(PolicyOptionsTest, StreamingSpendsTheBudgetOnItsWindow) {
  PolicyContext context = Context();
  context.options.policy = "streaming";
  EXPECT_EQ((*MakePolicy(context))->Layout(1), (CacheLayout{.sink_pages = 1, .window_pages = 15}));
}

TEST(PolicyOptionsTest, SlotsAreBoundedByTheLongestSequence) {
  PolicyContext context = Context();
  context.max_context_tokens = 100;
  EXPECT_EQ((*MakePolicy(context))->Layout(1).selectable_pages, 7u);
}

}  // namespace
}  // namespace quire::worker
