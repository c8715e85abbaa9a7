// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_sequence.h"

#include <algorithm>
#include <utility>

#include "gpuworker/engine/loss.h"

namespace quire::worker {

StatusOr<std::unique_ptr<BatchSequence>> BatchSequence::Create(const EngineParts& parts,
                                                               SessionSource* sessions,
                                                               Setup setup) {
  QUIRE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({.temperature = setup.params.temperature,
                                                           .top_p = setup.params.top_p,
                                                           .seed = setup.params.seed}));
  return std::unique_ptr<BatchSequence>(
      new BatchSequence(parts, sessions, std::move(setup), std::move(sampler)));
}

Status BatchSequence::Start() {
  spans_.Enter("open");
  const CurrentSpanScope current(span());
  QUIRE_RETURN_IF_ERROR(Open());
  spans_.Enter(generated_ == 0 ? "prompt" : "generate");
  return OkStatus();
}

Status BatchSequence::Open() {
  if (suspended_) {
    SuspendedRun suspended = *std::exchange(suspended_, std::nullopt);
    QUIRE_ASSIGN_OR_RETURN(run_, PagedRun::Resume(parts_, setup_.retrieval, std::move(suspended),
                                                  sessions_, &run_stats_));
    return OkStatus();
  }
  const Document* const document = setup_.document ? &*setup_.document : nullptr;
  if (IsDense()) {
    QUIRE_ASSIGN_OR_RETURN(run_,
                           PagedRun::OpenDense(parts_, setup_.retrieval, document, &run_stats_));
    return OkStatus();
  }
  QUIRE_ASSIGN_OR_RETURN(
      run_, PagedRun::Open(parts_, setup_.retrieval, document, sessions_, &run_stats_));
  return OkStatus();
}

Status BatchSequence::Suspend() {
  ++preempted_;
  spans_.Enter("suspended");
  resident_tokens_ = run_->ResidentTokens();
  QUIRE_ASSIGN_OR_RETURN(suspended_, PagedRun::Suspend(std::move(run_)));
  return OkStatus();
}

SequenceTokens BatchSequence::BeginStep(uint32_t tokens) {
  run_->BeginStep(std::span(own_).subspan(ran_, tokens));
  return {.tokens = std::span(own_).subspan(ran_, tokens),
          .first_position = num_tokens(),
          .wants_logits = ran_ + tokens == own_.size() && MayGenerate(),
          .tap = run_->backend().hidden_tap()};
}

bool BatchSequence::MayGenerate() const {
  return generated_ < setup_.params.max_new_tokens &&
         document_tokens() + own_.size() < parts_.decoder->config().max_positions;
}

StatusOr<bool> BatchSequence::OnStepDone(uint32_t tokens, TokenId chosen) {
  QUIRE_RETURN_IF_ERROR(run_->OnStepDone(std::span(own_).subspan(ran_, tokens)));
  ran_ += tokens;
  steps_ += tokens;
  if (pending() > 0) return false;
  if (!MayGenerate()) return true;
  QUIRE_ASSIGN_OR_RETURN(const bool goes_on, Generate(chosen));
  return !goes_on || !MayGenerate();
}

StatusOr<bool> BatchSequence::Generate(TokenId chosen) {
  QUIRE_ASSIGN_OR_RETURN(const TokenId token,
                         sampler_.Advance(chosen, parts_.decoder->config().vocab_size));
  const std::vector<TokenId>& stop = setup_.params.stop_tokens;
  stopped_ = std::find(stop.begin(), stop.end(), token) != stop.end();
  if (stopped_) return false;
  own_.push_back(token);
  if (generated_ == 0) spans_.Enter("generate");
  ++generated_;
  stream_->Push(token);
  return true;
}

Status BatchSequence::ShrinkToBudget() {
  const CurrentSpanScope current(span());
  QUIRE_ASSIGN_OR_RETURN(run_, PagedRun::WithinBudget(std::move(run_), sessions_));
  return OkStatus();
}

Duration BatchSequence::TakeOffloadWaits() {
  const Duration all = run_stats_.offload_waits;
  return all - std::exchange(offload_waits_taken_, all);
}

bool BatchSequence::CanRestart(const Status& loss) const {
  if (IsOutOfDeviceMemory(loss)) return IsDense();
  return IsLoss(loss) && (reopened_ == 0 || ran_ > lost_at_);
}

void BatchSequence::Lose(const Status& loss) {
  spans_.Enter("queue");
  if (run_ != nullptr) run_->Lose();
  run_.reset();
  suspended_.reset();
  if (IsOutOfDeviceMemory(loss)) {
    dense_prompt_ = false;
    lost_at_ = 0;  // It comes there more slowly now.
  } else {
    lost_at_ = ran_;
    ++reopened_;
  }
  ran_ = 0;
}

SequenceStats BatchSequence::Stats() const {
  SequenceStats stats;
  AddRunStats(run_stats_, setup_.retrieval, *parts_.spec, &stats);
  stats.steps = steps_;
  stats.generated_tokens = generated_;
  stats.reopened = reopened_;
  stats.context_tokens = num_tokens();
  stats.resident_tokens = run_ != nullptr ? run_->ResidentTokens() : resident_tokens_;
  stats.slot_bytes = run_ != nullptr ? run_->cache().pool_bytes() : 0;
  return stats;
}

void BatchSequence::Finish(Status status) {
  const BatchResult result{
      .num_new_tokens = generated_, .stopped = stopped_, .preempted = preempted_, .stats = Stats()};
  spans_.Enter("close");
  const CurrentSpanScope current(span());
  if (run_ != nullptr && IsLoss(status)) run_->Lose();
  if (run_ != nullptr && !IsLoss(status)) run_->AwaitInFlight();
  run_.reset();
  suspended_.reset();
  spans_.End(generated_, status);
  stream_->Finish(std::move(status), result);
}

}  // namespace quire::worker
