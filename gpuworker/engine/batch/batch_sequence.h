// SPDX-License-Identifier: Apache-2.0
//
// BatchSequence: one sequence of a batch: its tokens, what it holds of the device and the server,
// and what it generates. It decides nothing about when it runs. Internal to gpuworker/engine.
//
//   waiting ── Start ──► running ── Suspend ──► suspended ── Start ──► running ...
//                           └── after a loss, or with no room for a dense prompt: Lose ──► waiting,
//                           all of its own tokens to be run anew
//
// Thread-safety: none; it belongs to the thread of its batch. Ownership: what it is given outlives
// it.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SEQUENCE_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/engine/batch/batch_stream.h"
#include "gpuworker/engine/batch/sequence_spans.h"
#include "gpuworker/engine/paged_run.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/sampler.h"
#include "gpuworker/retrieval/options.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class BatchSequence {
 public:
  struct Setup {
    std::optional<Document> document = {};
    std::vector<TokenId> prompt = {};  ///< At least one.
    RetrievalOptions retrieval = {};
    GenerateParams params = {};
    bool dense_prompt = false;  ///< PagedRun::OpenDense for the prompt.
  };
  /// INVALID_ARGUMENT for sampling options out of their range.
  static StatusOr<std::unique_ptr<BatchSequence>> Create(const EngineParts& parts,
                                                         SessionSource* sessions, Setup setup);

  const std::shared_ptr<BatchStream>& stream() const { return stream_; }
  /// The span that its calls are part of; null when it is not traced. Valid until Finish.
  const Span* span() const { return spans_.whole(); }

  /// Takes slots and a seat: opens what it reads, or goes on from where it was suspended.
  [[nodiscard]] Status Start();
  /// Gives them back. After an error it holds nothing; see CanRestart.
  [[nodiscard]] Status Suspend();

  /// Moves the layers of a running sequence (PagedRun::PlaceLayers).
  [[nodiscard]] Status PlaceLayers() { return run_->PlaceLayers(); }

  bool running() const { return run_ != nullptr; }
  /// Tokens of the document and its own that it has run, or will have when it starts.
  uint64_t num_tokens() const { return document_tokens() + ran_; }
  uint64_t pending() const { return own_.size() - ran_; }
  /// Tokens of the document and the prompt, when the prompt attends densely; 0 otherwise.
  uint64_t dense_tokens() const {
    return dense_prompt_ ? document_tokens() + setup_.prompt.size() : 0;
  }
  /// Its share of a step with `tokens` of its pending tokens, which begins; valid until it
  /// generates.
  SequenceTokens BeginStep(uint32_t tokens);
  CacheBackend& backend() { return run_->backend(); }

  /// How the step's token is drawn, for a share that wants logits.
  const kernels::SampleDraw& draw() const { return sampler_.next(); }
  /// Notes that the step has run `tokens`, and generates `chosen`, the token that draw() gives; -1
  /// for none. True when the sequence has ended.
  StatusOr<bool> OnStepDone(uint32_t tokens, TokenId chosen);
  /// True once a dense prompt has run, while the sequence still holds all its pages.
  bool HasRunPrompt() const {
    return run_ != nullptr && run_->is_dense() && num_tokens() == dense_tokens();
  }
  /// Releases pages beyond the budget after a dense prompt. After an error it holds no pages; see
  /// CanRestart.
  [[nodiscard]] Status ShrinkToBudget();
  /// Time that it has waited for its complete pages to be sent, since this was asked last.
  Duration TakeOffloadWaits();

  /// Counts of its recalls since the last call.
  RecallStats TakeRecallStats() {
    const RecallStats all = run_stats_.recall;
    return all - std::exchange(recalls_taken_, all);
  }

  /// True when the sequence may restart after `loss`: it has progressed since the last loss, or the
  /// device has no room for a dense prompt.
  bool CanRestart(const Status& loss) const;
  /// Drops all state on the server. Its own tokens run again, within the budget if the device had
  /// no room. REQUIRES: CanRestart(loss).
  void Lose(const Status& loss);
  /// Gives everything back and tells the reader.
  void Finish(Status status);
  /// Totals so far.
  SequenceStats Stats() const;

 private:
  BatchSequence(const EngineParts& parts, SessionSource* sessions, Setup setup, Sampler sampler)
      : parts_(parts),
        sessions_(sessions),
        setup_(std::move(setup)),
        sampler_(std::move(sampler)),
        own_(setup_.prompt),
        dense_prompt_(setup_.dense_prompt) {}
  uint64_t document_tokens() const { return setup_.document ? setup_.document->num_tokens : 0; }
  bool MayGenerate() const;
  /// True if the next tokens attend densely.
  bool IsDense() const { return num_tokens() < dense_tokens(); }
  /// Takes a token. False when it was a stop token.
  StatusOr<bool> Generate(TokenId chosen);
  /// Opens what it reads, or what it was suspended with.
  [[nodiscard]] Status Open();

  const EngineParts parts_;
  SessionSource* const sessions_;
  const Setup setup_;
  const std::shared_ptr<BatchStream> stream_ = std::make_shared<BatchStream>();
  Sampler sampler_;
  RunStats run_stats_;
  Duration offload_waits_taken_ = {};
  std::unique_ptr<PagedRun> run_;          ///< While running.
  std::optional<SuspendedRun> suspended_;  ///< While suspended.
  std::vector<TokenId> own_;               ///< The prompt and what was generated.
  bool dense_prompt_;
  size_t ran_ = 0;      ///< Tokens of own_ in the current run.
  size_t lost_at_ = 0;  ///< Tokens of own_ that had run at the last loss.
  uint64_t steps_ = 0;  ///< Tokens run, including those that were lost.
  uint64_t reopened_ = 0;
  uint64_t preempted_ = 0;
  uint64_t generated_ = 0;
  RecallStats recalls_taken_;
  double resident_tokens_ = 0;
  bool stopped_ = false;
  SequenceSpans spans_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SEQUENCE_H_
