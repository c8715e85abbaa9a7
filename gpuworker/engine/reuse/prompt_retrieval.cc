// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/prompt_retrieval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "gpuworker/engine/request_checks.h"
#include "gpuworker/retrieval/page_observer.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

uint32_t PagesOf(const CellPools& pools, uint32_t page_tokens) {
  return static_cast<uint32_t>((pools.cells + page_tokens - 1) / page_tokens);
}

/// Cells of a page that are there.
uint32_t RowsOf(const CellPools& pools, uint32_t page, uint32_t page_tokens) {
  const uint64_t first = uint64_t{page} * page_tokens;
  return static_cast<uint32_t>(std::min<uint64_t>(page_tokens, pools.cells - first));
}

float AttentionScale(const KvSpec& spec) {
  return 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
}

}  // namespace

StatusOr<std::unique_ptr<PromptRetrieval>> PromptRetrieval::Create(const EngineParts& parts,
                                                                   RetrievalOptions options) {
  options.side = SelectionSide::kWorker;
  QUIRE_ASSIGN_OR_RETURN(auto policy, MakeSequencePolicy(parts, options));
  if (policy->token_observer() != nullptr) {
    return InvalidArgument("policy '", policy->name(),
                           "' selects by the tokens of one document; over several documents name "
                           "another policy");
  }
  return std::unique_ptr<PromptRetrieval>(new PromptRetrieval(parts, std::move(policy)));
}

PromptRetrieval::PromptRetrieval(const EngineParts& parts, std::unique_ptr<RetrievalPolicy> policy)
    : parts_(parts),
      policy_(std::move(policy)),
      observed_(parts.spec->num_layers),
      ratios_(parts.spec->num_layers, 1) {}

double PromptRetrieval::attended_ratio() const {
  return std::accumulate(ratios_.begin(), ratios_.end(), 0.0) / static_cast<double>(ratios_.size());
}

Status PromptRetrieval::Attend(uint32_t layer, const CellPools& pools, const float* q, float* out) {
  const CacheLayout layout = policy_->Layout(layer);
  if (layout.everything || PagesOf(pools, parts_.spec->page_tokens) <= layout.num_slots()) {
    return AttendToAll(pools, q, out);
  }
  QUIRE_RETURN_IF_ERROR(Observe(layer, pools));
  QUIRE_ASSIGN_OR_RETURN(const Attended attended, Choose(layer, pools, layout, q));
  Count(layer, attended, pools);
  return AttendTo(attended, pools, q, out);
}

Status PromptRetrieval::Observe(uint32_t layer, const CellPools& pools) {
  PageObserver* const observer = policy_->page_observer();
  if (observer == nullptr) return OkStatus();
  const KvSpec& spec = *parts_.spec;
  if (!observed_[layer]) {
    QUIRE_RETURN_IF_ERROR(observer->OnPrefillLayer(layer, 0, nullptr));
    observed_[layer] = 0;
  }
  if (units_.size_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(units_, parts_.device->Allocate(ExtentBytes(spec, 1)));
  }
  for (uint32_t& page = *observed_[layer]; (page + 1) * uint64_t{spec.page_tokens} <= pools.cells;
       ++page) {
    const auto slot = static_cast<int32_t>(page);
    QUIRE_ASSIGN_OR_RETURN(const int32_t* const listed, slot_.Put(*parts_.device, {&slot, 1}));
    QUIRE_RETURN_IF_ERROR(ToStatus(
        parts_.device->kernels().nhd_to_hnd({.k_pool = pools.keys,
                                             .v_pool = pools.values,
                                             .slots = listed,
                                             .units = units_.data(),
                                             .num_slots = static_cast<int64_t>(pools.slots),
                                             .n_pages = 1,
                                             .page_tokens = spec.page_tokens,
                                             .n_kv = spec.num_kv_heads,
                                             .head_dim = spec.head_dim,
                                             .last_page_rows = spec.page_tokens,
                                             .dtype = spec.dtype,
                                             .stream = parts_.device->stream()}),
        "nhd_to_hnd"));
    QUIRE_RETURN_IF_ERROR(observer->OnPageComplete(layer, page, units_.data()));
    QUIRE_RETURN_IF_ERROR(parts_.device->Synchronize());  // The list of one slot goes away.
  }
  return OkStatus();
}

StatusOr<PromptRetrieval::Attended> PromptRetrieval::Choose(uint32_t layer, const CellPools& pools,
                                                            const CacheLayout& layout,
                                                            const float* q) {
  const uint32_t pages = PagesOf(pools, parts_.spec->page_tokens);
  const PageRange candidates{.first = layout.sink_pages, .end = pages - layout.window_pages};
  Attended attended;
  for (uint32_t page = 0; page < pages; ++page) {
    if (!candidates.contains(page)) attended.fixed.push_back(page);
  }
  attended.selected.resize(parts_.spec->num_kv_heads);
  if (!layout.selects()) return attended;
  const std::vector<uint64_t> held(parts_.spec->num_kv_heads, 0);
  const SelectRequest request{.layer = layer,
                              .q = q,
                              .candidates = candidates,
                              .max_pages = layout.most_selected(),
                              .position = pools.cells,
                              .held = held};
  // Every head blocks: there is nothing to wait for, so an older selection has no use.
  QUIRE_RETURN_IF_ERROR(policy_->NeedsBlocking(request).status());
  SelectRequest select = request;
  select.held = {};
  QUIRE_ASSIGN_OR_RETURN(Selection selection, policy_->Select(select));
  attended.selected = std::move(selection.pages);
  return attended;
}

void PromptRetrieval::Count(uint32_t layer, const Attended& attended, const CellPools& pools) {
  const uint32_t p = parts_.spec->page_tokens;
  uint64_t fixed = 0;
  for (const uint32_t page : attended.fixed) fixed += RowsOf(pools, page, p);
  uint64_t selected = 0;
  for (const std::vector<uint32_t>& pages : attended.selected) selected += pages.size() * p;
  const auto heads = static_cast<double>(attended.selected.size());
  ratios_[layer] = (static_cast<double>(fixed) + static_cast<double>(selected) / heads) /
                   static_cast<double>(pools.cells);
}

Status PromptRetrieval::AttendTo(const Attended& attended, const CellPools& pools, const float* q,
                                 float* out) {
  const KvSpec& spec = *parts_.spec;
  std::set<uint32_t> pages(attended.fixed.begin(), attended.fixed.end());
  for (const auto& selected : attended.selected) pages.insert(selected.begin(), selected.end());
  const std::vector<int32_t> slots(pages.begin(), pages.end());
  std::vector<int32_t> valid;
  for (const std::vector<uint32_t>& selected : attended.selected) {
    for (const uint32_t page : pages) {
      const bool attends = std::ranges::binary_search(attended.fixed, page) ||
                           std::ranges::binary_search(selected, page);
      const uint32_t rows = attends ? RowsOf(pools, page, spec.page_tokens) : 0;
      valid.push_back(static_cast<int32_t>(rows));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const listed,
                         slots_.Put(*parts_.device, std::span<const int32_t>(slots)));
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const rows,
                         valid_tokens_.Put(*parts_.device, std::span<const int32_t>(valid)));
  QUIRE_RETURN_IF_ERROR(ToStatus(
      parts_.device->kernels().paged_attention({.q = q,
                                                .k_pool = pools.keys,
                                                .v_pool = pools.values,
                                                .slots = listed,
                                                .valid_tokens = rows,
                                                .out = out,
                                                .num_slots = static_cast<int64_t>(pools.slots),
                                                .n_slots = static_cast<int64_t>(slots.size()),
                                                .page_tokens = spec.page_tokens,
                                                .n_q = spec.num_query_heads,
                                                .n_kv = spec.num_kv_heads,
                                                .head_dim = spec.head_dim,
                                                .scale = AttentionScale(spec),
                                                .dtype = spec.dtype,
                                                .stream = parts_.device->stream()}),
      "paged_attention"));
  return parts_.device->Synchronize();  // The lists go away.
}

Status PromptRetrieval::AttendToAll(const CellPools& pools, const float* q, float* out) const {
  const KvSpec& spec = *parts_.spec;
  return ToStatus(parts_.device->kernels().dense_attention({.q = q,
                                                            .k = pools.keys,
                                                            .v = pools.values,
                                                            .out = out,
                                                            .t = 1,
                                                            .n = static_cast<int64_t>(pools.cells),
                                                            .n_q = spec.num_query_heads,
                                                            .n_kv = spec.num_kv_heads,
                                                            .head_dim = spec.head_dim,
                                                            .scale = AttentionScale(spec),
                                                            .dtype = spec.dtype,
                                                            .stream = parts_.device->stream()}),
                  "dense_attention");
}

}  // namespace quire::worker
