// SPDX-License-Identifier: Apache-2.0
//
// RagRun: questions over documents that were stored alone, by every method of reuse, against full
// prefill of the same prompts without the store. Answers are greedy. Divergences are those of a
// method's logits from full prefill's, KL(full || method), in nats.
// Ownership: engine and decoder outlive it. Thread-safety: none.
#ifndef QUIRE_BENCH_RAG_RAG_RUN_H_
#define QUIRE_BENCH_RAG_RAG_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::bench {

/// A method with its options, under the name that the report has for it.
struct RagMethod {
  std::string name;
  worker::ReuseOptions options;
};

/// Layers of a model that methods are told.
struct ModelLayers {
  uint32_t check = 0;                 ///< CacheBlend compares values there.
  std::vector<uint32_t> retrieving;   ///< Hops retrieve there; all when empty.
  std::vector<uint32_t> stable = {};  ///< SamKV's stable layers; the last eighth when empty.
};

/// Every method of reuse but full prefill, and variants of some. Cache-Craft uses variants that are
/// there, and keeps none.
std::vector<RagMethod> RagMethods(const ModelLayers& layers);

struct RagQuestion {
  std::string task;
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  ///< Empty where there is none to give, as of random weights.
};

/// Documents in the order of the prompt, and questions over all of them.
struct PromptSet {
  std::vector<std::vector<TokenId>> documents;
  std::vector<RagQuestion> questions;
};

struct Share {
  uint64_t right = 0;
  uint64_t asked = 0;
};

/// Results of one method over all questions.
struct MethodTotals {
  Share all;
  std::map<std::string, Share> by_task;
  double answer_divergence = 0;    ///< Sum over `questions`.
  double document_divergence = 0;  ///< Sum over `document_rows`.
  uint64_t questions = 0;
  uint64_t document_rows = 0;  ///< Tokens of all documents but the first of a set.
  double sequence_ratio = 0;   ///< Sums over questions, like those below.
  double recompute_ratio = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_whole = 0;
  std::vector<double> seconds;  ///< To the first token, of questions that only prefilled.

  void Count(const RagQuestion& question, bool right);
};

struct RagTotals {
  MethodTotals full;  ///< Dense prefill without the store; its seconds are of timed questions.
  std::map<std::string, MethodTotals> methods;
  uint64_t prompt_tokens = 0;  ///< Sum over questions.
};

struct RagRunOptions {
  /// Documents that begin with it have a beginning token.
  std::optional<TokenId> bos;
  /// Sets whose first question also has the divergence over documents measured.
  uint32_t divergence_sets = 2;
  /// Sets whose first question also has full prefill timed.
  uint32_t timed_sets = 3;
  /// Every question reads and computes documents anew, for its time. Otherwise a method whose
  /// documents do not depend on the question does so for the first question of a set.
  bool times_all = false;
  /// Asked before each question and layer; false ends the run with CANCELLED. None when empty.
  std::function<bool()> keep_going = {};
};

class RagRun {
 public:
  /// Told of every question that a method has answered.
  using Observer = std::function<void(const std::string& method)>;

  RagRun(const worker::Engine& engine, const worker::Decoder& decoder,
         std::vector<RagMethod> methods, const RagRunOptions& options, Observer observer = {})
      : engine_(engine),
        decoder_(decoder),
        methods_(std::move(methods)),
        options_(options),
        observer_(std::move(observer)) {}

  /// Stores the documents of each set, asks its questions, and deletes them. Errors name the
  /// method.
  StatusOr<RagTotals> Run(std::span<const PromptSet> sets);

 private:
  struct Reference;
  Status CheckGoingOn() const;
  Status RunSet(const PromptSet& set, size_t number);
  StatusOr<Reference> Prefill(const PromptSet& set, size_t number);
  /// Logits after the question, which goes on from what the cache holds.
  StatusOr<std::vector<float>> AskFull(const RagQuestion& question, worker::DenseCache* cache);
  Status PrefillAlone(const PromptSet& set, Reference* reference) const;
  Status TimeFull(const PromptSet& set, const Reference& reference);
  Status Ask(const PromptSet& set, const Reference& reference, const RagMethod& method,
             bool measures_documents);
  /// Asks the first question of `set` by full prefill over its documents in another order. Each
  /// document keeps the variant that it has there, until it is deleted.
  Status LeaveVariants(const PromptSet& set) const;
  Status MeasureDocuments(const PromptSet& set, const Reference& reference,
                          const RagMethod& method);

  const worker::Engine& engine_;
  const worker::Decoder& decoder_;
  const std::vector<RagMethod> methods_;
  const RagRunOptions options_;
  const Observer observer_;
  RagTotals totals_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_RAG_RUN_H_
