// SPDX-License-Identifier: Apache-2.0
//
// The four cases of a token in a layer and in the layers above it (SamKV): what is computed of it
// there, and which keys and values it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "gpuworker/context/positions.h"
#include "gpuworker/context/samkv/samkv.h"
#include "gpuworker/testing/cached_documents.h"

namespace quire::worker {
namespace {

using testing::CachedDocuments;
using testing::Distance;
using testing::MemoryViews;
using testing::PromptKv;

/// One token, in a middle block of the second document. Layer 1 is the lower layer, and layer 2 the
/// upper one.
class RowCasesTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kLower = 1;
  static constexpr uint32_t kUpper = 2;
  static constexpr uint32_t kToken = 50;
  static constexpr uint32_t kBlock = 3;  ///< Its block, of 16 tokens.
  static constexpr uint64_t kPosition = 100 + kToken;

  /// `reads` and `computes` are layers that read the token's block, and that compute the token.
  ReusePlan Plan(const std::vector<uint32_t>& reads, const std::vector<uint32_t>& computes) {
    statistics_.clear();
    for (const PlacedSource& source : documents_.layout().sources) {
      statistics_.push_back(
          {.split = {.tokens = static_cast<uint32_t>(source.tokens), .block_tokens = 16},
           .layers = std::vector<LayerStatistics>(documents_.num_layers())});
    }
    SelectedBlocks selected(documents_.num_layers(),
                            std::vector<std::vector<uint32_t>>(statistics_.size()));
    for (const uint32_t layer : reads) selected[layer][1] = {kBlock};
    for (const uint32_t layer : computes) statistics_[1].layers[layer].outlier_tokens = {kToken};
    std::vector<const DocumentStatistics*> pointers;
    for (const DocumentStatistics& one : statistics_) pointers.push_back(&one);
    return SamKv(documents_.layout(), pointers, selected, {.update = RowUpdate::kOverwrite});
  }
  static bool Has(const ReusePlan& plan, std::span<const uint32_t> rows) {
    return std::ranges::any_of(rows,
                               [&](uint32_t row) { return plan.positions[row] == kPosition; });
  }
  static bool IsFresh(const ReusePlan& plan, uint32_t layer) {
    return Has(plan, plan.rows->Rows(layer).fresh);
  }
  static bool HasOutput(const ReusePlan& plan, uint32_t layer) {
    return Has(plan, plan.rows->Rows(layer).outputs);
  }
  static bool IsVisible(const ReusePlan& plan, uint32_t layer) {
    return std::ranges::binary_search(plan.cells(layer).visible, kPosition);
  }
  static bool IsHidden(const ReusePlan& plan, uint32_t layer) {
    return std::ranges::binary_search(plan.cells(layer).hidden, kPosition);
  }

  /// A plan that ran over `kv`.
  struct Ran {
    ReusePlan plan;
    MemoryViews views;
    std::vector<float> logits;

    Ran(ReusePlan made, const PromptKv* kv, CachedDocuments* documents)
        : plan(std::move(made)), views(&plan, kv, documents->row()) {
      logits = documents->Run(&plan, &views).logits;
    }
    /// Values of a position's cell after the run.
    std::span<const float> Values(uint32_t layer, uint64_t position, size_t row) const {
      const ViewCells& cells = plan.cells(layer);
      const auto hidden = std::ranges::lower_bound(cells.hidden, position);
      const bool is_hidden = hidden != cells.hidden.end() && *hidden == position;
      const uint64_t cell =
          is_hidden ? cells.HiddenCell(hidden - cells.hidden.begin())
                    : std::ranges::lower_bound(cells.visible, position) - cells.visible.begin();
      return std::span(views.values(layer)).subspan(cell * row, row);
    }
  };
  bool KeepsStored(const Ran& ran, uint32_t layer) const {
    const size_t row = documents_.row();
    return std::ranges::equal(ran.Values(layer, kPosition, row),
                              std::span(stored_.values[layer]).subspan(kPosition * row, row));
  }
  /// True when the token's stored values of `layer` reach the answer.
  bool IsRead(const std::vector<uint32_t>& reads, const std::vector<uint32_t>& computes,
              uint32_t layer) {
    const Ran before(Plan(reads, computes), &stored_, &documents_);
    PromptKv changed = stored_;
    changed.values[layer][kPosition * documents_.row()] += 10;
    const Ran after(Plan(reads, computes), &changed, &documents_);
    return Distance(before.logits, after.logits) > 0;
  }

  CachedDocuments documents_{{100, 120, 90}, 10};
  const PromptKv stored_ = documents_.Alone();
  std::vector<DocumentStatistics> statistics_;
};

TEST_F(RowCasesTest, PlansComputeWhatTheFourCasesSay) {
  struct Case {
    const char* name;
    std::vector<uint32_t> reads, computes;
    bool fresh, output;  ///< In the lower layer.
  };
  const Case cases[] = {
      {"1: the lower layer alone computes it", {kLower, kUpper}, {kLower}, true, false},
      {"2: neither computes it", {kLower, kUpper}, {}, false, false},
      {"3: the upper layer alone computes it", {kLower, kUpper}, {kUpper}, false, true},
      {"3, blank in the lower layer", {kUpper}, {kUpper}, false, true},
      {"4: both compute it", {kLower, kUpper}, {kLower, kUpper}, true, true},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const ReusePlan plan = Plan(one.reads, one.computes);
    EXPECT_EQ(IsFresh(plan, kLower), one.fresh);
    EXPECT_EQ(HasOutput(plan, kLower), one.output);
    EXPECT_EQ(IsFresh(plan, kUpper), one.computes.size() > (one.fresh ? 1u : 0u));
    EXPECT_FALSE(HasOutput(plan, kUpper)) << "no layer behind it computes the token";
    // A layer that computes it needs its outputs in all layers below.
    EXPECT_EQ(HasOutput(plan, 0), !one.computes.empty());
    const bool read_below = one.reads.front() == kLower;
    EXPECT_EQ(IsVisible(plan, kLower), read_below);
    EXPECT_EQ(IsHidden(plan, kLower), one.output && !read_below);
  }
}

TEST_F(RowCasesTest, Case1TakesFreshKeysAndLeavesTheStream) {
  const Ran ran(Plan({kLower, kUpper}, {kLower}), &stored_, &documents_);
  EXPECT_FALSE(KeepsStored(ran, kLower));
  EXPECT_TRUE(KeepsStored(ran, kUpper));
  EXPECT_FALSE(IsRead({kLower, kUpper}, {kLower}, kLower)) << "its stored values were replaced";
}

TEST_F(RowCasesTest, Case2ReadsWhatIsStored) {
  const Ran ran(Plan({kLower, kUpper}, {}), &stored_, &documents_);
  EXPECT_TRUE(KeepsStored(ran, kLower));
  EXPECT_TRUE(IsRead({kLower, kUpper}, {}, kLower));
  EXPECT_FALSE(IsRead({kUpper}, {}, kLower)) << "blank, and without an output";
}

TEST_F(RowCasesTest, Case3ComputesTheOutputOverItsStoredKeysAlsoWhereItIsBlank) {
  for (const std::vector<uint32_t>& reads : {std::vector{kLower, kUpper}, std::vector{kUpper}}) {
    const Ran ran(Plan(reads, {kUpper}), &stored_, &documents_);
    EXPECT_TRUE(KeepsStored(ran, kLower));
    EXPECT_FALSE(KeepsStored(ran, kUpper));
    EXPECT_TRUE(IsRead(reads, {kUpper}, kLower));
  }
}

TEST_F(RowCasesTest, Case3IsMaskedForOtherRowsWhereItIsBlank) {
  const size_t row = documents_.row();
  PromptKv changed = stored_;
  changed.values[kLower][kPosition * row] += 10;
  const auto differ = [&](const std::vector<uint32_t>& reads) {
    const Ran before(Plan(reads, {kUpper}), &stored_, &documents_);
    const Ran after(Plan(reads, {kUpper}), &changed, &documents_);
    // Values that a row computes in the upper layer have all that it saw in the lower one.
    std::vector<uint64_t> positions;
    for (const uint32_t fresh : before.plan.rows->Rows(kUpper).fresh) {
      const uint64_t position = before.plan.positions[fresh];
      if (!std::ranges::equal(before.Values(kUpper, position, row),
                              after.Values(kUpper, position, row))) {
        positions.push_back(position);
      }
    }
    return positions;
  };
  EXPECT_THAT(differ({kUpper}), ::testing::ElementsAre(kPosition));
  EXPECT_GT(differ({kLower, kUpper}).size(), 50u) << "where it is selected, all behind it see it";
}

TEST_F(RowCasesTest, Case4TakesFreshKeysInBothLayers) {
  const Ran ran(Plan({kLower, kUpper}, {kLower, kUpper}), &stored_, &documents_);
  EXPECT_FALSE(KeepsStored(ran, kLower));
  EXPECT_FALSE(KeepsStored(ran, kUpper));
  EXPECT_FALSE(IsRead({kLower, kUpper}, {kLower, kUpper}, kLower));
  EXPECT_FALSE(IsRead({kLower, kUpper}, {kLower, kUpper}, kUpper));
}

}  // namespace
}  // namespace quire::worker
