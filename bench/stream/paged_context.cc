// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/paged_context.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

Status ToStatus(kernels::OpStatus status, const char* kernel) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel ", kernel, ": ", kernels::Describe(status));
}

}  // namespace

PagedContext::PagedContext(const KvSpec& spec, std::vector<std::byte> units)
    : spec_(spec),
      units_(std::move(units)),
      num_pages_(static_cast<uint32_t>(units_.size() / SegmentBytes(spec, 1))) {}

StatusOr<PagedContext> PagedContext::Make(const KvSpec& spec, std::vector<std::byte> units) {
  PagedContext context(spec, std::move(units));
  QUIRE_RETURN_IF_ERROR(context.MakeDigests());
  return context;
}

std::span<const std::byte> PagedContext::unit(uint32_t layer, uint32_t page, uint32_t head) const {
  const uint64_t bytes = UnitBytes(spec_);
  const uint64_t index = (uint64_t{layer} * num_pages_ + page) * spec_.num_kv_heads + head;
  return std::span(units_).subspan(index * bytes, bytes);
}

Status PagedContext::MakeDigests() {
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

StatusOr<std::vector<std::vector<uint32_t>>> PagedContext::Select(uint32_t layer,
                                                                  std::span<const float> queries,
                                                                  const PageBudget& budget,
                                                                  uint32_t pages) const {
  const kernels::KernelTable& ops = kernels::CpuKernels();
  const size_t candidates = pages - budget.sink_pages - budget.window_pages;
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
