// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch_attention.h"

#include <algorithm>

namespace quire::worker {

template <typename What>
void BatchStep::ForEach(What what) {
  for (size_t i = 0; i < backends_.size(); ++i) {
    if (status_[i].ok()) status_[i] = what(i);
  }
}

Status BatchStep::Attend(std::span<const LayerStep> steps) {
  uint32_t rounds = 0;
  ForEach([&](size_t i) -> Status {
    QUIRE_RETURN_IF_ERROR(backends_[i]->Begin(steps[i]));
    if (backends_[i]->IsDense(steps[i].layer)) return backends_[i]->AttendDense(steps[i]);
    rounds = std::max(rounds, steps[i].num_tokens);
    return OkStatus();
  });
  for (uint32_t token = 0; token < rounds; ++token) AttendRound(steps, token);
  ForEach([&](size_t i) {
    return backends_[i]->IsDense(steps[i].layer) ? OkStatus() : backends_[i]->Export(steps[i]);
  });
  return OkStatus();
}

void BatchStep::AttendRound(std::span<const LayerStep> steps, uint32_t token) {
  ForEach([&](size_t i) {
    return HasToken(steps[i], i, token) ? backends_[i]->Ask(steps[i], token) : OkStatus();
  });
  sessions_->Send();
  ForEach([&](size_t i) -> Status {
    if (!HasToken(steps[i], i, token)) return OkStatus();
    QUIRE_RETURN_IF_ERROR(backends_[i]->AttendToken(steps[i], token));
    return backends_[i]->Follow(steps[i]);
  });
  sessions_->Send();
}

}  // namespace quire::worker
