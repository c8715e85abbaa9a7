// SPDX-License-Identifier: Apache-2.0
#include "bench/answers_run.h"

#include <algorithm>
#include <utility>

#include "client/cli/table.h"
#include "common/base/executor.h"

namespace quire::bench {
namespace {

constexpr const char* kFull = "full";
constexpr uint32_t kSinkPages = 1;
constexpr uint32_t kWindowPages = 2;

/// As short as it can be: "6.25", "12.5", "25".
std::string PercentText(double percent) {
  std::string text = cli::FormatRatio(percent, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

AnswerCosts CostsOf(const worker::SequenceStats& stats) {
  return {.moved = stats.moved,
          .steps = stats.steps,
          .generated = stats.generated_tokens,
          .sequences = 1,
          .resident_shares = stats.budget_ratio(),
          .seconds = stats.seconds_open + stats.seconds_append + stats.seconds_generate};
}

/// One conversation: asks its questions in a sequence over its document.
class Asking {
 public:
  Asking(const Conversation& conversation, const worker::Tokenizer& tokenizer,
         worker::Sequence& sequence)
      : conversation_(conversation),
        tokenizer_(tokenizer),
        line_start_(tokenizer.Encode(conversation.line_start)),
        sequence_(sequence) {}

  /// 1 for every question whose whole answer is right.
  StatusOr<std::vector<uint8_t>> AskAll() {
    if (!line_start_.empty()) {
      QUIRE_RETURN_IF_ERROR(
          sequence_.CheckRoom(conversation_.context_tokens - sequence_.num_tokens()));
    }
    std::vector<uint8_t> right;
    for (const Question& question : conversation_.questions) {
      const std::vector<TokenId> asked = tokenizer_.Encode(question.reads + RestOfPrompt(question));
      const std::vector<TokenId> expected = tokenizer_.Encode(question.answer);
      // No room is left where line starts went wrong many times. What does not fit is not answered.
      if (!line_start_.empty() && !sequence_.CheckRoom(asked.size() + expected.size()).ok()) break;
      QUIRE_RETURN_IF_ERROR(sequence_.Append(asked));
      QUIRE_ASSIGN_OR_RETURN(const bool answered, Answers(expected));
      right.push_back(answered ? 1 : 0);
      QUIRE_ASSIGN_OR_RETURN(line_begun_, BeginsLine());
    }
    right.resize(conversation_.questions.size());
    return right;
  }

 private:
  /// What the model has not written of it itself.
  std::string RestOfPrompt(const Question& question) const {
    return question.prompt.substr(line_begun_ ? conversation_.line_start.size() : 0);
  }

  /// Generates until the answer is as long as the expected one, or has come to its end.
  StatusOr<bool> Answers(const std::vector<TokenId>& expected) {
    QUIRE_ASSIGN_OR_RETURN(
        const worker::Generation given,
        sequence_.Generate({.max_new_tokens = static_cast<uint32_t>(expected.size()),
                            .stop_tokens = {tokenizer_.eos_id()},
                            .on_token = [&](TokenId token) { return token != expected.back(); }}));
    return given.tokens == expected;
  }

  /// Whether the model writes the line start. The first token that is not of it is the last one.
  StatusOr<bool> BeginsLine() {
    if (line_start_.empty()) return false;
    size_t agreed = 0;
    const auto agrees = [&](TokenId token) {
      if (token != line_start_[agreed]) return false;
      ++agreed;
      return true;
    };
    QUIRE_RETURN_IF_ERROR(
        sequence_
            .Generate(
                {.max_new_tokens = static_cast<uint32_t>(line_start_.size()), .on_token = agrees})
            .status());
    return agreed == line_start_.size();
  }

  const Conversation& conversation_;
  const worker::Tokenizer& tokenizer_;
  const std::vector<TokenId> line_start_;
  worker::Sequence& sequence_;
  bool line_begun_ = false;  ///< The model has begun the next line.
};

}  // namespace

std::vector<AnswerCell> MakeCells(std::span<const std::string> policies,
                                  std::span<const double> percents) {
  std::vector<AnswerCell> cells = {{.key = kFull, .policy = kFull}};
  for (const std::string& policy : policies) {
    if (policy == kFull) continue;
    for (const double percent : percents) {
      AnswerCell cell{.key = policy + "_" + PercentText(percent),
                      .policy = policy,
                      .percent = percent,
                      .percent_text = PercentText(percent)};
      std::ranges::replace(cell.key, '.', '_');
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

worker::RetrievalOptions CellRetrieval(const AnswerCell& cell, uint64_t context_tokens,
                                       uint32_t page_tokens) {
  const double wanted = static_cast<double>(context_tokens) * cell.percent / 100 / page_tokens;
  worker::RetrievalOptions options;
  options.policy = cell.policy;
  options.budget_tokens =
      page_tokens * std::max(kSinkPages + kWindowPages + 1, static_cast<uint32_t>(wanted));
  options.sink_tokens = kSinkPages * page_tokens;
  options.window_tokens = kWindowPages * page_tokens;
  options.uncompressed_layers = {};
  options.key_rank = cell.key_rank;
  return options;
}

void AnswerCosts::Add(const AnswerCosts& other) {
  moved += other.moved;
  steps += other.steps;
  generated += other.generated;
  sequences += other.sequences;
  resident_shares += other.resident_shares;
  seconds += other.seconds;
}

double AnswerCosts::recalled_per_token() const {
  return steps == 0 ? 0 : static_cast<double>(moved.units) / static_cast<double>(steps);
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
  QUIRE_RETURN_IF_ERROR(
      local_.engine->Ingest(cli::DocumentTokens(*local_.tokenizer, document.text), name).status());
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
  const worker::RetrievalOptions retrieval =
      CellRetrieval(cell, job.conversation->context_tokens, local_.engine->options().page_tokens);
  QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                         local_.engine->OpenSequence(name, {.retrieval = retrieval}));
  Asking asking(*job.conversation, *local_.tokenizer, *sequence);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint8_t> right, asking.AskAll());
  const MutexLock lock(mutex_);
  CellAnswers& answers = results_.cells[job.cell];
  std::ranges::copy(right, answers.right.begin() + static_cast<ptrdiff_t>(job.first_sample));
  answers.costs[job.conversation->set].Add(CostsOf(sequence->stats()));
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
