// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/answers_run.h"

#include <algorithm>
#include <utility>

#include "apps/kit/output/table.h"
#include "bench/kit/asking.h"
#include "bench/kit/budget_share.h"
#include "bench/kit/published_options.h"
#include "common/base/threads/executor.h"
#include "gpuworker/retrieval/policies/freekv.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::bench {
namespace {

constexpr const char* kFullPolicy = "full";

/// The shortest form: "6.25", "12.5", "25".
std::string PercentText(double percent) {
  std::string text = cli::FormatRatio(percent, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// Corrects retrieval heads of the bundled model in about three steps of four. It was chosen on
/// questions of seed 2, where a fifth of all heads block then.
constexpr double kRetrievalHeadsTau = 0.45;

/// The tau of a cell of `policy` if known before any question; null otherwise.
std::optional<double> KnownTau(const std::string& policy) {
  if (policy == kSpeculating) return -1;
  if (policy == kRetrievalHeads) return kRetrievalHeadsTau;
  if (policy != worker::FreeKvPolicy::kName) return std::nullopt;
  return worker::RetrievalOptions().correction_threshold;
}

AnswerCosts CostsOf(const worker::SequenceStats& stats, uint32_t num_kv_heads) {
  return {.moved = stats.moved,
          .steps = stats.steps,
          .generated = stats.generated_tokens,
          .sequences = 1,
          .resident_shares = stats.budget_ratio(),
          .seconds = stats.seconds_open + stats.seconds_append + stats.seconds_generate,
          .head_steps = stats.selections * num_kv_heads,
          .blocking_heads = stats.blocking_heads};
}

}  // namespace

std::vector<std::string> AnswerPolicies() {
  std::vector<std::string> policies = {kSpeculating, kCalibrated, kRetrievalHeads};
  for (const std::string_view name : worker::AllPolicyNames()) policies.emplace_back(name);
  std::ranges::sort(policies);
  return policies;
}

std::vector<AnswerCell> MakeCells(std::span<const std::string> policies,
                                  std::span<const double> percents) {
  std::vector<AnswerCell> cells = {{.key = kFullPolicy, .policy = kFullPolicy}};
  for (const std::string& policy : policies) {
    if (policy == kFullPolicy) continue;
    for (const double percent : percents) {
      AnswerCell cell{.key = policy + "_" + PercentText(percent),
                      .policy = policy,
                      .percent = percent,
                      .percent_text = PercentText(percent),
                      .tau = KnownTau(policy)};
      std::ranges::replace(cell.key, '.', '_');
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

StatusOr<worker::RetrievalOptions> CellRetrieval(const AnswerCell& cell, uint64_t context_tokens,
                                                 uint32_t page_tokens) {
  const worker::RetrievalOptions budget = BudgetShare(cell.percent, context_tokens, page_tokens);
  const std::string policy = cell.tau ? std::string(worker::FreeKvPolicy::kName) : cell.policy;
  QUIRE_ASSIGN_OR_RETURN(worker::RetrievalOptions options,
                         PublishedWithin(budget, policy, page_tokens));
  options.correct_retrieval_heads = cell.policy == kRetrievalHeads;
  options.selection_memory = cell.selection_memory;
  if (cell.key_rank > 0) options.key_rank = cell.key_rank;
  if (cell.tau) options.correction_threshold = static_cast<float>(*cell.tau);
  return options;
}

void AnswerCosts::Add(const AnswerCosts& other) {
  moved += other.moved;
  steps += other.steps;
  generated += other.generated;
  sequences += other.sequences;
  resident_shares += other.resident_shares;
  seconds += other.seconds;
  head_steps += other.head_steps;
  blocking_heads += other.blocking_heads;
}

double AnswerCosts::recalled_per_token() const {
  return steps == 0 ? 0 : static_cast<double>(moved.units) / static_cast<double>(steps);
}

double AnswerCosts::blocking_share() const {
  return head_steps == 0 ? 0
                         : static_cast<double>(blocking_heads) / static_cast<double>(head_steps);
}

double AnswerCosts::resident_share() const {
  return sequences == 0 ? 0 : resident_shares / static_cast<double>(sequences);
}

AnswerRun::AnswerRun(const cli::LocalWorker& local, Client& client,
                     std::span<const AskedDocument> documents, std::span<const AnswerCell> cells,
                     uint32_t threads)
    : local_(local),
      client_(client),
      documents_(documents),
      threads_(threads),
      progress_("asking questions", cells.size() * CountQuestions(documents)) {
  for (const AskedDocument& document : documents) {
    for (const Conversation& conversation : document.conversations) {
      for (const Question& question : conversation.questions) {
        results_.samples.push_back({conversation.set, question.place});
      }
    }
  }
  for (const AnswerCell& cell : cells) {
    results_.cells.push_back(
        {.cell = cell, .right = std::vector<uint8_t>(results_.samples.size()), .costs = {}});
  }
}

StatusOr<AnswerResults> AnswerRun::Run() {
  size_t first_sample = 0;
  for (const AskedDocument& document : documents_) {
    QUIRE_RETURN_IF_ERROR(Annotate(RunDocument(document, first_sample), document.name));
    first_sample += CountQuestions(std::span(&document, 1));
  }
  const MutexLock lock(mutex_);
  progress_.Finish();
  return std::move(results_);
}

Status AnswerRun::RunDocument(const AskedDocument& document, size_t first_sample) {
  const DocumentName name{.collection = "bench", .name = document.name};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                         cli::DocumentTokens(*local_.tokenizer, document.text));
  QUIRE_RETURN_IF_ERROR(local_.engine->Ingest(tokens, name).status());
  std::vector<Job> jobs;
  for (const Conversation& conversation : document.conversations) {
    const MutexLock lock(mutex_);
    for (size_t cell = 0; cell < results_.cells.size(); ++cell) {
      jobs.push_back({&document, &conversation, first_sample, cell});
    }
    first_sample += conversation.questions.size();
  }
  {
    ThreadPool pool({.threads = threads_, .queue_limit = jobs.size()});
    for (const Job& job : jobs) {
      QUIRE_RETURN_IF_ERROR(pool.Submit([this, job] {
        if (!failed()) Finish(job, RunJob(job));
      }));
    }
  }
  {
    const MutexLock lock(mutex_);
    QUIRE_RETURN_IF_ERROR(status_);
  }
  return client_.DeleteDocument(name).status();
}

Status AnswerRun::RunJob(const Job& job) {
  AnswerCell cell;
  {
    const MutexLock lock(mutex_);
    cell = results_.cells[job.cell].cell;
  }
  const DocumentName name{.collection = "bench", .name = job.document->name};
  const worker::EngineOptions& engine = local_.engine->options();
  QUIRE_ASSIGN_OR_RETURN(const worker::RetrievalOptions retrieval,
                         CellRetrieval(cell, job.conversation->context_tokens, engine.page_tokens));
  QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                         local_.engine->OpenSequence(name, {.retrieval = retrieval}));
  Asking asking(*job.conversation, *local_.tokenizer, *sequence);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint8_t> right, asking.AskAll());
  const MutexLock lock(mutex_);
  CellAnswers& answers = results_.cells[job.cell];
  std::ranges::copy(right, answers.right.begin() + static_cast<ptrdiff_t>(job.first_sample));
  answers.costs[job.conversation->set].Add(
      CostsOf(sequence->stats(), local_.engine->spec().num_kv_heads));
  return OkStatus();
}

void AnswerRun::Finish(const Job& job, const Status& status) {
  const MutexLock lock(mutex_);
  if (status_.ok() && !status.ok()) {
    status_ = Annotate(status, results_.cells[job.cell].cell.key, ", ", job.conversation->set);
  }
  progress_.Advance(job.conversation->questions.size(), job.document->name);
}

bool AnswerRun::failed() {
  const MutexLock lock(mutex_);
  return !status_.ok();
}

}  // namespace quire::bench
