// SPDX-License-Identifier: Apache-2.0
//
// AnswerRun: asks every question under every policy and budget. A document is read into the store
// once and shared by all. Each conversation over it is a separate sequence for each policy and
// budget. All sequences therefore answer the same questions in the same order.
// Thread-safety: none; it starts its own threads.
// Ownership: the arguments outlive it.
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_RUN_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_RUN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/kit/output/progress.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/answers/question_sets.h"
#include "common/base/threads/mutex.h"
#include "gpuworker/engine/sequence.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::bench {

/// FreeKV with other settings than the published ones, in addition to the registered policies.
inline constexpr const char* kSpeculating = "freekv_tau_-1";  ///< Never corrects.
/// Corrects retrieval heads alone, at a lower threshold than the published one.
inline constexpr const char* kRetrievalHeads = "freekv_retrieval_heads";
/// Uses the threshold of answers_calibration.h.
inline constexpr const char* kCalibrated = "freekv_calibrated";

/// The registered policies and those three, sorted.
std::vector<std::string> AnswerPolicies();

/// One combination of policy and budget.
struct AnswerCell {
  std::string key;                ///< "full", "freekv_12_5", "freekv_tau_-1_12_5"
  std::string policy;             ///< One of AnswerPolicies().
  double percent = 0;             ///< Budget in percent of the context; unused for "full".
  std::string percent_text = {};  ///< "12.5"; empty for "full".
  uint32_t key_rank = 0;          ///< RetrievalOptions::key_rank; 0 as published.
  uint32_t selection_memory = 1;  ///< RetrievalOptions::selection_memory.
  /// RetrievalOptions::correction_threshold of any FreeKV cell.
  std::optional<double> tau = {};
};

/// Returns "full" once, and then every other policy with every budget. Cells of kCalibrated have no
/// tau yet.
std::vector<AnswerCell> MakeCells(std::span<const std::string> policies,
                                  std::span<const double> percents);

/// The published options of the cell's policy, with a budget of `percent` of `context_tokens` over
/// all layers (budget_share.h). INVALID_ARGUMENT for an unknown policy, and for
/// kCalibrated without a tau.
StatusOr<worker::RetrievalOptions> CellRetrieval(const AnswerCell& cell, uint64_t context_tokens,
                                                 uint32_t page_tokens);

/// The properties of a question that results are grouped by.
struct AnswerSample {
  std::string set;
  std::string place;
};

/// Costs of answering the questions of a set.
struct AnswerCosts {
  worker::MovedBytes moved = {};
  uint64_t steps = 0;           ///< Tokens run through the model.
  uint64_t generated = 0;       ///< Tokens generated.
  uint64_t sequences = 0;       ///< Sequences opened.
  double resident_shares = 0;   ///< Sum over sequences, measured at their end.
  double seconds = 0;           ///< Time of one thread.
  uint64_t head_steps = 0;      ///< KV heads, summed over the layer-steps with a selection.
  uint64_t blocking_heads = 0;  ///< Heads whose recall preceded attention.

  void Add(const AnswerCosts& other);
  double recalled_per_token() const;
  /// Share of blocking_heads in head_steps; 0 without selections.
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

  /// Runs all cells. Reports progress on stderr.
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
  /// Keeps the first error, which ends the remaining jobs.
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
