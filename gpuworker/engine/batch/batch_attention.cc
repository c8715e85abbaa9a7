// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_attention.h"

#include <algorithm>

namespace quire::worker {

template <typename What>
void BatchStep::ForEach(What what) {
  for (size_t i = 0; i < backends_.size(); ++i) {
    if (status_[i].ok()) status_[i] = what(i);
  }
}

template <typename What>
void BatchStep::ForEachWith(std::span<const LayerStep> steps, uint32_t token, What what) {
  ForEach([&](size_t i) {
    const bool has = token < steps[i].num_tokens && !IsDense(steps[i], i);
    return has ? what(i) : OkStatus();
  });
}

Status BatchStep::Attend(std::span<const LayerStep> steps) {
  uint32_t rounds = 0;
  ForEach([&](size_t i) -> Status {
    QUIRE_RETURN_IF_ERROR(backends_[i]->Begin(steps[i]));
    if (IsDense(steps[i], i)) return backends_[i]->AttendDense(steps[i]);
    rounds = std::max(rounds, steps[i].num_tokens);
    return OkStatus();
  });
  for (uint32_t token = 0; token < rounds; ++token) {
    QUIRE_RETURN_IF_ERROR(AttendRound(steps, token));
  }
  return OkStatus();
}

RecordableAttention* BatchStep::AsRecordable() {
  const bool recordable = std::ranges::all_of(
      backends_, [](CacheBackend* backend) { return backend->AsRecordable() != nullptr; });
  return recordable ? this : nullptr;
}

StatusOr<StepKey> BatchStep::Prepare(std::span<const LayerStep> steps) {
  StepKey key(backends_.size());
  ForEach([&](size_t i) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const StepKey own, backends_[i]->Prepare(steps.subspan(i, 1)));
    key[i] = own.front();
    return OkStatus();
  });
  return key;
}

Status BatchStep::Launch(std::span<const LayerStep> steps) {
  for (size_t i = 0; i < backends_.size(); ++i) {
    if (status_[i].ok()) QUIRE_RETURN_IF_ERROR(backends_[i]->Launch(steps.subspan(i, 1)));
  }
  return OkStatus();
}

Status BatchStep::Finish(std::span<const LayerStep> steps) {
  ForEach([&](size_t i) { return backends_[i]->Finish(steps.subspan(i, 1)); });
  return OkStatus();
}

Status BatchStep::AttendRound(std::span<const LayerStep> steps, uint32_t token) {
  const TimePoint began = clock_->Now();
  bool waits = false;
  ForEachWith(steps, token, [&](size_t i) {
    waits |= !backends_[i]->IsReady(steps[i].layer);
    return backends_[i]->FlushDeferred();
  });
  if (waits) sessions_->Send();  // Requests ahead; otherwise corrections leave before them.
  QUIRE_RETURN_IF_ERROR(AppendRound(steps, token));
  ForEachWith(steps, token, [&](size_t i) { return backends_[i]->Ask(steps[i], token, began); });
  sessions_->Send();
  return FinishRound(steps, token);
}

Status BatchStep::AppendRound(std::span<const LayerStep> steps, uint32_t token) {
  if (joint_ == nullptr) {
    ForEachWith(steps, token, [&](size_t i) { return backends_[i]->Append(steps[i], token); });
    return OkStatus();
  }
  ForEachWith(steps, token,
              [&](size_t i) { return backends_[i]->AppendTo(&joint_->work, steps[i], token); });
  return joint_->work.Launch();
}

Status BatchStep::FinishRound(std::span<const LayerStep> steps, uint32_t token) {
  if (joint_ == nullptr) {
    ForEachWith(steps, token, [&](size_t i) -> Status {
      QUIRE_RETURN_IF_ERROR(backends_[i]->AttendToken(steps[i], token));
      return backends_[i]->Follow(steps[i], token);
    });
    return OkStatus();
  }
  QUIRE_RETURN_IF_ERROR(AttendTogether(steps, token));
  ForEachWith(steps, token, [&](size_t i) -> Status {
    QUIRE_RETURN_IF_ERROR(backends_[i]->OnAttended(steps[i]));
    return backends_[i]->FollowBy(&joint_->work, steps[i], token);
  });
  QUIRE_RETURN_IF_ERROR(joint_->work.Launch());
  ForEachWith(steps, token, [&](size_t i) { return backends_[i]->OnLaunched(); });
  return OkStatus();
}

Status BatchStep::AttendTogether(std::span<const LayerStep> steps, uint32_t token) {
  ForEachWith(steps, token, [&](size_t i) {
    return backends_[i]->AttendBy(&joint_->attention, steps[i], token);
  });
  QUIRE_RETURN_IF_ERROR(joint_->staging->Launch());
  ForEachWith(steps, token, [&](size_t i) { return backends_[i]->HoldForUnits(); });
  return joint_->attention.Launch();
}

}  // namespace quire::worker
