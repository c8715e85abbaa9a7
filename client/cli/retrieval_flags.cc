// SPDX-License-Identifier: Apache-2.0
#include "client/cli/retrieval_flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string_view>

#include "client/cli/token_ids.h"
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
      .add_option_function<std::string>("--uncompressed-layers", parse,
                                        "Layers that keep every page, as 0,1,... or none")
      ->type_name("LIST")
      ->default_str(kNoLayers);
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

worker::RetrievalOptions RetrievalFlags::Options() const {
  worker::RetrievalOptions options = DefaultRetrieval();
  options.policy = policy.value_or(options.policy);
  options.budget_tokens = budget_tokens.value_or(options.budget_tokens);
  options.sink_tokens = sink_tokens.value_or(options.sink_tokens);
  options.window_tokens = window_tokens.value_or(options.window_tokens);
  options.uncompressed_layers = uncompressed_layers.value_or(options.uncompressed_layers);
  options.side = side.value_or(options.side);
  return options;
}

void AddRetrievalFlags(CLI::App& command, RetrievalFlags& flags) {
  using worker::SelectionSide;
  const worker::RetrievalOptions defaults = DefaultRetrieval();
  const std::map<std::string, SelectionSide> sides = {{"worker", SelectionSide::kWorker},
                                                      {"server", SelectionSide::kServer}};
  const std::vector<std::string_view> names = worker::PolicyNames();
  command.add_option("--policy", flags.policy, "How pages are selected")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
      ->default_str(defaults.policy);
  command
      .add_option("--budget", flags.budget_tokens,
                  "Tokens resident per KV head, sinks and window included")
      ->default_str(std::to_string(defaults.budget_tokens));
  command.add_option("--sinks", flags.sink_tokens, "First tokens, always resident")
      ->default_str(std::to_string(defaults.sink_tokens));
  command.add_option("--window", flags.window_tokens, "Most recent tokens, always resident")
      ->default_str(std::to_string(defaults.window_tokens));
  AddUncompressedLayers(command, flags);
  command.add_option("--select", flags.side, "Where pages are scored: worker or server")
      ->transform(CLI::CheckedTransformer(sides).description(""))
      ->default_str("worker");
}

}  // namespace quire::cli
