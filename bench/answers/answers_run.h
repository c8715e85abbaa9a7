// SPDX-License-Identifier: Apache-2.0
//
// AnswerRun: asks every question under every policy and budget. A document is read into the store
// once and shared by all; each conversation over it is a sequence of its own for each policy and
// budget, so all of them answer the same questions in the same order.
// Thread-safety: none; it has threads of its own. Ownership: what it is given outlives it.
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_RUN_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_RUN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/kit/local_worker.h"
#include "apps/kit/progress.h"
#include "bench/answers/question_sets.h"
#include "client/client.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "gpuworker/engine/sequence.h"

namespace quire::bench {

/// FreeKV with other thresholds than the published one, beside the registered policies.
inline constexpr const char* kSpeculating = "freekv_tau_-1";     ///< Never corrects.
inline constexpr const char* kCalibrated = "freekv_calibrated";  ///< answers_calibration.h

/// The registered policies and those two, sorted.
std::vector<std::string> AnswerPolicies();

/// One way to answer.
struct AnswerCell {
  std::string key;                ///< "full", "freekv_12_5", "freekv_tau_-1_12_5"
  std::string policy;             ///< Of AnswerPolicies().
  double percent = 0;             ///< Of the context, the budget; no meaning for "full".
  std::string percent_text = {};  ///< "12.5"; empty for "full".
  uint32_t key_rank = 0;          ///< RetrievalOptions::key_rank; 0: as published.
  /// RetrievalOptions::correction_threshold of a cell of FreeKV, of whichever name.
  std::optional<double> tau = {};
};

/// "full" first, and only once; then every other policy with every budget. Cells of kCalibrated
/// have no tau yet.
std::vector<AnswerCell> MakeCells(std::span<const std::string> policies,
                                  std::span<const double> percents);

/// What was published for the cell's policy, with a budget of `percent` of `context_tokens`, a sink
/// page and a window of two of it, over all layers: whole pages, rounded down, but at least one
/// page to select. INVALID_ARGUMENT for a policy that there is none of, and for kCalibrated without
/// a tau.
StatusOr<worker::RetrievalOptions> CellRetrieval(const AnswerCell& cell, uint64_t context_tokens,
                                                 uint32_t page_tokens);

/// A question, as far as results are told apart by it.
struct AnswerSample {
  std::string set;
  std::string place;
};

/// What moved while a set's questions were answered.
struct AnswerCosts {
  worker::MovedBytes moved = {};
  uint64_t steps = 0;           ///< Tokens run through the model.
  uint64_t generated = 0;       ///< Those of them that it wrote.
  uint64_t sequences = 0;       ///< Opened.
  double resident_shares = 0;   ///< Summed over sequences, at their end.
  double seconds = 0;           ///< Of one thread.
  uint64_t head_steps = 0;      ///< KV heads of every layer-step that a selection was made for.
  uint64_t blocking_heads = 0;  ///< Those of them whose recall preceded attention.

  void Add(const AnswerCosts& other);
  double recalled_per_token() const;
  /// Of the head-steps; 0 where nothing is selected.
  double blocking_share() const;
  double resident_share() const;
};

struct CellAnswers {
  AnswerCell cell;
  std::vector<uint8_t> right;                ///< [samples] 1: the whole answer is right.
  std::map<std::string, AnswerCosts> costs;  ///< By set.
};

struct AnswerResults {
  std::vector<AnswerSample> samples;
  std::vector<CellAnswers> cells;
};

class AnswerRun {
 public:
  AnswerRun(const cli::LocalWorker& local, Client& client, std::span<const AskedDocument> documents,
            std::span<const AnswerCell> cells, uint32_t threads);

  /// Progress goes to stderr.
  StatusOr<AnswerResults> Run();

 private:
  struct Job {
    const AskedDocument* document;
    const Conversation* conversation;
    size_t first_sample;
    size_t cell;
  };
  Status RunDocument(const AskedDocument& document, size_t first_sample);
  Status RunJob(const Job& job);
  /// Keeps the first error; what is left to do is then left.
  void Finish(const Job& job, const Status& status);
  bool failed();

  const cli::LocalWorker& local_;
  Client& client_;
  const std::span<const AskedDocument> documents_;
  const uint32_t threads_;
  Mutex mutex_;
  AnswerResults results_ QUIRE_GUARDED_BY(mutex_);
  Status status_ QUIRE_GUARDED_BY(mutex_);
  cli::ProgressBar progress_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_ANSWERS_RUN_H_
