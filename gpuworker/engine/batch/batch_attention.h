// SPDX-License-Identifier: Apache-2.0
//
// BatchStep: attention of one step of a batch, each sequence over its own cache. Layers that hold
// everything attend to all tokens of a sequence at once. Other layers go token by token. First all
// sequences request their pages, so that one message brings what they miss. Then they attend one
// after the other, and request pages ahead. Prefetches leave as one message when the next layer or
// token begins. By then sequences with background selections (BeginSelect) have made their
// requests. Prefetches leave after the recalls that the new layer waits for, unless an earlier
// recall is awaited. The caller sends the prefetches of the last layer. A layer has one deadline
// for all sequences.
//
// A step of one token per sequence is recordable if all caches are. No sequence recalls anything
// then.
//
// A sequence that fails leaves the step. The others are unaffected.
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
  /// One backend for each sequence of a Decoder::ForwardBatch, in its order.
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
