// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/freekv.h"

#include <cmath>
#include <utility>

namespace quire::worker {
namespace {

double Cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t c = 0; c < a.size(); ++c) {
    dot += double{a[c]} * b[c];
    aa += double{a[c]} * a[c];
    bb += double{b[c]} * b[c];
  }
  return dot / (std::sqrt(aa) * std::sqrt(bb) + 1e-12);
}

}  // namespace

std::vector<double> GroupCosines(std::span<const float> now, std::span<const float> before,
                                 uint32_t num_kv_heads, uint32_t head_dim) {
  const size_t group = now.size() / head_dim / num_kv_heads;
  std::vector<double> means(num_kv_heads);
  for (size_t row = 0; row < group * num_kv_heads; ++row) {
    const double cosine =
        Cosine(now.subspan(row * head_dim, head_dim), before.subspan(row * head_dim, head_dim));
    means[row / group] += cosine / static_cast<double>(group);
  }
  return means;
}

StatusOr<std::unique_ptr<RetrievalPolicy>> FreeKvPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  return std::unique_ptr<RetrievalPolicy>(new FreeKvPolicy(context));
}

RetrievalOptions FreeKvPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.sinks = 128, .window = 128, .total = 2048});
}

FreeKvPolicy::FreeKvPolicy(const PolicyContext& context)
    : BudgetPolicy(context, context.options.window_tokens, SelectableTokens(context.options)),
      spec_(context.spec),
      device_(context.device),
      threshold_(context.options.correction_threshold),
      selector_(context, {.kind = context.options.digest,
                          .pooling = context.options.pooling,
                          .scale = context.options.score_scale,
                          .side = context.options.side}),
      layers_(context.spec.num_layers) {}

bool FreeKvPolicy::WantsDigests(uint32_t layer) const {
  return selector_.at_worker() && Layout(layer).selectable_pages > 0;
}

Status FreeKvPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                    std::shared_ptr<const StoredDigests> digests) {
  if (!WantsDigests(layer)) return OkStatus();
  return selector_.OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status FreeKvPolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantsDigests(layer)) return OkStatus();
  return selector_.OnPageComplete(layer, page, units);
}

StatusOr<Selection> FreeKvPolicy::Select(const SelectRequest& request) {
  LayerState& state = layers_[request.layer];
  state.over_budget = request.candidates.size() > request.max_pages;
  state.query.resize(size_t{spec_.num_query_heads} * spec_.head_dim);
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(state.query.data(), request.q, state.query.size() * sizeof(float)));
  return selector_.Select(request);
}

std::vector<bool> FreeKvPolicy::NeedsBlocking(uint32_t layer, const float*) {
  LayerState& state = layers_[layer];
  std::vector<bool> blocking(spec_.num_kv_heads, true);
  state.speculates = state.over_budget && state.chose_before;
  if (state.speculates) {
    const std::vector<double> cosines =
        GroupCosines(state.query, state.before, spec_.num_kv_heads, spec_.head_dim);
    // Not "below": a query that is not a number is corrected.
    for (size_t head = 0; head < blocking.size(); ++head) {
      blocking[head] = !(cosines[head] >= threshold_);
    }
  }
  state.chose_before = state.over_budget;
  state.before.swap(state.query);
  return blocking;
}

}  // namespace quire::worker
