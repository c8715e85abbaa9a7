// SPDX-License-Identifier: Apache-2.0
//
// Sequence::Impl: the tokens of a sequence, where it runs them (over the store, or alone with dense
// attention), and how it recovers. Internal to gpuworker/engine. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_SEQUENCE_IMPL_H_
#define QUIRE_GPUWORKER_ENGINE_SEQUENCE_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/engine/paged_run.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/model/dense_cache.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class Sequence::Impl {
 public:
  /// `options.retrieval` is set.
  Impl(const EngineParts& parts, SequenceOptions options)
      : parts_(parts), options_(std::move(options)), own_sessions_(parts.client, parts.spec) {}

  Status Open(const std::optional<DocumentName>& document);
  Status CheckRoom(size_t tokens) const;
  Status Append(std::span<const TokenId> tokens);
  StatusOr<Generation> Generate(const GenerateParams& params);
  std::span<const float> logits() const { return logits_; }
  uint64_t num_tokens() const { return document_tokens() + own_.size(); }
  SequenceStats stats() const;

 private:
  /// Own tokens [first, end) that attend to everything, as one prompt.
  struct Chunk {
    size_t first;
    size_t end;
  };
  /// Own tokens up to `end`, all of a chunk or none.
  struct Part {
    size_t end;
    bool dense;
  };
  uint64_t document_tokens() const;
  SessionSource* Sessions() {
    return parts_.sessions != nullptr ? parts_.sessions : &own_sessions_;
  }
  Status FindDocument(const DocumentName& name);
  Status CheckRetrieval() const;
  /// Opens a run over the store. It is dense where the own tokens begin with a chunk and there is
  /// no document. The own tokens have to run again.
  Status OpenRun();
  /// Notes the own tokens from `first` on as a chunk, if they are one.
  Status NoteChunk(size_t first);
  /// The tokens behind `ran_`: the rest of a chunk, or tokens up to one. No chunk once the device
  /// has had no room for one.
  Part NextPart() const;
  /// Runs up to `end` in a dense run, and goes on within the budget. Without the memory for it all
  /// own tokens have to run again.
  Status RunChunk(size_t end);
  /// Recomputes the document here; the own tokens are to be run again.
  Status GoLocal();
  /// After `loss`: opens anew, or goes local, and runs the own tokens again.
  Status Recover(const Status& loss);
  /// Runs the own tokens that have not run yet, recovering when the server lost something.
  Status Advance();
  Status RunPending();
  /// Runs the own tokens below `end` that have not run yet.
  Status RunUntil(size_t end);
  Status Forward(std::span<const TokenId> tokens, Decoder::Logits what, float* logits);
  /// Runs `tokens`; the last of the sequence so far when `last`. Shows logits to the observer.
  Status RunStep(std::span<const TokenId> tokens, bool last);
  Status RunObserved(std::span<const TokenId> tokens);
  StatusOr<Generation> Sample(const GenerateParams& params);

  const EngineParts parts_;
  const SequenceOptions options_;
  std::optional<Document> document_;
  RunStats run_stats_;
  OwnSessions own_sessions_;
  std::unique_ptr<PagedRun> run_;      ///< Null when local, and before the prompt of a bare one.
  std::unique_ptr<DenseCache> local_;  ///< Null unless local.
  std::vector<TokenId> own_;           ///< Tokens after the document's.
  std::vector<Chunk> chunks_;          ///< Ascending.
  bool room_for_chunks_ = true;        ///< The device has had it so far.
  size_t ran_ = 0;                     ///< Tokens of own_ in the current run.
  size_t observed_ = 0;                ///< Tokens of own_ whose logits the observer has seen.
  std::vector<float> logits_;
  SequenceStats stats_;  ///< Counts that run_stats_ lacks.
  Status broken_;        ///< Not OK after an error that cannot be recovered from.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_SEQUENCE_IMPL_H_
