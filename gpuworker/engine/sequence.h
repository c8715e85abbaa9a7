// SPDX-License-Identifier: Apache-2.0
//
// Sequence: one conversation over a document (or over nothing). Tokens are appended and generated.
// For each layer and token the policy selects pages, the recall brings missing ones, and attention
// runs over resident pages. The cache stays warm from question to question.
//
// A complete page is appended to an open context on the server in the background. It can be
// recalled once it has left the window; until then nothing waits for it. The context is dropped
// with the Sequence.
//
// Failures. When the server has lost the session or the context, the sequence is opened again over
// its document and its own tokens are fed anew. When the server or the document is gone too, the
// document is recomputed here, if its token ids were given. The sequence then continues with dense
// attention (stats().local). Either way the answer is right. Otherwise the call that failed says
// why, and so does every later one.
//
// Thread-safety: none; one thread at a time. Ownership: the Engine (and what it was made of)
// outlives its sequences.
#ifndef QUIRE_GPUWORKER_ENGINE_SEQUENCE_H_
#define QUIRE_GPUWORKER_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/retrieval/options.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Called with the logits after each position that is appended, [vocab_size] floats.
using LogitsObserver = std::function<void(uint64_t position, std::span<const float> logits)>;

struct SequenceOptions {
  /// The engine's own when unset.
  std::optional<RetrievalOptions> retrieval = {};
  /// Token ids of the document, when they are at hand: with them the sequence survives the loss of
  /// the document or of the server. Empty: it does not.
  std::vector<TokenId> document_tokens = {};
  /// Told of each chunk of the document's tokens that is computed again after a loss.
  std::function<void(uint64_t tokens)> recompute_observer = {};
  LogitsObserver logits_observer = {};  ///< None when empty.
};

struct GenerateParams {
  uint32_t max_new_tokens = 64;
  float temperature = 0.0f;  ///< 0 = greedy
  float top_p = 1.0f;        ///< In (0, 1].
  uint64_t seed = 0;
  std::vector<TokenId> stop_tokens = {};  ///< Any of them ends the answer.
  /// Called with each token as it is chosen; false ends the generation (the token stays).
  std::function<bool(TokenId)> on_token = {};
};

struct Generation {
  std::vector<TokenId> tokens;  ///< Without the stop token, which is not part of the sequence.
  bool stopped = false;         ///< A stop token ended it.
};

/// Payload bytes that came from the store, by what they were for, and what they are measured
/// against. Every report that says "moved" means total().
struct MovedBytes {
  uint64_t at_open = 0;  ///< Sinks, window, tail and uncompressed layers.
  uint64_t digests = 0;  ///< Digests fetched for selection at the worker.
  uint64_t units = 0;    ///< Units recalled.
  /// Bytes of sending the whole budget (sinks, window and selection of every compressed layer) at
  /// every step, in whole units.
  uint64_t full = 0;

  uint64_t total() const { return at_open + digests + units; }
  /// total() / full; 0 when no selection was made.
  double ratio() const {
    return full == 0 ? 0.0 : static_cast<double>(total()) / static_cast<double>(full);
  }
  MovedBytes& operator+=(const MovedBytes& other) {
    at_open += other.at_open;
    digests += other.digests;
    units += other.units;
    full += other.full;
    return *this;
  }
};

/// Totals since the sequence was opened. Bytes are payload bytes.
struct SequenceStats {
  uint64_t steps = 0;             ///< Tokens run through the model.
  uint64_t generated_tokens = 0;  ///< Tokens among those that were generated.
  MovedBytes moved;
  uint64_t bytes_appended = 0;   ///< Complete pages sent to the open context, or in flight.
  uint64_t units_hit = 0;        ///< Selected units that were resident.
  uint64_t units_missed = 0;     ///< Selected units that were fetched.
  uint64_t units_landed = 0;     ///< Fetched units that the server wrote into the landing.
  uint64_t units_from_host = 0;  ///< Selected units found in the worker's host tier.
  uint64_t nan_scores = 0;       ///< Scores that were NaN where this worker selects.
  uint64_t recalls = 0;          ///< Recalls sent.
  uint64_t selections = 0;       ///< Layer-steps that a selection was made for.
  uint64_t blocking_heads = 0;   ///< KV heads of those layer-steps whose recall preceded attention.
  uint64_t late_recalls = 0;     ///< Layer-steps that did not wait for a late recall.
  uint64_t late_corrections = 0;  ///< Late recalls for a query that had turned.
  double seconds_stalled = 0;     ///< Waiting for recalls and taking them in, host and device.
  uint64_t reopened = 0;          ///< Times the sequence was opened again after a loss.
  bool local = false;             ///< True once it continues without the server.
  double seconds_open = 0;
  double seconds_append = 0;    ///< In Append().
  double seconds_generate = 0;  ///< In Generate().
  /// Time spent waiting until the server has complete pages.
  double seconds_offload_waits = 0;

  uint64_t context_tokens = 0;  ///< Tokens of the sequence now.
  /// Tokens attended to in the last step, a mean over layers and KV heads.
  double resident_tokens = 0;
  uint64_t slot_bytes = 0;  ///< Device memory of its slots now; of a sequence of a batch.
  double budget_ratio() const {
    return context_tokens == 0 ? 1.0 : resident_tokens / static_cast<double>(context_tokens);
  }
};

class Sequence {
 public:
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  /// INVALID_ARGUMENT, naming the numbers, when `tokens` more do not fit in the model's context.
  [[nodiscard]] Status CheckRoom(size_t tokens) const;
  /// Runs `tokens` through the model. Those of the first call, when there is no document, attend to
  /// everything, as far as the device has the memory (batch.h). INVALID_ARGUMENT, with nothing run,
  /// for an unknown token id or more tokens than the model's context has room for.
  [[nodiscard]] Status Append(std::span<const TokenId> tokens);
  /// Generates from the last token on. FAILED_PRECONDITION before the first Append. Ends without
  /// error when the model's context is full.
  StatusOr<Generation> Generate(const GenerateParams& params);

  /// Logits after the last token that ran, [vocab_size]; empty before the first.
  std::span<const float> logits() const;
  /// Tokens of the document and everything appended and generated.
  uint64_t num_tokens() const;
  SequenceStats stats() const;

 private:
  friend class Engine;
  class Impl;
  explicit Sequence(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_SEQUENCE_H_
