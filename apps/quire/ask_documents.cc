// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/ask_documents.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

#include "apps/kit/progress.h"
#include "apps/kit/table.h"

namespace quire::cli {
namespace {

std::string List(const Names& names) {
  std::string list;
  for (const DocumentName& name : names) list += (list.empty() ? "" : ", ") + FormatName(name);
  return list;
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
  command.add_flag("--skip-missing", flags.reuse.skip_missing,
                   "Go on without documents of --docs that are not stored, and say which");
}

StatusOr<worker::ReuseOptions> DocumentsFlags::Options() const {
  worker::ReuseOptions options = reuse;
  QUIRE_ASSIGN_OR_RETURN(options.method, worker::ParseReuseMethod(method));
  if (overwrite) options.samkv.update = worker::RowUpdate::kOverwrite;
  return options;
}

StatusOr<Readings<Names>> ParseNames(const std::string& documents, const std::string& collection) {
  Readings<Names> names;
  Names seconds;
  bool differ = false;
  std::istringstream texts(documents);
  for (std::string text; std::getline(texts, text, ',');) {
    QUIRE_ASSIGN_OR_RETURN(const Readings<DocumentName> name, ParseDocumentName(text, collection));
    names.first.push_back(name.first);
    seconds.push_back(name.second.value_or(name.first));
    differ |= name.second.has_value();
  }
  if (names.first.empty()) return InvalidArgument("--docs names no document");
  if (differ) names.second = std::move(seconds);
  return names;
}

StatusOr<StoredIn> FirstStored(const Names& names, Client& client) {
  for (const DocumentName& name : names) {
    const auto stat = client.Stat(name);
    if (stat.ok()) return StoredIn{name, stat->context.spec};
    if (!IsNotFound(stat.status())) return Annotate(stat.status(), FormatName(name));
  }
  return NotFound("not stored: ", List(names), "; put them first");
}

Json Measures(const worker::ReuseStats& stats, worker::ReuseMethod method) {
  Json missing = Json::array();
  for (const DocumentName& name : stats.missing) missing.push_back(FormatName(name));
  return {{"method", worker::Name(method)},
          {"prompt_tokens", stats.prompt_tokens},
          {"question_tokens", stats.question_tokens},
          {"sequence_ratio", stats.sequence_ratio},
          {"recompute_ratio", stats.recompute_ratio},
          {"bytes_fetched", stats.bytes_read},
          {"bytes_of_documents", stats.bytes_whole},
          {"requests", stats.requests},
          {"statistics_computed", stats.statistics_computed},
          {"statistics_stored", stats.statistics_stored},
          {"seconds_to_first_token", stats.seconds_prefill},
          {"attended_ratio", stats.attended_ratio},
          {"missing", missing}};
}

std::string Summary(const worker::ReuseStats& stats, worker::ReuseMethod method) {
  std::string summary =
      std::string(worker::Name(method)) + " over a prompt of " + FormatCount(stats.prompt_tokens) +
      " tokens: " + FormatRatio(100 * stats.sequence_ratio, 1) + " % of the documents read, " +
      FormatRatio(100 * stats.recompute_ratio, 1) + " % computed, " +
      FormatBytes(stats.bytes_read) + " fetched of " + FormatBytes(stats.bytes_whole);
  if (stats.statistics_computed > 0) {
    summary += "; statistics of " + std::to_string(stats.statistics_computed) +
               " documents were computed first, and stored of " +
               std::to_string(stats.statistics_stored);
  }
  if (stats.attended_ratio < 1) {
    summary += "; the answer's tokens attended to " + FormatRatio(100 * stats.attended_ratio, 1) +
               " % of it";
  }
  if (!stats.missing.empty()) summary += "; without " + List(stats.missing) + ", not stored";
  return summary;
}

}  // namespace quire::cli
