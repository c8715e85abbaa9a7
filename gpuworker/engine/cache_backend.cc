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
  QUIRE_RETURN_IF_ERROR(Begin(step));
  if (IsDense(step.layer)) return AttendDense(step);
  for (uint32_t token = 0; token < step.num_tokens; ++token) {
    QUIRE_RETURN_IF_ERROR(Append(step, token));
    QUIRE_RETURN_IF_ERROR(Ask(step, token));
    QUIRE_RETURN_IF_ERROR(AttendToken(step, token));
    QUIRE_RETURN_IF_ERROR(Follow(step, token));
  }
  return OkStatus();
}

StatusOr<StepKey> CacheBackend::Prepare(std::span<const LayerStep> steps) {
  QUIRE_RETURN_IF_ERROR(Begin(steps.front()));
  QUIRE_RETURN_IF_ERROR(cache_->PrepareToken());
  return StepKey{cache_->recording_key()};
}

Status CacheBackend::Launch(std::span<const LayerStep> steps) {
  const LayerStep& step = steps.front();
  return cache_->RunToken(step.layer, step.k, step.v, step.q, step.out);
}

Status CacheBackend::Finish(std::span<const LayerStep> steps) {
  LayerStep step = steps.front();
  for (step.layer = 0; step.layer < cache_->num_layers(); ++step.layer) {
    QUIRE_RETURN_IF_ERROR(Export(step, 0, 1));
  }
  return OkStatus();
}

Status CacheBackend::Begin(const LayerStep& step) const {
  const uint64_t tokens = cache_->table(step.layer).num_tokens();
  if (step.first_position == tokens) return OkStatus();
  return FailedPrecondition("a step at position ", step.first_position, " does not continue the ",
                            tokens, " tokens of layer ", step.layer);
}

Status CacheBackend::AttendDense(const LayerStep& step) {
  QUIRE_RETURN_IF_ERROR(cache_->AppendTokens(step.layer, step.k, step.v, step.num_tokens));
  QUIRE_RETURN_IF_ERROR(Export(step, 0, step.num_tokens));
  return cache_->AttendDense(step.layer, step.q, step.num_tokens, step.out);
}

Status CacheBackend::Append(const LayerStep& step, uint32_t token) {
  const size_t at = token * KvRow();
  const float* const v = cache_->spec().has_values() ? step.v + at : nullptr;
  return cache_->AppendTokens(step.layer, step.k + at, v, 1);
}

Status CacheBackend::AppendTo(JointWork* work, const LayerStep& step, uint32_t token) {
  const size_t at = token * KvRow();
  QUIRE_RETURN_IF_ERROR(cache_->AppendToken(step.layer, step.k + at, step.v + at, work));
  return pipeline_->Prepare(step.layer, Query(step, token), work);
}

Status CacheBackend::Ask(const LayerStep& step, uint32_t token, std::optional<TimePoint> began) {
  const PageTable& table = cache_->table(step.layer);
  if (table.layout().selectable_pages > 0) {
    QUIRE_RETURN_IF_ERROR(sink_->Await(table.candidates().end));
  }
  QUIRE_RETURN_IF_ERROR(pipeline_->Ask(step.layer, Query(step, token), began));
  return step.num_tokens == 1 ? pipeline_->AskAhead(step.layer) : OkStatus();
}

Status CacheBackend::AttendToken(const LayerStep& step, uint32_t token) {
  QUIRE_RETURN_IF_ERROR(pipeline_->Await(step.layer));
  return cache_->Attend(step.layer, Query(step, token), Out(step, token));
}

Status CacheBackend::AttendBy(JointAttention* attention, const LayerStep& step, uint32_t token) {
  QUIRE_RETURN_IF_ERROR(pipeline_->Await(step.layer));
  cache_->AddAttention(step.layer, Query(step, token), Out(step, token), attention);
  return OkStatus();
}

Status CacheBackend::Follow(const LayerStep& step, uint32_t token) {
  QUIRE_RETURN_IF_ERROR(pipeline_->AfterAttention(step.layer));
  return Export(step, token, token + 1);
}

Status CacheBackend::Export(const LayerStep& step, uint32_t first, uint32_t end) {
  return sink_->Export(*cache_, step.layer, Completed(step, first, end));
}

PageRange CacheBackend::Completed(const LayerStep& step, uint32_t first, uint32_t end) const {
  const uint32_t p = cache_->spec().page_tokens;
  return {.first = static_cast<uint32_t>((step.first_position + first) / p),
          .end = static_cast<uint32_t>((step.first_position + end) / p)};
}

Status CacheBackend::FollowBy(JointWork* work, const LayerStep& step, uint32_t token) {
  QUIRE_RETURN_IF_ERROR(pipeline_->AfterAttention(step.layer));
  return sink_->ExportBy(work, *cache_, step.layer, Completed(step, token, token + 1));
}

}  // namespace quire::worker
