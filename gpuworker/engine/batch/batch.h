// SPDX-License-Identifier: Apache-2.0
//
// Batch: continuous batching. Sequences come and go at any time. Each step runs one forward pass
// over the next tokens of the sequences with slots. Generating sequences run one token; new ones
// run chunks of their prompts. The recalls of one layer leave as at most two messages, a correction
// and a prefetch. BatchScheduler decides which sequences run and which are preempted.
//
//   QUIRE_ASSIGN_OR_RETURN(auto batch, Batch::Create(engine.get(), BatchLimits{}));
//   std::thread thread([&] { batch->Run(); });
//   QUIRE_ASSIGN_OR_RETURN(auto stream, batch->Submit({.prompt = question_ids}));
//   while (auto token = stream->Next(); token.ok() && token->has_value()) { ... **token ... }
//
// A prompt without a document attends densely, many tokens in a step, if its pages fit in
// slot_bytes and in device memory. After the prompt the sequence continues within its budget. Other
// prompts attend as generated tokens do: in a layer that selects, each token selects.
//
// Neither other sequences nor preemption change what a sequence generates, within the tolerance of
// matmul (Decoder::ForwardBatch). A sequence that fails ends alone. A sequence lost by the server
// is reopened once, as Sequence does, but never recomputed without the server.
//
// Thread-safety: Submit, VisitMetrics and Stop may be called from any thread; Run, or Step and
// Stats, from one. Ownership: the engine outlives the batch; streams stand on their own.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "gpuworker/engine/batch/batch_attention.h"
#include "gpuworker/engine/batch/batch_metrics.h"
#include "gpuworker/engine/batch/batch_scheduler.h"
#include "gpuworker/engine/batch/batch_sequence.h"
#include "gpuworker/engine/batch/batch_stream.h"
#include "gpuworker/engine/batch/shared_sessions.h"
#include "gpuworker/engine/document_shares.h"
#include "gpuworker/engine/engine.h"
#include "quire/status.h"

namespace quire::worker {

struct BatchRequest {
  std::optional<DocumentName> document = {};  ///< Document before the prompt; none when unset.
  std::vector<TokenId> prompt = {};
  /// The engine's own when unset.
  std::optional<RetrievalOptions> retrieval = {};
  /// Tokens go to the stream; on_token must be empty.
  GenerateParams params = {};
  uint32_t priority = 0;  ///< 0 to BatchScheduler::kMaxPriority.
  /// Until when Submit looks for the document at the latest.
  TimePoint find_by = TimePoint::max();
};

class Batch {
 public:
  /// Takes the device memory that steps work in, so that only a sequence's own can end later.
  /// INVALID_ARGUMENT for limits out of range, RESOURCE_EXHAUSTED when the device, or what
  /// BatchLimits::device_bytes leaves of it, has no room for such steps. `sessions` outlives the
  /// batch, which is alone in using them; null: SharedSessions of its own.
  static StatusOr<std::unique_ptr<Batch>> Create(const Engine* engine, const BatchLimits& limits,
                                                 BatchSessions* sessions = nullptr);
  /// Ends what is left, as Stop does.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Queues a sequence. RESOURCE_EXHAUSTED: it could not run even alone, and the message says what
  /// would fit; or the queue is full, with a retry hint. INVALID_ARGUMENT for an impossible prompt
  /// or options; NOT_FOUND without such a document; UNAVAILABLE after Stop.
  StatusOr<std::shared_ptr<BatchStream>> Submit(BatchRequest request) QUIRE_EXCLUDES(mutex_);

  /// Runs one step. False when there was nothing to run.
  bool Step() QUIRE_EXCLUDES(mutex_);
  /// Runs steps until Stop, waiting while there is nothing to run; then ends what is left with
  /// UNAVAILABLE.
  void Run() QUIRE_EXCLUDES(mutex_);
  void Stop() QUIRE_EXCLUDES(mutex_);

  /// Totals so far of the sequences that have not ended, in the order in which they came.
  std::vector<SequenceStats> Stats() const QUIRE_EXCLUDES(mutex_);
  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  using Id = BatchScheduler::Id;
  Batch(const EngineParts& parts, RetrievalOptions retrieval, const BatchLimits& limits,
        BatchSessions* sessions, Decoder::Scratch scratch, std::unique_ptr<JointStep> joint);

  /// A sequence of a plan that has slots.
  struct Member {
    Id id = 0;
    uint32_t tokens = 0;
    BatchSequence* sequence = nullptr;
  };
  StatusOr<BatchScheduler::Request> MakeRequest(const BatchRequest& request,
                                                const RetrievalOptions& retrieval,
                                                uint64_t document_tokens) const;
  BatchSequence* Find(Id id) const QUIRE_EXCLUDES(mutex_);
  void EndCancelled() QUIRE_EXCLUDES(mutex_);
  void Preempt(Id id);
  /// Moves layers of the sequences that go on, as decided for this step.
  void PlaceLayers(const BatchScheduler::Plan& plan);
  void Start(Id id);
  /// Those of `shares` that have slots.
  std::vector<Member> Members(const std::vector<BatchScheduler::Share>& shares) const;
  void RunMembers(const std::vector<Member>& members);
  /// The span of the recalls of a step: that of the first member left which is traced. Sequences
  /// share the messages, and a message has one parent. Null when none is traced.
  const Span* SpanOf(const std::vector<Member>& members) const;
  [[nodiscard]] Status RunPass(const std::vector<Member>& members,
                               std::span<const SequenceTokens> tokens, BatchStep& step,
                               const PassOutput& output);
  /// Sends requests ahead of the last layer.
  void SendAhead(const std::vector<Member>& members);
  /// Takes over what sessions and shares have counted.
  void Count() QUIRE_EXCLUDES(mutex_);
  /// After a pass: what became of one of its sequences, and the token chosen for it.
  void Conclude(const Member& member, const Status& status, TokenId chosen);
  /// The sequence failed: it starts again, or ends.
  void Fail(Id id, BatchSequence* sequence, const Status& status);
  void End(Id id, Status status) QUIRE_EXCLUDES(mutex_);
  void EndAll(const Status& status) QUIRE_EXCLUDES(mutex_);
  bool WaitForWork() QUIRE_EXCLUDES(mutex_);

  DocumentShares shares_;  ///< Outlives the sequences.
  /// Null where kernels read the host's memory, and launches cost nothing, and for latents.
  /// Outlives the sequences.
  const std::unique_ptr<JointStep> joint_;
  /// Decides which layers are whole. Only the thread that runs steps uses it.
  SlotMemory slot_memory_;
  const EngineParts parts_;
  const RetrievalOptions retrieval_;  ///< Default for requests without options.
  const Decoder::Scratch scratch_;    ///< Shared by all steps.
  SharedSessions own_sessions_;       ///< Outlives the sequences.
  BatchSessions* const sessions_;     ///< Either own_sessions_ or the caller's.
  const uint64_t slot_bytes_;         ///< BatchLimits::slot_bytes.
  BatchMetrics metrics_;

  mutable Mutex mutex_;
  CondVar changed_;
  BatchScheduler scheduler_ QUIRE_GUARDED_BY(mutex_);
  /// Sequences themselves belong to the thread that runs steps.
  std::map<Id, std::unique_ptr<BatchSequence>> sequences_ QUIRE_GUARDED_BY(mutex_);
  bool stopped_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_H_
