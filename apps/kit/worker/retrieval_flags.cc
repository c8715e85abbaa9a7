// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/retrieval_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "apps/kit/output/table.h"
#include "apps/kit/token_ids.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::cli {
namespace {

constexpr char kNoLayers[] = "none";

void AddUncompressedLayers(CLI::App& command, RetrievalFlags& flags) {
  const auto parse = [&flags](const std::string& text) {
    if (text == kNoLayers) {
      flags.uncompressed_layers.emplace();
      return;
    }
    const auto layers = ParseTokenIds(text);  // Numbers from 0 on, too.
    if (!layers.ok()) {
      throw CLI::ValidationError("--uncompressed-layers",
                                 "'" + text + "' is no list of layers; give 0,1,... or none");
    }
    flags.uncompressed_layers.emplace(layers->begin(), layers->end());
  };
  command
      .add_option_function<std::string>(
          "--uncompressed-layers", parse,
          "Layers that keep every page, as 0,1,... or none; not given: "
          "none for quest, for another policy those published with "
          "it (freekv: 0)")
      ->type_name("LIST");
}

void AddRecallFlags(CLI::App& command, RetrievalFlags& flags) {
  const worker::RetrievalOptions defaults = DefaultRetrieval();
  command
      .add_option("--tau", flags.correction_threshold,
                  "freekv: heads whose query turned to a cosine below this wait for their pages")
      ->check(CLI::Range(-2.0, 2.0))
      ->default_str(FormatRatio(defaults.correction_threshold, 1));
  const std::map<std::string, bool> heads = {{"all", false}, {"retrieval", true}};
  command
      .add_option("--correct-heads", flags.correct_retrieval_heads,
                  "freekv: heads that may wait for their pages: all, or retrieval for those that "
                  "copy what the text said before")
      ->transform(CLI::CheckedTransformer(heads).description(""))
      ->type_name("HEADS")
      ->default_str("all");
  command
      .add_option("--recall-deadline-ms", flags.recall_deadline_ms,
                  "freekv: how long a layer waits for them; 0: as long as it takes")
      ->check(CLI::Range(0.0, 3.6e6))
      ->default_str("0");
  command
      .add_option("--units-per-buffer", flags.units_per_buffer,
                  "Units of a recall that are taken in at a time; 0: all of a KV head")
      ->default_str(std::to_string(defaults.units_per_buffer));
}

}  // namespace

worker::RetrievalOptions DefaultRetrieval() {
  worker::RetrievalOptions options;
  options.policy = "quest";
  options.budget_tokens = 768;
  options.sink_tokens = 32;
  options.window_tokens = 64;
  options.uncompressed_layers = {};
  options.side = worker::SelectionSide::kWorker;
  return options;
}

StatusOr<worker::RetrievalOptions> RetrievalFlags::Options(uint32_t page_tokens) const {
  worker::RetrievalOptions options = DefaultRetrieval();
  if (policy) {
    QUIRE_ASSIGN_OR_RETURN(options, worker::WithPolicy(std::move(options), *policy));
  }
  if (published) {
    QUIRE_ASSIGN_OR_RETURN(options, worker::AsPublished(std::move(options), page_tokens));
  }
  options.budget_tokens = budget_tokens.value_or(options.budget_tokens);
  options.sink_tokens = sink_tokens.value_or(options.sink_tokens);
  options.window_tokens = window_tokens.value_or(options.window_tokens);
  options.uncompressed_layers = uncompressed_layers.value_or(options.uncompressed_layers);
  options.side = side.value_or(options.side);
  options.correction_threshold = correction_threshold.value_or(options.correction_threshold);
  options.correct_retrieval_heads =
      correct_retrieval_heads.value_or(options.correct_retrieval_heads);
  if (const auto micros = RecallDeadlineMicros()) {
    options.recall_deadline = std::chrono::microseconds(*micros);
  }
  options.units_per_buffer = units_per_buffer.value_or(options.units_per_buffer);
  options.key_rank = key_rank.value_or(options.key_rank);
  options.selection_memory = selection_memory.value_or(options.selection_memory);
  return options;
}

StatusOr<worker::RetrievalOptions> RetrievalFlags::OptionsOfPolicy(uint32_t page_tokens) const {
  using worker::CheckReads, worker::OwnOption;
  QUIRE_ASSIGN_OR_RETURN(worker::RetrievalOptions options, Options(page_tokens));
  if (correction_threshold) {
    QUIRE_RETURN_IF_ERROR(CheckReads(options.policy, OwnOption::kCorrectionThreshold, "--tau"));
  }
  if (correct_retrieval_heads) {
    QUIRE_RETURN_IF_ERROR(
        CheckReads(options.policy, OwnOption::kCorrectedHeads, "--correct-heads"));
  }
  if (recall_deadline_ms) {
    QUIRE_RETURN_IF_ERROR(
        CheckReads(options.policy, OwnOption::kRecallDeadline, "--recall-deadline-ms"));
  }
  if (key_rank) {
    QUIRE_RETURN_IF_ERROR(CheckReads(options.policy, OwnOption::kKeyRank, "--key-rank"));
  }
  if (selection_memory) {
    QUIRE_RETURN_IF_ERROR(
        CheckReads(options.policy, OwnOption::kSelectionMemory, "--selection-memory"));
  }
  return options;
}

std::optional<uint32_t> RetrievalFlags::RecallDeadlineMicros() const {
  if (!recall_deadline_ms) return std::nullopt;
  return static_cast<uint32_t>(*recall_deadline_ms * 1e3);
}

void AddRetrievalFlags(CLI::App& command, RetrievalFlags& flags) {
  using worker::SelectionSide;
  const worker::RetrievalOptions defaults = DefaultRetrieval();
  const std::map<std::string, SelectionSide> sides = {{"worker", SelectionSide::kWorker},
                                                      {"server", SelectionSide::kServer}};
  const std::vector<std::string_view> names = worker::AllPolicyNames();
  command.add_option("--policy", flags.policy, "How pages are selected")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
      ->default_str(defaults.policy);
  command.add_flag("--published", flags.published,
                   "Budget, sinks, window and layers that are not given are those published with "
                   "the policy, in whole pages; scores are pooled and units placed as there");
  command
      .add_option("--budget", flags.budget_tokens,
                  "Tokens resident per KV head, sinks and window included")
      ->check(CLI::Range(uint32_t{1}, UINT32_MAX))
      ->default_str(std::to_string(defaults.budget_tokens));
  command.add_option("--sinks", flags.sink_tokens, "First tokens, always resident")
      ->default_str(std::to_string(defaults.sink_tokens));
  command.add_option("--window", flags.window_tokens, "Most recent tokens, always resident")
      ->check(CLI::Range(uint32_t{1}, UINT32_MAX))
      ->default_str(std::to_string(defaults.window_tokens));
  AddUncompressedLayers(command, flags);
  command.add_option("--select", flags.side, "Where pages are scored: worker or server")
      ->transform(CLI::CheckedTransformer(sides).description(""))
      ->default_str("worker");
  AddRecallFlags(command, flags);
  command
      .add_option("--key-rank", flags.key_rank,
                  "shadowkv: rank of the document's keys, at most KV heads * head_dim; 0: the "
                  "published share of that, 160 of 1024")
      ->default_str(std::to_string(defaults.key_rank));
  command
      .add_option(
          "--selection-memory", flags.selection_memory,
          "specontext: tokens that a selection looks back on; more of them move fewer pages, 1 is "
          "the published choice")
      ->check(CLI::Range(uint32_t{1}, worker::kMostSelectionMemory))
      ->default_str(std::to_string(defaults.selection_memory));
}

void AddHostCacheFlag(CLI::App& command, uint64_t* bytes) {
  command
      .add_option(
          "--host-cache-bytes", *bytes,
          "Recalled units kept in this process's memory, for all sequences, and placed from "
          "there when they are selected again; 0: none")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
}

Status CheckHostMemory(const HostMemoryAsked& asked, const MemoryLimit& limit) {
  QUIRE_RETURN_IF_ERROR(CheckWithin(limit, "--host-cache-bytes", asked.cache));
  QUIRE_RETURN_IF_ERROR(CheckWithin(limit, "--device-memory", asked.device));
  return asked.slots_are_default ? OkStatus() : CheckWithin(limit, "--slot-bytes", asked.slots);
}

bool MemoryMayNotSuffice(const HostMemoryAsked& asked, const MemoryLimit& limit) {
  const uint64_t most = std::max(asked.slots, asked.device);
  return asked.cache > limit.bytes || most > limit.bytes - asked.cache;
}

}  // namespace quire::cli
