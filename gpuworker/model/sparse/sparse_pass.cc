// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sparse/sparse_pass.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace quire::worker {
namespace {

/// `rows` in blocks of at most SparsePass::kBlockRows, each with where it begins.
template <typename Body>
Status ForEachBlock(std::span<const uint32_t> rows, const Body& body) {
  for (size_t at = 0; at < rows.size(); at += SparsePass::kBlockRows) {
    const size_t count = std::min<size_t>(SparsePass::kBlockRows, rows.size() - at);
    QUIRE_RETURN_IF_ERROR(body(rows.subspan(at, count), at));
  }
  return OkStatus();
}

bool IsAscending(std::span<const uint32_t> rows) {
  return std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end();
}

/// Rows of `a` that are not in `b`; both ascending.
std::vector<uint32_t> Without(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  std::vector<uint32_t> rest;
  std::ranges::set_difference(a, b, std::back_inserter(rest));
  return rest;
}

std::vector<uint32_t> Common(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  std::vector<uint32_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

}  // namespace

Status SparsePass::Run(float* logits) {
  live_.resize(prompt_.tokens.size());
  std::iota(live_.begin(), live_.end(), 0);
  const auto block = static_cast<uint32_t>(std::min<size_t>(kBlockRows, live_.size()));
  const size_t row_bytes = c_.hidden_size * sizeof(float);
  if (!plan_->MeasuredSpans().empty()) shares_.emplace(model_, plan_->MeasuredSpans());
  QUIRE_RETURN_IF_ERROR(math_.Allocate(block));
  QUIRE_ASSIGN_OR_RETURN(hidden_, model_.device->Allocate(live_.size() * row_bytes));
  QUIRE_ASSIGN_OR_RETURN(narrowed_, model_.device->Allocate(live_.size() * row_bytes));
  QUIRE_ASSIGN_OR_RETURN(block_, model_.device->Allocate(block * row_bytes));
  QUIRE_RETURN_IF_ERROR(ForEachBlock(live_, [&](std::span<const uint32_t> rows, size_t at) {
    QUIRE_RETURN_IF_ERROR(math_.SetRows(PositionsOf(rows)));
    QUIRE_RETURN_IF_ERROR(math_.SetTokens(prompt_.tokens.subspan(at, rows.size())));
    return math_.Embed(StreamAt(at));
  }));
  for (uint32_t layer = 0; layer < c_.num_layers; ++layer) {
    QUIRE_RETURN_IF_ERROR(Annotate(RunLayer(layer), "layer ", layer));
  }
  return logits == nullptr ? OkStatus() : Logits(logits);
}

Status SparsePass::RunLayer(uint32_t layer) {
  LayerRows rows = plan_->Rows(layer);
  QUIRE_RETURN_IF_ERROR(CheckRows(layer, rows));
  QUIRE_RETURN_IF_ERROR(Ask(layer));
  QUIRE_ASSIGN_OR_RETURN(const LayerView view, views_->View(layer));
  if (plan_->ChoosesIn(layer)) {
    std::vector<double> deviations;
    QUIRE_RETURN_IF_ERROR(RefreshOnly(layer, view, rows.fresh, &deviations));
    rows.outputs = plan_->Choose(layer, deviations);
    QUIRE_RETURN_IF_ERROR(CheckRows(layer, rows));
    rows.fresh.clear();  // The view has them.
  } else {
    QUIRE_RETURN_IF_ERROR(RefreshOnly(layer, view, Without(rows.fresh, rows.outputs), nullptr));
  }
  QUIRE_RETURN_IF_ERROR(Narrow(rows.outputs));
  return ComputeOutputs(layer, view, rows.fresh);
}

Status SparsePass::Ask(uint32_t layer) {
  const std::vector<uint32_t> asking = plan_->Asks(layer);
  QUIRE_RETURN_IF_ERROR(CheckRows(layer, {.fresh = asking}));
  return ForEachBlock(asking, [&](std::span<const uint32_t> block, size_t) -> Status {
    const std::vector<uint64_t> positions = PositionsOf(block);
    QUIRE_RETURN_IF_ERROR(Gather(block, block_.as<float>()));
    QUIRE_RETURN_IF_ERROR(math_.SetRows(positions));
    QUIRE_RETURN_IF_ERROR(math_.Queries(layer, block_.as<float>()));
    return TellQueries(layer, positions);
  });
}

Status SparsePass::CheckRows(uint32_t layer, const LayerRows& rows) const {
  for (const auto& [name, list] : {std::pair{"fresh", &rows.fresh}, {"output", &rows.outputs}}) {
    if (!IsAscending(*list)) return InvalidArgument("the plan's ", name, " rows are not ascending");
    if (std::ranges::includes(live_, *list)) continue;
    return InvalidArgument("the plan's ", name, " rows of layer ", layer,
                           " are not outputs of the layer before");
  }
  return OkStatus();
}

Status SparsePass::RefreshOnly(uint32_t layer, const LayerView& view,
                               std::span<const uint32_t> rows, std::vector<double>* deviations) {
  stats_.fresh_rows += rows.size();
  return ForEachBlock(rows, [&](std::span<const uint32_t> block, size_t) -> Status {
    const std::vector<uint64_t> positions = PositionsOf(block);
    QUIRE_RETURN_IF_ERROR(Gather(block, block_.as<float>()));
    QUIRE_RETURN_IF_ERROR(math_.SetRows(positions));
    QUIRE_RETURN_IF_ERROR(math_.Queries(layer, block_.as<float>()));
    return updates_.Take(view, positions, positions, math_.k(), math_.v(), deviations);
  });
}

Status SparsePass::ComputeOutputs(uint32_t layer, const LayerView& view,
                                  std::span<const uint32_t> fresh) {
  stats_.output_rows += live_.size();
  return ForEachBlock(live_, [&](std::span<const uint32_t> block, size_t at) -> Status {
    const std::vector<uint64_t> positions = PositionsOf(block);
    QUIRE_RETURN_IF_ERROR(math_.SetRows(positions));
    QUIRE_RETURN_IF_ERROR(math_.Queries(layer, StreamAt(at)));
    if (plan_->ReadsQueries(layer)) QUIRE_RETURN_IF_ERROR(TellQueries(layer, positions));
    const std::vector<uint32_t> taken = Common(block, fresh);
    stats_.fresh_rows += taken.size();
    QUIRE_RETURN_IF_ERROR(
        updates_.Take(view, positions, PositionsOf(taken), math_.k(), math_.v(), nullptr));
    if (shares_) QUIRE_RETURN_IF_ERROR(TellShares(layer, view, positions));
    QUIRE_RETURN_IF_ERROR(attention_.Attend(view, positions, math_.q(), math_.attended()));
    return math_.EndLayer(layer, StreamAt(at));
  });
}

Status SparsePass::TellQueries(uint32_t layer, std::span<const uint64_t> positions) {
  std::vector<float> queries(positions.size() * c_.num_query_heads * c_.head_dim);
  QUIRE_RETURN_IF_ERROR(
      model_.device->CopyToHost(queries.data(), math_.q(), queries.size() * sizeof(float)));
  plan_->ReadQueries(layer, positions, queries);
  return OkStatus();
}

Status SparsePass::TellShares(uint32_t layer, const LayerView& view,
                              std::span<const uint64_t> positions) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> shares, shares_->Of(view, positions, math_.q()));
  plan_->ReadShares(layer, positions, shares);
  return OkStatus();
}

Status SparsePass::Narrow(std::span<const uint32_t> rows) {
  if (rows.size() == live_.size()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(Gather(rows, narrowed_.as<float>()));
  std::swap(hidden_, narrowed_);
  live_.assign(rows.begin(), rows.end());
  return OkStatus();
}

Status SparsePass::Gather(std::span<const uint32_t> rows, float* to) {
  std::vector<int32_t> places(rows.size());
  std::ranges::transform(rows, places.begin(), [this](uint32_t row) {
    return static_cast<int32_t>(std::ranges::lower_bound(live_, row) - live_.begin());
  });
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const on_device,
                         places_.Put(*model_.device, std::span<const int32_t>(places)));
  return ToStatus(model_.device->kernels().embed({.table = hidden_.as<float>(),
                                                  .ids = on_device,
                                                  .y = to,
                                                  .rows = static_cast<int64_t>(rows.size()),
                                                  .vocab = static_cast<int64_t>(live_.size()),
                                                  .dim = c_.hidden_size,
                                                  .stream = model_.device->stream()}),
                  "embed");
}

Status SparsePass::Logits(float* to) {
  constexpr uint32_t kRows = 32;  // Bounds the device memory for large vocabularies.
  const size_t vocab = c_.vocab_size;
  QUIRE_ASSIGN_OR_RETURN(const DeviceBuffer logits,
                         model_.device->Allocate(kRows * vocab * sizeof(float)));
  for (size_t at = 0; at < live_.size(); at += kRows) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(kRows, live_.size() - at));
    QUIRE_RETURN_IF_ERROR(math_.FinalNorm(StreamAt(at), math_.normed(), count));
    QUIRE_RETURN_IF_ERROR(math_.Vocabulary(math_.normed(), logits.as<float>(), count));
    QUIRE_RETURN_IF_ERROR(
        model_.device->CopyToHost(to + at * vocab, logits.data(), count * vocab * sizeof(float)));
  }
  return model_.device->Synchronize();
}

std::vector<uint64_t> SparsePass::PositionsOf(std::span<const uint32_t> rows) const {
  std::vector<uint64_t> positions(rows.size());
  std::ranges::transform(rows, positions.begin(),
                         [this](uint32_t row) { return prompt_.positions[row]; });
  return positions;
}

}  // namespace quire::worker
