// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/stream_context.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/random.h"
#include "common/page/dtype.h"
#include "common/page/layout.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::bench {
namespace {

Status ToStatus(kernels::OpStatus status, const char* kernel) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel ", kernel, ": ", kernels::Describe(status));
}

/// A seed for each layer and head.
uint64_t SeedOf(uint64_t seed, uint32_t layer, uint32_t head) {
  return SeededRandom(seed * 1000003 + layer * 1024 + head).Next();
}

}  // namespace

StatusOr<StreamContext> StreamContext::Make(const KvSpec& spec, TopicShape shape) {
  shape.page_tokens = spec.page_tokens;
  shape.head_dim = spec.head_dim;
  const uint64_t seed = shape.seed;
  StreamContext context(spec, shape.pages);
  context.units_.resize(SegmentBytes(spec, shape.pages));
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      shape.seed = SeedOf(seed, layer, head);
      const TopicPages& keys = context.heads_.emplace_back(shape);
      for (uint32_t page = 0; page < shape.pages; ++page) {
        context.WriteUnit(keys, layer, page, head);
      }
    }
  }
  QUIRE_RETURN_IF_ERROR(context.MakeDigests());
  return context;
}

std::span<const std::byte> StreamContext::unit(uint32_t layer, uint32_t page, uint32_t head) const {
  const uint64_t bytes = UnitBytes(spec_);
  const uint64_t index = (uint64_t{layer} * num_pages_ + page) * spec_.num_kv_heads + head;
  return std::span(units_).subspan(index * bytes, bytes);
}

void StreamContext::WriteUnit(const TopicPages& keys, uint32_t layer, uint32_t page,
                              uint32_t head) {
  std::byte* const out = units_.data() + (unit(layer, page, head).data() - units_.data());
  const std::span<const float> rows = keys.keys(page);
  for (size_t i = 0; i < rows.size(); ++i) {
    StoreElement(out, static_cast<int64_t>(i), spec_.dtype, rows[i]);
  }
  SeededRandom random(SeedOf(page, layer, head));
  for (size_t i = 0; i < rows.size(); ++i) {
    StoreElement(out, static_cast<int64_t>(rows.size() + i), spec_.dtype,
                 static_cast<float>(random.Uniform()));
  }
}

Status StreamContext::MakeDigests() {
  const auto units = static_cast<int64_t>(units_.size() / UnitBytes(spec_));
  digests_.resize(static_cast<size_t>(units) * 2 * spec_.head_dim * ElementBytes(spec_.dtype));
  return ToStatus(kernels::CpuKernels().digest(
                      {.units = units_.data(),
                       .unit_stride = static_cast<int64_t>(spec_.rows_per_unit()) * spec_.head_dim,
                       .digests = digests_.data(),
                       .n_units = units,
                       .page_tokens = spec_.page_tokens,
                       .head_dim = spec_.head_dim,
                       .dtype = spec_.dtype,
                       .out_dtype = spec_.dtype}),
                  "digest");
}

StatusOr<std::vector<std::vector<uint32_t>>> StreamContext::Select(
    uint32_t layer, std::span<const float> queries, const StreamBudget& budget) const {
  const kernels::KernelTable& ops = kernels::CpuKernels();
  const size_t candidates = num_pages_ - budget.sink_pages - budget.window_pages;
  std::vector<float> scores(spec_.num_query_heads * candidates);
  std::vector<float> pooled(spec_.num_kv_heads * candidates);
  std::vector<int32_t> best(size_t{spec_.num_kv_heads} * budget.selected_pages);
  QUIRE_RETURN_IF_ERROR(
      ToStatus(ops.score({.q = queries.data(),
                          .digests = digests_.data() + layer * (digests_.size() / spec_.num_layers),
                          .first_page = budget.sink_pages,
                          .scores = scores.data(),
                          .n_pages = static_cast<int64_t>(candidates),
                          .n_q = spec_.num_query_heads,
                          .n_kv = spec_.num_kv_heads,
                          .head_dim = spec_.head_dim,
                          .dtype = spec_.dtype}),
               "score"));
  QUIRE_RETURN_IF_ERROR(ToStatus(ops.pool({.scores = scores.data(),
                                           .pooled = pooled.data(),
                                           .n_q = spec_.num_query_heads,
                                           .n_kv = spec_.num_kv_heads,
                                           .n_pages = static_cast<int64_t>(candidates),
                                           .head_dim = spec_.head_dim}),
                                 "pool"));
  QUIRE_RETURN_IF_ERROR(
      ToStatus(ops.topk({.scores = pooled.data(),
                         .indices = best.data(),
                         .n_rows = spec_.num_kv_heads,
                         .n_pages = static_cast<int64_t>(candidates),
                         .k = budget.selected_pages,
                         .index_offset = static_cast<int32_t>(budget.sink_pages)}),
               "topk"));
  std::vector<std::vector<uint32_t>> selected(spec_.num_kv_heads);
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    const auto first = best.begin() + std::ptrdiff_t{head} * budget.selected_pages;
    selected[head].assign(first, first + budget.selected_pages);
  }
  return selected;
}

StatusOr<StreamSelections> StreamSelections::Make(const StreamContext& context,
                                                  QueryOptions queries,
                                                  const StreamBudget& budget) {
  const KvSpec& spec = context.spec();
  const uint64_t seed = queries.seed;
  queries.group_size = spec.group_size();
  StreamSelections selections(context, budget);
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      queries.seed = SeedOf(seed, layer, head);
      selections.streams_.emplace_back(context.pages(layer, head), queries);
    }
  }
  QUIRE_RETURN_IF_ERROR(selections.Select());
  return selections;
}

Status StreamSelections::Step() {
  for (QueryStream& stream : streams_) stream.Step();
  return Select();
}

Status StreamSelections::Select() {
  const KvSpec& spec = context_->spec();
  StepSelection selection;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    std::vector<float> queries;
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      std::ranges::copy(streams_[size_t{layer} * spec.num_kv_heads + head].queries(),
                        std::back_inserter(queries));
    }
    QUIRE_ASSIGN_OR_RETURN(auto selected, context_->Select(layer, queries, budget_));
    selection.push_back(std::move(selected));
  }
  selection_ = std::move(selection);
  return OkStatus();
}

uint64_t MissingUnits(const StepSelection& before, const StepSelection& now) {
  if (before.empty()) return CountUnits(now);
  uint64_t missing = 0;
  for (size_t layer = 0; layer < now.size(); ++layer) {
    for (size_t head = 0; head < now[layer].size(); ++head) {
      std::vector<uint32_t> difference;
      std::ranges::set_difference(now[layer][head], before[layer][head],
                                  std::back_inserter(difference));
      missing += difference.size();
    }
  }
  return missing;
}

uint64_t CountUnits(const StepSelection& selection) {
  uint64_t units = 0;
  for (const auto& layer : selection) {
    for (const auto& pages : layer) units += pages.size();
  }
  return units;
}

}  // namespace quire::bench
