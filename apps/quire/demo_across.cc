// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/demo_across.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/worker/local_worker.h"

namespace quire::cli {
namespace {

using worker::ReuseMethod;

constexpr size_t kMostDocuments = 10;
/// Room for the question and its answer.
constexpr size_t kQuestionTokens = 96;
constexpr ReuseMethod kMethods[] = {ReuseMethod::kFull, ReuseMethod::kReuse,
                                    ReuseMethod::kCacheBlend, ReuseMethod::kSamKv};

/// The beginning of a document.
struct Beginning {
  std::string name;
  std::string text;
  std::vector<TokenId> tokens;
};

/// The question without its introduction.
std::string_view FactOf(const DemoQuestion& question) {
  const std::string_view prompt = question.prompt;
  const size_t colon = prompt.rfind(": ");
  const std::string_view fact = colon == std::string_view::npos ? prompt : prompt.substr(colon + 2);
  return fact.substr(std::min(fact.find_first_not_of('\n'), fact.size()));
}

class Across {
 public:
  Across(const worker::Engine& engine, const worker::Tokenizer& tokenizer, const DemoCorpus& corpus,
         const std::string& collection)
      : engine_(engine), tokenizer_(tokenizer), corpus_(corpus), collection_(collection) {}

  StatusOr<AcrossReport> Run() {
    const size_t count = std::min(corpus_.documents.size(), kMostDocuments);
    if (count < 2) return AcrossReport{};
    const size_t most = (engine_.model().max_positions - kQuestionTokens) / count;
    for (size_t i = 0; i < count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(pieces_.emplace_back(), BeginningOf(corpus_.documents[i], most));
    }
    const DemoQuestion* const question = FindQuestion();
    if (question == nullptr) return AcrossReport{};
    QUIRE_RETURN_IF_ERROR(Store());
    return Ask(*question);
  }

 private:
  StatusOr<Beginning> BeginningOf(const DemoDocument& document, size_t most) const {
    Beginning piece{.name = "beginning of " + document.name, .text = document.text, .tokens = {}};
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(piece.tokens, DocumentTokens(tokenizer_, piece.text));
      if (piece.tokens.size() <= most) return piece;
      // Somewhat less than the share of the text that fits, to the end of a line or a word.
      const size_t size = piece.text.size() * most / piece.tokens.size() * 63 / 64;
      const size_t end = piece.text.find_last_of("\n ", size);
      piece.text.resize(end == std::string::npos ? size : end);
    }
  }

  /// The last question that one piece answers and no other one speaks of.
  const DemoQuestion* FindQuestion() const {
    const DemoQuestion* found = nullptr;
    for (const DemoQuestion& question : corpus_.questions) {
      const std::string fact(FactOf(question));
      const auto has = [&](const std::string& text) {
        return std::ranges::count_if(pieces_, [&](const Beginning& piece) {
          return piece.text.find(text) != std::string::npos;
        });
      };
      if (!fact.empty() && has(fact) == 1 && has(fact + question.answer) == 1) found = &question;
    }
    return found;
  }

  Status Store() {
    ProgressBar progress("reading documents alone", pieces_.size());
    for (const Beginning& piece : pieces_) {
      const DocumentName name{collection_, piece.name, 0};
      QUIRE_RETURN_IF_ERROR(engine_.Ingest(piece.tokens, name).status());
      names_.push_back(name);
      progress.Advance(1, piece.name);
    }
    return OkStatus();
  }

  StatusOr<AcrossReport> Ask(const DemoQuestion& question) {
    AcrossReport report{
        .documents = {}, .question = question.prompt, .answer = question.answer, .rows = {}};
    for (const DocumentName& name : names_) report.documents.push_back(name.name);
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, tokenizer_.Encode(question.prompt));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> answer, tokenizer_.Encode(question.answer));
    ProgressBar progress("asking across documents", std::size(kMethods));
    for (const ReuseMethod method : kMethods) {
      QUIRE_ASSIGN_OR_RETURN(report.rows.emplace_back(), Ask(method, prompt, answer));
      progress.Advance(1, std::string(worker::Name(method)));
    }
    return report;
  }

  StatusOr<AcrossRow> Ask(ReuseMethod method, std::span<const TokenId> prompt,
                          const std::vector<TokenId>& answer) const {
    const worker::ReuseOptions options{.method = method,
                                       .bos = worker::BeginningToken({.tokenizer = &tokenizer_}),
                                       .max_new_tokens = static_cast<uint32_t>(answer.size())};
    QUIRE_ASSIGN_OR_RETURN(auto run, engine_.OpenReuse(names_, prompt, options));
    if (run->stats().statistics_computed > 0) {
      // The first question computed them, the next one shows the method.
      QUIRE_ASSIGN_OR_RETURN(run, engine_.OpenReuse(names_, prompt, options));
    }
    QUIRE_ASSIGN_OR_RETURN(const worker::Generation given,
                           run->Generate({.max_new_tokens = options.max_new_tokens,
                                          .stop_tokens = tokenizer_.ends()}));
    return AcrossRow{.method = method, .right = given.tokens == answer, .stats = run->stats()};
  }

  const worker::Engine& engine_;
  const worker::Tokenizer& tokenizer_;
  const DemoCorpus& corpus_;
  const std::string& collection_;
  std::vector<Beginning> pieces_;
  std::vector<DocumentName> names_;
};

}  // namespace

StatusOr<AcrossReport> AskAcross(const worker::Engine& engine, const worker::Tokenizer& tokenizer,
                                 const DemoCorpus& corpus, const std::string& collection) {
  return Across(engine, tokenizer, corpus, collection).Run();
}

void PrintAcross(const AcrossReport& report, std::ostream& out) {
  if (report.rows.empty()) return;
  out << "\nOne question across " << report.documents.size() << " documents, each stored alone ("
      << FormatCount(report.rows.front().stats.prompt_tokens)
      << " tokens together):" << report.question << " ...\n\n";
  Table table({{"method"},
               {"right"},
               {"attended", Table::kRight},
               {"computed", Table::kRight},
               {"fetched", Table::kRight},
               {"requests", Table::kRight},
               {"first token", Table::kRight}});
  for (const AcrossRow& row : report.rows) {
    table.AddRow({std::string(worker::Name(row.method)), row.right ? "yes" : "no",
                  FormatRatio(row.stats.sequence_ratio), FormatRatio(row.stats.recompute_ratio),
                  FormatBytes(row.stats.bytes_read), FormatCount(row.stats.requests),
                  FormatRatio(row.stats.seconds_prefill, 2) + " s"});
  }
  table.Print(out);
}

Json AcrossJson(const AcrossReport& report) {
  if (report.rows.empty()) return nullptr;
  Json methods = Json::array();
  for (const AcrossRow& row : report.rows) {
    methods.push_back({{"method", worker::Name(row.method)},
                       {"right", row.right},
                       {"sequence_ratio", row.stats.sequence_ratio},
                       {"recompute_ratio", row.stats.recompute_ratio},
                       {"bytes_fetched", row.stats.bytes_read},
                       {"bytes_of_documents", row.stats.bytes_whole},
                       {"requests", row.stats.requests},
                       {"seconds_to_first_token", row.stats.seconds_prefill}});
  }
  return {{"documents", report.documents},
          {"prompt_tokens", report.rows.front().stats.prompt_tokens},
          {"question", report.question},
          {"answer", report.answer},
          {"methods", methods}};
}

}  // namespace quire::cli
