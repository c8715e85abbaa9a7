// SPDX-License-Identifier: Apache-2.0
//
// BatchStep: attention of one step of a batch, each sequence over its own cache. Layers that hold
// everything attend to all tokens of a sequence at once. The others go token by token: of every
// sequence that has one more token, all ask for their pages before any waits for its own, so that
// what they miss comes with one message; then they attend one after the other, and ask for pages
// ahead. These leave as one message too, when the next layer or token begins: by then also the
// sequences whose selection went on beside the others (BeginSelect) have asked. They leave behind
// what that layer's attention waits for, unless somebody waits for an earlier one. What the last
// layer asks for is the caller's to send. A layer has one deadline for all sequences.
//
// A step of one token of each sequence is recordable where all caches are: none of the sequences
// asks for anything then.
//
// A sequence that fails takes no further part in the step, and the others do not notice.
//
// Thread-safety: none. Ownership: backends, sessions and clock outlive it.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_ATTENTION_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/engine/cache_backend.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/recordable_attention.h"
#include "quire/status.h"

namespace quire::worker {

class BatchStep final : public BatchAttention, public RecordableAttention {
 public:
  /// Of the sequences of one Decoder::ForwardBatch, in its order.
  BatchStep(std::vector<CacheBackend*> backends, BatchSessions* sessions, const Clock* clock)
      : backends_(std::move(backends)),
        sessions_(sessions),
        clock_(clock),
        status_(backends_.size()) {}

  /// Always OK; status() has what became of each sequence.
  Status Attend(std::span<const LayerStep> steps) override;

  RecordableAttention* AsRecordable() override;
  /// OK likewise; the key has a null for a sequence that failed, which has no kernels.
  StatusOr<StepKey> Prepare(std::span<const LayerStep> steps) override;
  /// An error is the whole pass's: what is recorded has the kernels of all sequences.
  Status Launch(std::span<const LayerStep> steps) override;
  Status Finish(std::span<const LayerStep> steps) override;

  const Status& status(size_t sequence) const { return status_[sequence]; }

 private:
  /// Token `token` of every sequence of `steps` that has one and is not dense.
  void AttendRound(std::span<const LayerStep> steps, uint32_t token);
  /// Calls `what(sequence)` for those that have not failed and takes a failure down.
  template <typename What>
  void ForEach(What what);
  bool HasToken(const LayerStep& step, size_t sequence, uint32_t token) const {
    return token < step.num_tokens && !backends_[sequence]->IsDense(step.layer);
  }

  const std::vector<CacheBackend*> backends_;
  BatchSessions* const sessions_;
  const Clock* const clock_;
  std::vector<Status> status_;  ///< By sequence.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_ATTENTION_H_
