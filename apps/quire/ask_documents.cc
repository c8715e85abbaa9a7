// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/ask_documents.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"

namespace quire::cli {
namespace {

/// The work of the method, for people.
std::string Summary(const worker::ReuseStats& stats, std::string_view method) {
  std::string summary =
      std::string(method) + " over a prompt of " + FormatCount(stats.prompt_tokens) +
      " tokens: " + FormatRatio(100 * stats.sequence_ratio, 1) + " % of the documents read, " +
      FormatRatio(100 * stats.recompute_ratio, 1) + " % computed, " +
      FormatBytes(stats.bytes_read) + " fetched of " + FormatBytes(stats.bytes_whole);
  if (stats.statistics_computed > 0) {
    summary += "; statistics of " + std::to_string(stats.statistics_computed) +
               " documents were computed first, and stored of " +
               std::to_string(stats.statistics_stored);
  }
  return summary;
}

Json Measures(const worker::ReuseStats& stats, std::string_view method) {
  return {{"method", method},
          {"prompt_tokens", stats.prompt_tokens},
          {"question_tokens", stats.question_tokens},
          {"sequence_ratio", stats.sequence_ratio},
          {"recompute_ratio", stats.recompute_ratio},
          {"bytes_fetched", stats.bytes_read},
          {"bytes_of_documents", stats.bytes_whole},
          {"statistics_computed", stats.statistics_computed},
          {"statistics_stored", stats.statistics_stored},
          {"seconds_to_first_token", stats.seconds_prefill}};
}

}  // namespace

void AddDocumentsFlags(CLI::App& command, DocumentsFlags& flags) {
  command
      .add_option("--docs", flags.documents,
                  "Several documents, divided by commas, in the order of the prompt")
      ->type_name("NAMES");
  command
      .add_option("--method", flags.method,
                  "How caches of --docs are reused: full, reuse_strict, epic, cacheblend or samkv")
      ->capture_default_str();
  command
      .add_option("--recompute-ratio", flags.reuse.cacheblend.ratio,
                  "cacheblend: share of the documents' tokens to compute")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_flag("--gradual", flags.reuse.cacheblend.gradual,
                   "cacheblend: compute fewer tokens in each layer, the same on average");
  command
      .add_option("--epic-tokens", flags.reuse.epic_tokens,
                  "epic: first tokens of each document to compute")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  command.add_flag("--overwrite", flags.overwrite,
                   "samkv: take computed keys as they are, without fusion with stored ones");
}

StatusOr<std::vector<DocumentName>> FindDocuments(const DocumentsFlags& flags,
                                                  const std::string& collection, Client& client) {
  std::vector<DocumentName> documents;
  std::istringstream names(flags.documents);
  for (std::string name; std::getline(names, name, ',');) {
    QUIRE_ASSIGN_OR_RETURN(const Readings<DocumentName> readings,
                           ParseDocumentName(name, collection));
    QUIRE_ASSIGN_OR_RETURN(const Document document,
                           FirstFound(readings, [&](const DocumentName& reading) {
                             return client.GetDocument(reading);
                           }));
    documents.push_back(document.name);
  }
  if (documents.empty()) return InvalidArgument("--docs names no document");
  return documents;
}

StatusOr<DocumentsAnswer> AskDocuments(const DocumentsFlags& flags, const worker::Engine& engine,
                                       std::span<const DocumentName> documents,
                                       std::span<const TokenId> prompt,
                                       const worker::GenerateParams& params) {
  worker::ReuseOptions options = flags.reuse;
  QUIRE_ASSIGN_OR_RETURN(options.method, worker::ParseReuseMethod(flags.method));
  if (flags.overwrite) options.samkv.update = worker::RowUpdate::kOverwrite;
  options.max_new_tokens = params.max_new_tokens;
  QUIRE_ASSIGN_OR_RETURN(const auto run, engine.OpenReuse(documents, prompt, options));
  DocumentsAnswer answer;
  QUIRE_ASSIGN_OR_RETURN(answer.generation, run->Generate(params));
  answer.measures = Measures(run->stats(), flags.method);
  answer.summary = Summary(run->stats(), flags.method);
  return answer;
}

}  // namespace quire::cli
