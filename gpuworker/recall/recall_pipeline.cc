// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_pipeline.h"

#include <algorithm>
#include <utility>

namespace quire::worker {
namespace {

/// The kernels' pooling and the client's name the same modes in the same order.
RecallPooling ToRecallPooling(kernels::Pooling pooling) {
  static_assert(static_cast<int>(kernels::Pooling::kMaxQ) ==
                static_cast<int>(RecallPooling::kMaxQ) + 1);
  static_assert(static_cast<int>(kernels::Pooling::kAvgSdM) ==
                static_cast<int>(RecallPooling::kAvgSdM) + 1);
  return static_cast<RecallPooling>(static_cast<int>(pooling) - 1);
}

uint64_t CountUnits(const std::vector<std::vector<uint32_t>>& pages) {
  uint64_t units = 0;
  for (const std::vector<uint32_t>& head : pages) units += head.size();
  return units;
}

}  // namespace

RecallPipeline::RecallPipeline(const Dependencies& dependencies)
    : with_(dependencies), deferred_(dependencies.cache->num_layers()) {}

Status RecallPipeline::BeforeAttention(uint32_t layer, const float* q) {
  const PageTable& table = with_.cache->table(layer);
  if (table.layout().everything || table.layout().selectable_pages == 0) return OkStatus();
  const SelectRequest request{.layer = layer,
                              .q = q,
                              .candidates = table.candidates(),
                              .max_pages = table.layout().selectable_pages};
  QUIRE_ASSIGN_OR_RETURN(Selection selection, with_.policy->Select(request));
  ++with_.stats->selections;
  with_.stats->units_selected += CountUnits(selection.pages);
  std::vector<bool> blocking = with_.policy->NeedsBlocking(layer, q);
  const bool any = std::find(blocking.begin(), blocking.end(), true) != blocking.end();
  const bool all = std::find(blocking.begin(), blocking.end(), false) == blocking.end();
  // A query selects for all heads at once, so one head that blocks makes all of them block.
  if (any && !all && !selection.at_server) {
    QUIRE_ASSIGN_OR_RETURN(LayerWant later,
                           MakeWant(request, selection, std::vector<bool>(blocking.size(), false)));
    deferred_[layer] = {.pending = true, .want = std::move(later)};
    blocking.flip();
    QUIRE_ASSIGN_OR_RETURN(LayerWant now, MakeWant(request, std::move(selection), blocking));
    return Recall(now);
  }
  QUIRE_ASSIGN_OR_RETURN(LayerWant want, MakeWant(request, std::move(selection), {}));
  if (any) return Recall(want);
  deferred_[layer] = {.pending = true, .want = std::move(want)};
  return OkStatus();
}

Status RecallPipeline::AfterAttention(uint32_t layer) {
  if (!deferred_[layer].pending) return OkStatus();
  deferred_[layer].pending = false;
  return Recall(deferred_[layer].want);
}

StatusOr<LayerWant> RecallPipeline::MakeWant(const SelectRequest& request, Selection selection,
                                             const std::vector<bool>& keep) const {
  LayerWant want;
  want.layer = request.layer;
  if (!selection.at_server) {
    const PageTable& table = with_.cache->table(request.layer);
    for (uint32_t head = 0; head < selection.pages.size(); ++head) {
      if (head < keep.size() && keep[head]) {
        want.pages.AppendHead(table.ActivePages(head));
      } else {
        want.pages.AppendHead(selection.pages[head]);
      }
    }
    return want;
  }
  const KvSpec& spec = with_.cache->spec();
  want.query.resize(size_t{spec.num_query_heads} * spec.head_dim);
  QUIRE_RETURN_IF_ERROR(
      with_.device->CopyToHost(want.query.data(), request.q, want.query.size() * sizeof(float)));
  want.candidates = {{.first_page = request.candidates.first, .end_page = request.candidates.end}};
  want.num_pages = request.max_pages;
  want.pooling = ToRecallPooling(with_.options->pooling);
  want.scale = with_.options->score_scale;
  want.digest = with_.options->digest;
  return want;
}

bool RecallPipeline::IsResident(const LayerWant& want) const {
  const PageTable& table = with_.cache->table(want.layer);
  for (uint32_t head = 0; head < want.pages.num_heads(); ++head) {
    for (const uint32_t page : want.pages.Head(head)) {
      if (!table.IsResident(head, page)) return false;
    }
  }
  return true;
}

Status RecallPipeline::Recall(const LayerWant& want) {
  const bool by_query = !want.query.empty();
  if (!by_query && IsResident(want)) return Activate(want.layer, want.pages);
  QUIRE_ASSIGN_OR_RETURN(const RecallResult result, with_.session->Recall({&want, 1}));
  QUIRE_RETURN_IF_ERROR(Place(want.layer, result));
  with_.session->Applied(result);
  ++with_.stats->recalls;
  with_.stats->bytes_moved += result.payload.size_bytes();
  with_.stats->units_missed += result.placements.size();
  Notify(want.layer, result);
  if (!by_query) return Activate(want.layer, want.pages);
  const PageLists& selected = result.lanes.at(0).selected;
  with_.stats->units_selected += selected.num_pages();
  return Activate(want.layer, selected);
}

Status RecallPipeline::Place(uint32_t layer, const RecallResult& result) {
  std::vector<SlotPlacement> placements;
  placements.reserve(result.placements.size());
  for (const Placement& placement : result.placements) {
    if (placement.layer != layer) {
      return FailedPrecondition("a recall of layer ", layer, " places a unit of layer ",
                                placement.layer);
    }
    placements.push_back({.head = placement.head,
                          .index = placement.slot,
                          .generation = placement.generation,
                          .page = placement.page,
                          .replaced = placement.replaced});
  }
  return with_.cache->PlaceUnits(layer, placements, result.payload);
}

Status RecallPipeline::Activate(uint32_t layer, const PageLists& pages) {
  PageTable& table = with_.cache->table(layer);
  for (uint32_t head = 0; head < pages.num_heads(); ++head) {
    QUIRE_RETURN_IF_ERROR(Annotate(table.Activate(head, pages.Head(head)), "layer ", layer));
  }
  return OkStatus();
}

void RecallPipeline::Notify(uint32_t layer, const RecallResult& result) {
  const uint32_t heads = with_.cache->spec().num_kv_heads;
  std::vector<std::vector<uint32_t>> recalled(heads);
  std::vector<std::vector<uint32_t>> evicted(heads);
  for (const Placement& placement : result.placements) {
    recalled[placement.head].push_back(placement.page);
    if (placement.replaced < 0) continue;
    evicted[placement.head].push_back(static_cast<uint32_t>(placement.replaced));
  }
  for (uint32_t head = 0; head < heads; ++head) {
    if (!evicted[head].empty()) with_.policy->OnEvict(layer, head, evicted[head]);
    if (!recalled[head].empty()) with_.policy->OnRecalled(layer, head, recalled[head]);
  }
}

}  // namespace quire::worker
