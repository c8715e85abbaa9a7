// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/cache_backend.h"

#include <algorithm>

namespace quire::worker {

uint32_t CacheBackend::MaxStepTokens(const BudgetCache& cache) {
  uint32_t most = Decoder::kBlockTokens;
  for (uint32_t layer = 0; layer < cache.num_layers(); ++layer) {
    const CacheLayout& layout = cache.table(layer).layout();
    if (layout.everything) continue;
    most = std::min(most, (layout.window_pages - 1) * cache.spec().page_tokens);
  }
  return most;
}

Status CacheBackend::Attend(const LayerStep& step) {
  const PageTable& table = cache_->table(step.layer);
  if (step.first_position != table.num_tokens()) {
    return FailedPrecondition("a step at position ", step.first_position, " does not continue the ",
                              table.num_tokens(), " tokens of layer ", step.layer);
  }
  const uint32_t p = cache_->spec().page_tokens;
  const auto first = static_cast<uint32_t>(table.num_tokens() / p);
  const auto end = static_cast<uint32_t>((table.num_tokens() + step.num_tokens) / p);
  if (!table.layout().everything) {
    QUIRE_RETURN_IF_ERROR(AttendTokenByToken(step));
    return sink_->Export(*cache_, step.layer, {first, end});
  }
  QUIRE_RETURN_IF_ERROR(cache_->AppendTokens(step.layer, step.k, step.v, step.num_tokens));
  QUIRE_RETURN_IF_ERROR(sink_->Export(*cache_, step.layer, {first, end}));
  return cache_->AttendDense(step.layer, step.q, step.num_tokens, step.out);
}

Status CacheBackend::AttendTokenByToken(const LayerStep& step) {
  const KvSpec& spec = cache_->spec();
  const size_t q_row = size_t{spec.num_query_heads} * spec.head_dim;
  const size_t kv_row = size_t{spec.num_kv_heads} * spec.head_dim;
  for (uint32_t i = 0; i < step.num_tokens; ++i) {
    const float* const q = step.q + i * q_row;
    QUIRE_RETURN_IF_ERROR(
        cache_->AppendTokens(step.layer, step.k + i * kv_row, step.v + i * kv_row, 1));
    QUIRE_RETURN_IF_ERROR(pipeline_->BeforeAttention(step.layer, q));
    QUIRE_RETURN_IF_ERROR(cache_->Attend(step.layer, q, step.out + i * q_row));
    QUIRE_RETURN_IF_ERROR(pipeline_->AfterAttention(step.layer));
  }
  return OkStatus();
}

}  // namespace quire::worker
