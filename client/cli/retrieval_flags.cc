// SPDX-License-Identifier: Apache-2.0
#include "client/cli/retrieval_flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace quire::cli {

void AddRetrievalFlags(CLI::App& command, worker::RetrievalOptions& options) {
  using worker::SelectionSide;
  const std::map<std::string, SelectionSide> sides = {{"worker", SelectionSide::kWorker},
                                                      {"server", SelectionSide::kServer}};
  command.add_option("--policy", options.policy, "How pages are selected")
      ->check(CLI::IsMember({"quest", "full", "streaming"}))
      ->capture_default_str();
  command
      .add_option("--budget", options.budget_tokens,
                  "Tokens resident per KV head, sinks and window included")
      ->capture_default_str();
  command.add_option("--sinks", options.sink_tokens, "First tokens, always resident")
      ->capture_default_str();
  command.add_option("--window", options.window_tokens, "Most recent tokens, always resident")
      ->capture_default_str();
  command.add_option("--select", options.side, "Where pages are scored: worker or server")
      ->transform(CLI::Transformer(sides))
      ->default_str(options.side == SelectionSide::kServer ? "server" : "worker");
}

}  // namespace quire::cli
