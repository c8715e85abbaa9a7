// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/ask_documents.h"

#include <CLI/CLI.hpp>
#include <map>
#include <sstream>
#include <utility>

#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"

namespace quire::cli {
namespace {

std::string List(const Names& names) {
  std::string list;
  for (const DocumentName& name : names) list += (list.empty() ? "" : ", ") + FormatName(name);
  return list;
}

void AddHopFlags(CLI::App& command, worker::HopOptions& hops) {
  command
      .add_option("--hops", hops.hops, "hops: passes; each follows references one document further")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command
      .add_option("--hop-pages", hops.pages,
                  "hops: pages that a token finds in a layer that retrieves")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--hop-layers", hops.layers,
                  "hops: layers that retrieve, divided by commas; all when not given")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 4095));
}

/// Layers that are calibrated for a model.
void AddLayerFlags(CLI::App& command, worker::ReuseOptions& reuse) {
  command
      .add_option("--check-layer", reuse.cacheblend.check_layer,
                  "cacheblend: layer that compares computed and stored values; 1 when not given, "
                  "or the model's only layer")
      ->check(CLI::Range(0, 4095));
  command
      .add_option("--stable-layers", reuse.selection.stable_layers,
                  "samkv: layers whose scores decide how much is read, divided by commas; the last "
                  "eighth when not given")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 4095));
}

}  // namespace

void DocumentsFlags::SetRatio(const std::string& text) {
  reuse.balances_loading = text == "auto";
  if (!reuse.balances_loading) reuse.cacheblend.ratio = std::stod(text);
}

void AddDocumentsFlags(CLI::App& command, DocumentsFlags& flags) {
  command
      .add_option("--docs", flags.documents,
                  "Several documents, divided by commas, in the order of the prompt")
      ->type_name("NAMES");
  command
      .add_option("--method", flags.method,
                  "How caches of --docs are reused: full, reuse_strict, reuse_isolated, epic, "
                  "cacheblend, samkv, multi_infllm, cachecraft or hops")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--recompute-ratio", [&flags](const std::string& text) { flags.SetRatio(text); },
          "cacheblend: share of the documents' tokens to compute. auto: 0.15, or what loading "
          "leaves time for, or everything where that is faster")
      ->check(CLI::Range(0.0, 1.0) | CLI::IsMember({"auto"}))
      ->type_name("SHARE|auto")
      ->default_str("0.15");
  command.add_flag(
      "--gradual", flags.reuse.cacheblend.gradual,
      "cacheblend: compute fewer tokens in each layer, with the same mean over layers");
  command
      .add_option("--epic-tokens", flags.reuse.epic_tokens,
                  "epic: first tokens of each document to compute")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  command
      .add_option("--infllm-blocks", flags.reuse.infllm.blocks,
                  "multi_infllm: blocks to read of each document besides its first and last ones")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  command
      .add_option("--samkv-rows", flags.reuse.samkv.rows,
                  "samkv: tokens to compute, the published ones or those of the blocks that the "
                  "question selects (attended)")
      ->transform(CLI::Transformer(
          std::map<std::string, worker::SamKvRows>{{"published", worker::SamKvRows::kPublished},
                                                   {"attended", worker::SamKvRows::kAttended}}))
      ->default_str("published");
  command
      .add_option("--positions", flags.reuse.positions,
                  "samkv and multi_infllm: positions of full prefill (gapped), or without those "
                  "of tokens that are not read (compact, also where gapped ones do not fit)")
      ->transform(CLI::Transformer(std::map<std::string, worker::PromptPositions>{
          {"gapped", worker::PromptPositions::kGapped},
          {"compact", worker::PromptPositions::kCompact}}))
      ->default_str("gapped");
  command
      .add_option("--variants", flags.reuse.variants,
                  "full and cachecraft: variants of a document to keep behind other documents. "
                  "With --worker 0 is the worker's own number")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  command.add_flag("--overwrite", flags.overwrite,
                   "samkv: take computed keys as they are, without fusion with stored ones");
  AddLayerFlags(command, flags.reuse);
  AddHopFlags(command, flags.reuse.hops);
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
          {"compact", stats.compact},
          {"sequence_ratio", stats.sequence_ratio},
          {"recompute_ratio", stats.recompute_ratio},
          {"chosen_ratio", stats.chosen_ratio},
          {"chose_full_prefill", stats.chose_full_prefill},
          {"bytes_fetched", stats.bytes_read},
          {"bytes_of_documents", stats.bytes_whole},
          {"requests", stats.requests},
          {"statistics_computed", stats.statistics_computed},
          {"statistics_stored", stats.statistics_stored},
          {"variants_used", stats.variants_used},
          {"variants_kept", stats.variants_kept},
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
  if (stats.compact) summary += ", at compact positions";
  if (stats.chose_full_prefill) summary += ", since loading takes longer";
  if (stats.statistics_computed > 0) {
    summary += "; statistics of " + std::to_string(stats.statistics_computed) +
               " documents were computed first, and stored of " +
               std::to_string(stats.statistics_stored);
  }
  if (stats.variants_used > 0) {
    summary += "; " + std::to_string(stats.variants_used) +
               " documents were read as computed behind others";
  }
  if (stats.variants_kept > 0) {
    summary += "; " + std::to_string(stats.variants_kept) + " were kept as computed behind others";
  }
  if (stats.attended_ratio < 1) {
    summary += "; the answer's tokens attended to " + FormatRatio(100 * stats.attended_ratio, 1) +
               " % of it";
  }
  if (!stats.missing.empty()) summary += "; without " + List(stats.missing) + ", not stored";
  return summary;
}

}  // namespace quire::cli
