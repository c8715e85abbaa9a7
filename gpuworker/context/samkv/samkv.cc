// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/samkv/samkv.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gpuworker/context/positions.h"

namespace quire::worker {
namespace {

void Append(const Positions& some, Positions* positions) {
  positions->insert(positions->end(), some.begin(), some.end());
}

void AppendQuestion(const PromptLayout& layout, Positions* positions) {
  AppendRange(layout.question_first, layout.tokens(), positions);
}

/// A document's tokens as positions of the prompt.
class InPrompt {
 public:
  InPrompt(const PlacedSource& source, const BlockSplit& split) : source_(source), split_(split) {}

  void AppendBlock(uint32_t block, Positions* positions) const {
    const uint64_t begin = std::max<uint64_t>(split_.Begin(block), source_.skipped);
    AppendRange(Of(begin), Of(std::max<uint64_t>(split_.End(block), begin)), positions);
  }
  /// The first block and the last two; all of a document without middle blocks.
  void AppendAnchors(Positions* positions) const {
    for (uint32_t block = 0; block < split_.blocks(); ++block) {
      if (!split_.IsMiddle(block)) AppendBlock(block, positions);
    }
  }
  uint64_t Of(uint64_t token) const { return source_.first + token - source_.skipped; }

 private:
  const PlacedSource& source_;
  const BlockSplit& split_;
};

/// Rows that are listed in advance.
class ListedRows final : public RowPlan {
 public:
  explicit ListedRows(std::vector<LayerRows> layers) : layers_(std::move(layers)) {}
  LayerRows Rows(uint32_t layer) override { return layers_[layer]; }

 private:
  const std::vector<LayerRows> layers_;
};

/// Every row in every layer, with its queries told.
class ToldQueries final : public RowPlan {
 public:
  ToldQueries(uint32_t rows, QueryMeans* means) : rows_(rows), means_(means) {
    std::iota(rows_.begin(), rows_.end(), 0);
  }
  LayerRows Rows(uint32_t) override { return {.fresh = rows_, .outputs = rows_}; }
  bool ReadsQueries(uint32_t) const override { return true; }
  void ReadQueries(uint32_t layer, std::span<const uint64_t> positions,
                   std::span<const float> queries) override {
    means_->Add(layer, positions, queries);
  }

 private:
  std::vector<uint32_t> rows_;
  QueryMeans* const means_;
};

ViewCells Cells(const PromptLayout& layout, Positions visible, Positions hidden) {
  std::ranges::sort(visible);
  ViewCells cells{.visible = std::move(visible), .hidden = std::move(hidden)};
  for (const uint64_t position : cells.visible) {
    cells.cached.push_back(position < layout.question_first);
  }
  return cells;
}

/// Positions of one layer.
struct LayerTokens {
  Positions kept;   ///< Read by every row behind them.
  Positions fresh;  ///< Computed, some of those.
};

class SamKvPlanner {
 public:
  SamKvPlanner(const PromptLayout& layout, std::span<const DocumentStatistics* const> documents,
               const SelectedBlocks& selected, const SamKvPlanOptions& options)
      : layout_(layout), documents_(documents), selected_(selected), options_(options) {}

  ReusePlan Plan() const {
    const size_t num_layers = selected_.size();
    std::vector<LayerTokens> layers;
    for (uint32_t layer = 0; layer < num_layers; ++layer) layers.push_back(TokensOf(layer));
    // outputs[n]: what a later layer computes, or in the last layer the row whose logits follow.
    std::vector<Positions> outputs(num_layers);
    outputs.back() = {layout_.tokens() - 1};
    for (size_t layer = num_layers - 1; layer > 0; --layer) {
      outputs[layer - 1] = Union(outputs[layer], layers[layer].fresh);
    }
    ReusePlan plan{.positions = Union(outputs.front(), layers.front().fresh),
                   .update = options_.update};
    std::vector<LayerRows> rows;
    for (size_t layer = 0; layer < num_layers; ++layer) {
      rows.push_back({.fresh = IndicesOf(layers[layer].fresh, plan.positions),
                      .outputs = IndicesOf(outputs[layer], plan.positions)});
      Positions hidden = Difference(outputs[layer], layers[layer].kept);
      plan.layers.push_back(Cells(layout_, layers[layer].kept, std::move(hidden)));
    }
    plan.rows = std::make_unique<ListedRows>(std::move(rows));
    return plan;
  }

 private:
  LayerTokens TokensOf(uint32_t layer) const {
    LayerTokens tokens;
    for (size_t i = 0; i < documents_.size(); ++i) AppendDocument(layer, i, &tokens);
    AppendQuestion(layout_, &tokens.kept);
    AppendQuestion(layout_, &tokens.fresh);
    std::ranges::sort(tokens.kept);
    std::ranges::sort(tokens.fresh);
    return tokens;
  }

  void AppendDocument(uint32_t layer, size_t i, LayerTokens* tokens) const {
    const InPrompt in(layout_.sources[i], documents_[i]->split);
    const std::vector<uint32_t> blocks = BlocksOf(layer, i);
    Positions anchors;
    Positions middle;
    in.AppendAnchors(&anchors);
    for (const uint32_t block : blocks) in.AppendBlock(block, &middle);
    Append(anchors, &tokens->kept);
    Append(middle, &tokens->kept);
    if (i == 0) return;  // Nothing stands before it: its keys are as full prefill has them.
    switch (options_.rows) {
      case SamKvRows::kNothing:
        break;
      case SamKvRows::kEverything:
        Append(anchors, &tokens->fresh);
        Append(middle, &tokens->fresh);
        break;
      case SamKvRows::kAttended:
        anchors.resize(std::min<size_t>(anchors.size(), kHeadTokens));
        Append(anchors, &tokens->fresh);
        Append(middle, &tokens->fresh);
        break;
      case SamKvRows::kPublished:
        Append(anchors, &tokens->fresh);
        AppendOutliers(layer, i, blocks, &tokens->fresh);
        break;
    }
  }

  /// Middle blocks that the layer reads, ascending.
  std::vector<uint32_t> BlocksOf(uint32_t layer, size_t document) const {
    if (options_.rows != SamKvRows::kAttended) return selected_[layer][document];
    std::vector<uint32_t> blocks;
    for (const auto& of_documents : selected_) {
      blocks.insert(blocks.end(), of_documents[document].begin(), of_documents[document].end());
    }
    std::ranges::sort(blocks);
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    return blocks;
  }

  void AppendOutliers(uint32_t layer, size_t i, const std::vector<uint32_t>& blocks,
                      Positions* fresh) const {
    const DocumentStatistics& document = *documents_[i];
    const InPrompt in(layout_.sources[i], document.split);
    for (const uint32_t token : document.layers[layer].outlier_tokens) {
      const bool selected = std::ranges::binary_search(blocks, document.split.BlockOf(token));
      if (selected) fresh->push_back(in.Of(token));
    }
  }

  const PromptLayout& layout_;
  const std::span<const DocumentStatistics* const> documents_;
  const SelectedBlocks& selected_;
  const SamKvPlanOptions& options_;
};

}  // namespace

void QueryMeans::Add(uint32_t layer, std::span<const uint64_t> positions,
                     std::span<const float> queries) {
  const size_t row = size_t{shape_.num_query_heads} * shape_.head_dim;
  std::vector<double>& sum = sums_[layer];
  sum.resize(row);
  for (size_t i = 0; i < positions.size(); ++i) {
    std::vector<float> query(queries.begin() + i * row, queries.begin() + (i + 1) * row);
    Unrotate(query.data(), 1, shape_.num_query_heads, shape_.head_dim, positions[i], interleaved_,
             rotation_);
    for (size_t c = 0; c < row; ++c) sum[c] += query[c];
  }
  if (layer == 0) rows_ += positions.size();
}

std::vector<std::vector<float>> QueryMeans::Means() const {
  std::vector<std::vector<float>> means;
  for (const std::vector<double>& sum : sums_) {
    std::vector<float> mean;
    mean.reserve(sum.size());
    for (const double channel : sum) {
      mean.push_back(static_cast<float>(channel / static_cast<double>(rows_)));
    }
    means.push_back(std::move(mean));
  }
  return means;
}

ReusePlan SamKvQuestion(const PromptLayout& layout, std::span<const BlockSplit> splits,
                        QueryMeans* means) {
  Positions visible;
  for (size_t i = 0; i < splits.size(); ++i) {
    InPrompt(layout.sources[i], splits[i]).AppendAnchors(&visible);
  }
  AppendQuestion(layout, &visible);
  ReusePlan plan;
  AppendQuestion(layout, &plan.positions);
  plan.layers.push_back(Cells(layout, std::move(visible), {}));
  plan.rows = std::make_unique<ToldQueries>(static_cast<uint32_t>(plan.positions.size()), means);
  return plan;
}

ReusePlan SamKv(const PromptLayout& layout, std::span<const DocumentStatistics* const> documents,
                const SelectedBlocks& selected, const SamKvPlanOptions& options) {
  return SamKvPlanner(layout, documents, selected, options).Plan();
}

}  // namespace quire::worker
