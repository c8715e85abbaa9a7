// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/demo_run.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/kit/output/progress.h"
#include "apps/kit/worker/local_worker.h"
#include "common/base/memory/checksum.h"
#include "quire/layout.h"

namespace quire::cli {
namespace {

using worker::Generation;
using worker::RetrievalOptions;
using worker::Sequence;
using worker::SequenceOptions;

class Demo {
 public:
  Demo(const worker::Engine& engine, const worker::Tokenizer& tokenizer, Client& client,
       const DemoCorpus& corpus, const DemoOptions& options, std::ostream& notes)
      : engine_(engine),
        tokenizer_(tokenizer),
        client_(client),
        corpus_(corpus),
        options_(options),
        notes_(notes),
        ids_(corpus.documents.size()) {}

  StatusOr<DemoReport> Run() {
    for (size_t i = 0; i < ids_.size(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(ids_[i], Encode(i));
    }
    QUIRE_RETURN_IF_ERROR(Ingest());
    QUIRE_RETURN_IF_ERROR(AskAll());
    QUIRE_RETURN_IF_ERROR(CompareLogits());
    return std::move(report_);
  }

 private:
  DocumentName Name(size_t document) const {
    return {options_.collection, corpus_.documents[document].name, 0};
  }
  std::vector<DemoQuestion> QuestionsOf(size_t document) const {
    std::vector<DemoQuestion> questions;
    std::ranges::copy_if(corpus_.questions, std::back_inserter(questions),
                         [&](const DemoQuestion& q) { return q.document == document; });
    return questions;
  }

  /// Token ids of a document, cut so that its questions still fit into the model's context.
  StatusOr<std::vector<TokenId>> Encode(size_t document) const {
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                           DocumentTokens(tokenizer_, corpus_.documents[document].text));
    size_t room = engine_.model().max_positions;
    for (const DemoQuestion& q : QuestionsOf(document)) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, tokenizer_.Encode(q.prompt));
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> answer, tokenizer_.Encode(q.answer));
      room -= std::min(room, prompt.size() + answer.size());
    }
    if (ids.size() > room) {
      notes_ << corpus_.documents[document].name << ": has " << ids.size() << " tokens; the first "
             << room << " are read, the model's context is " << engine_.model().max_positions
             << "\n";
      ids.resize(room);
    }
    return ids;
  }

  Status Ingest() {
    uint64_t total = 0;
    for (const auto& ids : ids_) total += ids.size();
    ProgressBar progress("reading documents", total);
    for (size_t i = 0; i < ids_.size(); ++i) {
      uint64_t shown = 0;
      auto observer = [&](const worker::IngestProgress& p) {
        progress.Advance(p.done_tokens - shown, corpus_.documents[i].name);
        shown = p.done_tokens;
        return true;
      };
      QUIRE_ASSIGN_OR_RETURN(const auto result, engine_.Ingest(ids_[i], Name(i), observer));
      report_.ingested_tokens += ids_[i].size();
      report_.reused_tokens += result.reused_tokens;
      report_.seconds_ingest += result.seconds;
    }
    return OkStatus();
  }

  Status AskAll() {
    ProgressBar progress("asking questions", 2 * corpus_.questions.size());
    RetrievalOptions full = options_.retrieval;
    full.policy = "full";
    for (size_t i = 0; i < ids_.size(); ++i) {
      DemoRow row{.document = corpus_.documents[i].name, .tokens = ids_[i].size()};
      const std::vector<DemoQuestion> questions = QuestionsOf(i);
      row.questions = static_cast<uint32_t>(questions.size());
      if (questions.empty()) {
        report_.rows.push_back(std::move(row));
        continue;
      }
      QUIRE_ASSIGN_OR_RETURN(const uint64_t before, SsdReads());
      QUIRE_ASSIGN_OR_RETURN(row.sparse, Ask(i, questions, options_.retrieval, &progress));
      QUIRE_ASSIGN_OR_RETURN(const uint64_t after, SsdReads());
      row.ssd_reads = after - before;
      QUIRE_ASSIGN_OR_RETURN(row.full, Ask(i, questions, full, &progress));
      report_.rows.push_back(std::move(row));
    }
    return OkStatus();
  }

  /// Asks the questions one after another in one sequence, as a conversation does.
  StatusOr<DemoAnswers> Ask(size_t document, const std::vector<DemoQuestion>& questions,
                            const RetrievalOptions& retrieval, ProgressBar* progress) {
    QUIRE_ASSIGN_OR_RETURN(
        auto sequence, engine_.OpenSequence(Name(document), {.retrieval = retrieval,
                                                             .document_tokens = ids_[document]}));
    DemoAnswers answers;
    for (const DemoQuestion& question : questions) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, tokenizer_.Encode(question.prompt));
      QUIRE_RETURN_IF_ERROR(sequence->Append(prompt));
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> expected,
                             tokenizer_.Encode(question.answer));
      QUIRE_ASSIGN_OR_RETURN(
          const Generation given,
          sequence->Generate({.max_new_tokens = static_cast<uint32_t>(expected.size()),
                              .stop_tokens = tokenizer_.ends()}));
      answers.correct += given.tokens == expected ? 1 : 0;
      answers.crc32c = Crc32c(std::as_bytes(std::span(given.tokens)), answers.crc32c);
      progress->Advance(1, corpus_.documents[document].name);
    }
    answers.stats = sequence->stats();
    if (answers.stats.local) {
      notes_ << corpus_.documents[document].name
             << ": the store lost it; it was computed again from its token ids\n";
    }
    return answers;
  }

  struct LogitCheck {
    size_t document = 0;
    std::vector<TokenId> question;
  };

  /// With a budget that covers everything, a question's logits must be those of dense attention.
  Status CompareLogits() {
    std::vector<LogitCheck> checks;
    uint64_t total = 0;
    for (size_t i = 0; i < ids_.size() && checks.size() < options_.logit_checks; ++i) {
      const std::vector<DemoQuestion> questions = QuestionsOf(i);
      if (questions.empty()) continue;
      QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> question,
                             tokenizer_.Encode(questions.front().prompt));
      checks.push_back({i, std::move(question)});
      total += ids_[i].size() + checks.back().question.size();
    }
    ProgressBar progress("comparing with dense attention", total);
    for (const LogitCheck& check : checks) {
      QUIRE_RETURN_IF_ERROR(CompareLogitsOf(check.document, check.question, &progress));
    }
    return OkStatus();
  }

  Status CompareLogitsOf(size_t document, const std::vector<TokenId>& question,
                         ProgressBar* progress) {
    std::vector<TokenId> tokens = ids_[document];
    tokens.insert(tokens.end(), question.begin(), question.end());
    SequenceOptions options{.retrieval = options_.retrieval};
    const uint32_t page = engine_.spec().page_tokens;
    options.retrieval->budget_tokens =  // Everything, and what any budget holds.
        std::max((PageCount(engine_.spec(), tokens.size()) + 1) * page,
                 options_.retrieval.sink_tokens + options_.retrieval.window_tokens + page);
    std::vector<float> sparse;
    options.logits_observer = [&](uint64_t, std::span<const float> logits) {
      sparse.insert(sparse.end(), logits.begin(), logits.end());
    };
    QUIRE_ASSIGN_OR_RETURN(auto sequence, engine_.OpenSequence(Name(document), options));
    QUIRE_RETURN_IF_ERROR(sequence->Append(question));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> dense,
                           engine_.DenseLogits(tokens, question.size(), [&](uint64_t done) {
                             progress->Advance(done, corpus_.documents[document].name);
                           }));
    if (dense.size() != sparse.size()) {
      return Internal("compared ", sparse.size(), " sparse logits with ", dense.size(), " dense");
    }
    for (size_t i = 0; i < dense.size(); ++i) {
      report_.dense_max_abs_logit_diff = std::max(report_.dense_max_abs_logit_diff,
                                                  std::abs(double{sparse[i]} - double{dense[i]}));
    }
    report_.logits_compared += dense.size();
    return OkStatus();
  }

  StatusOr<uint64_t> SsdReads() {
    QUIRE_ASSIGN_OR_RETURN(const ServerStats stats, client_.Stats());
    for (const auto& [name, value] : stats.counters) {
      if (name == "ssd_unit_reads") return value;
    }
    return Internal("the server does not count ssd_unit_reads");
  }

  const worker::Engine& engine_;
  const worker::Tokenizer& tokenizer_;
  Client& client_;
  const DemoCorpus& corpus_;
  const DemoOptions& options_;
  std::ostream& notes_;
  std::vector<std::vector<TokenId>> ids_;  ///< [documents], BOS first
  DemoReport report_;
};

}  // namespace

StatusOr<DemoReport> RunDemo(const worker::Engine& engine, const worker::Tokenizer& tokenizer,
                             Client& client, const DemoCorpus& corpus, const DemoOptions& options,
                             std::ostream& notes) {
  return Demo(engine, tokenizer, client, corpus, options, notes).Run();
}

}  // namespace quire::cli
