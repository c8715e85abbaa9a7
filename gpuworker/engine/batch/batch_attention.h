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
// On a device the kernels of all sequences go together, in three parts of a layer. First they
// append a token, compare queries and select. Then they place units and attend. Then they export
// completed pages. Launches thus do not grow with the number of sequences. Units for later layers
// that have come are placed with those of this one.
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
#include <memory>
#include <span>
#include <vector>

#include "gpuworker/cache/joint_attention.h"
#include "gpuworker/cache/joint_staging.h"
#include "gpuworker/device/joint_work.h"
#include "gpuworker/engine/cache_backend.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/recordable_attention.h"
#include "quire/status.h"

namespace quire::worker {

/// Kernels of all sequences of a step.
struct JointStep {
  JointStep(const KvSpec& spec, Device* device, float soft_cap,
            std::unique_ptr<JointStaging> recalled)
      : work(device), attention(spec, device, soft_cap), staging(std::move(recalled)) {}
  JointWork work;
  JointAttention attention;
  std::unique_ptr<JointStaging> staging;  ///< Shared by the caches.
};

class BatchStep final : public BatchAttention, public RecordableAttention {
 public:
  /// One backend for each sequence of a Decoder::ForwardBatch, in its order.
  /// `joint` is null where each sequence has kernels of its own.
  BatchStep(std::vector<CacheBackend*> backends, BatchSessions* sessions, const Clock* clock,
            JointStep* joint)
      : backends_(std::move(backends)),
        sessions_(sessions),
        clock_(clock),
        joint_(joint),
        status_(backends_.size()) {}

  /// OK unless the device fails; status() has what became of each sequence.
  Status Attend(std::span<const LayerStep> steps) override;

  RecordableAttention* AsRecordable() override;
  /// OK likewise; the key has a null for a sequence that failed, which has no kernels.
  StatusOr<StepKey> Prepare(std::span<const LayerStep> steps) override;
  /// An error is the whole pass's: what is recorded has the kernels of all sequences.
  Status Launch(std::span<const LayerStep> steps) override;
  Status Finish(std::span<const LayerStep> steps) override;

  const Status& status(size_t sequence) const { return status_[sequence]; }

 private:
  /// Token `token` of every sequence of `steps` that has one and takes part in rounds.
  [[nodiscard]] Status AttendRound(std::span<const LayerStep> steps, uint32_t token);
  /// Puts the token into the caches.
  [[nodiscard]] Status AppendRound(std::span<const LayerStep> steps, uint32_t token);
  /// Attends once what was asked for has come, and asks ahead.
  [[nodiscard]] Status AttendTogether(std::span<const LayerStep> steps, uint32_t token);
  [[nodiscard]] Status FinishRound(std::span<const LayerStep> steps, uint32_t token);
  /// Calls `what(sequence)` for those that have not failed and takes a failure down.
  template <typename What>
  void ForEach(What what);
  /// Calls `what(sequence)` for those that have the token in a round.
  template <typename What>
  void ForEachWith(std::span<const LayerStep> steps, uint32_t token, What what);
  /// True if all tokens of the step attend at once.
  bool IsDense(const LayerStep& step, size_t sequence) const {
    const bool joint = joint_ != nullptr && step.num_tokens == 1;
    return backends_[sequence]->IsDense(step.layer) && !joint;
  }

  const std::vector<CacheBackend*> backends_;
  BatchSessions* const sessions_;
  const Clock* const clock_;
  JointStep* const joint_;
  std::vector<Status> status_;  ///< By sequence.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_ATTENTION_H_
