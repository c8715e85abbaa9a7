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
  const std::vector<std::string_view> names = PolicyNames();
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Registered, PolicyConformance, ::testing::ValuesIn(Registered()),
                         [](const auto& info) { return info.param; });

PolicyContext Context() {
  PolicyContext context;
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
  PolicyContext context = Context();
  context.options.policy = "best";
  const Status status = MakePolicy(context).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'best'; use one of: arkvale, clusterkv, freekv, full"));
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
      {[](auto& o) { o.sink_tokens = 240; },
       "less than sinks, window and one page together (288 tokens)"},
      {[](auto& o) { o.budget_tokens = o.sink_tokens + o.window_tokens; },
       "less than sinks, window and one page together"},
      {[](auto& o) { o.uncompressed_layers = {2}; }, "names layer 2"},
      {[](auto& o) { o.pooling = static_cast<kernels::Pooling>(9); }, "pooling is 9"},
      {[](auto& o) { o.score_scale = -1; }, "score_scale is -1"},
      {[](auto& o) { o.digest = static_cast<kernels::DigestKind>(6); }, "digest is 6"},
      {[](auto& o) { o.correction_threshold = NAN; }, "correction_threshold is nan"},
      {[](auto& o) {
         o.retrieval_heads = {1, 2};
       },
       "retrieval_heads names head 2"},
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
