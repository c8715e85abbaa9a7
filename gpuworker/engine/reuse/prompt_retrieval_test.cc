// SPDX-License-Identifier: Apache-2.0
//
// Retrieval over assembled cells, against a plain reference.
#include "gpuworker/engine/reuse/prompt_retrieval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/reference_attention.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;

class PromptRetrievalTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRoom = 256;

  PromptRetrievalTest()
      : random_(7),
        keys_(kRoom * row()),
        values_(kRoom * row()),
        parts_{.decoder = &fixture_.decoder(), .device = &CpuDevice(), .spec = &spec()} {}

  const KvSpec& spec() const { return fixture_.engine().spec(); }
  size_t row() const { return size_t{spec().num_kv_heads} * spec().head_dim; }
  size_t query_row() const { return size_t{spec().num_query_heads} * spec().head_dim; }
  std::vector<float> Random(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>(random_.Below(2001)) / 500.0f - 2.0f;
    }
    return values;
  }
  std::unique_ptr<PromptRetrieval> Make(const RetrievalOptions& options) {
    auto retrieval = PromptRetrieval::Create(parts_, options);
    EXPECT_TRUE(retrieval.ok()) << retrieval.status();
    return *std::move(retrieval);
  }
  /// Adds a cell to layer 0, here and in the reference. Returns what its token attends to there.
  std::vector<float> Add(testing::ReferenceAttention* reference, std::vector<float>* query) {
    const std::vector<float> k = Random(row());
    const std::vector<float> v = Random(row());
    *query = Random(query_row());
    std::ranges::copy(k, keys_.begin() + static_cast<ptrdiff_t>(cells_ * row()));
    std::ranges::copy(v, values_.begin() + static_cast<ptrdiff_t>(cells_ * row()));
    std::vector<float> out(query_row());
    EXPECT_EQ(reference->Attend({.layer = 0,
                                 .num_tokens = 1,
                                 .first_position = cells_,
                                 .q = query->data(),
                                 .k = k.data(),
                                 .v = v.data(),
                                 .out = out.data()}),
              OkStatus());
    ++cells_;
    return out;
  }
  CellPools Pools() const {
    return {.keys = keys_.data(),
            .values = values_.data(),
            .cells = cells_,
            .slots = kRoom / spec().page_tokens};
  }

  EngineFixture fixture_;
  SeededRandom random_;
  std::vector<float> keys_;
  std::vector<float> values_;
  uint64_t cells_ = 0;
  const EngineParts parts_;
};

TEST_F(PromptRetrievalTest, QuestAttendsToTheSelectedPagesAsTheReferenceDoes) {
  const RetrievalOptions options = fixture_.engine().options().retrieval;
  const auto retrieval = Make(options);
  const uint32_t p = spec().page_tokens;
  testing::ReferenceAttention reference(
      spec(), {.sink_pages = options.sink_tokens / p,
               .window_pages = options.window_tokens / p,
               .selectable_pages =
                   (options.budget_tokens - options.sink_tokens - options.window_tokens) / p});
  std::vector<float> query;
  for (int i = 0; i < 150; ++i) (void)Add(&reference, &query);
  reference.set_sparse(true);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> expected = Add(&reference, &query);
    std::vector<float> out(query_row());
    ASSERT_EQ(retrieval->Attend(0, Pools(), query.data(), out.data()), OkStatus());
    EXPECT_LT(MaxDifference(out, expected), 1e-4f) << cells_;
  }
  EXPECT_LT(retrieval->attended_ratio(), 1);
}

TEST_F(PromptRetrievalTest, ABudgetForEverythingAttendsToEverything) {
  RetrievalOptions options = fixture_.engine().options().retrieval;
  options.budget_tokens = kRoom;
  const auto retrieval = Make(options);
  testing::ReferenceAttention reference(spec(), {});
  std::vector<float> query;
  std::vector<float> expected;
  for (int i = 0; i < 50; ++i) expected = Add(&reference, &query);
  std::vector<float> out(query_row());
  ASSERT_EQ(retrieval->Attend(0, Pools(), query.data(), out.data()), OkStatus());
  EXPECT_LT(MaxDifference(out, expected), 1e-4f);
  EXPECT_EQ(retrieval->attended_ratio(), 1);
}

TEST_F(PromptRetrievalTest, EveryPolicyStaysWithinItsBudget) {
  testing::ReferenceAttention reference(spec(), {});
  std::vector<float> query;
  for (int i = 0; i < 200; ++i) (void)Add(&reference, &query);
  for (const std::string_view policy : PolicyNames()) {
    SCOPED_TRACE(policy);
    RetrievalOptions options = WithPolicy(fixture_.engine().options().retrieval, policy).value();
    options.uncompressed_layers = {};
    const auto retrieval = Make(options);
    std::vector<float> out(query_row());
    for (uint32_t layer = 0; layer < spec().num_layers; ++layer) {
      ASSERT_EQ(retrieval->Attend(layer, Pools(), query.data(), out.data()), OkStatus());
    }
    if (policy == "full") {
      EXPECT_EQ(retrieval->attended_ratio(), 1);
    } else if (policy != "razor") {  // Some of its heads keep everything.
      EXPECT_LE(retrieval->attended_ratio(), options.budget_tokens / 200.0);
    }
  }
}

TEST_F(PromptRetrievalTest, OptionsThatDoNotFitAreNamed) {
  RetrievalOptions options = fixture_.engine().options().retrieval;
  options.budget_tokens = 23;
  const Status status = PromptRetrieval::Create(parts_, options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("budget_tokens is 23"));
}

}  // namespace
}  // namespace quire::worker
