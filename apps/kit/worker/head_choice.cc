// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/head_choice.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::cli {

using worker::HeadWeights;

StatusOr<std::shared_ptr<const HeadWeights>> LoadRetrievalHead(const std::string& model_directory,
                                                               const worker::ModelConfig& config,
                                                               const HeadChoice& choice) {
  std::string directory = choice.directory;
  if (directory.empty()) {
    directory = model_directory + "/" + worker::kHeadFolder;
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error)) {
      if (!choice.mode) return std::shared_ptr<const HeadWeights>();
      return FailedPrecondition("--draft-mode asks for a retrieval head, and ", model_directory,
                                " has no folder ", worker::kHeadFolder,
                                "; name the folder of a draft with --draft");
    }
  }
  const worker::HeadTarget target{model_directory, config};
  QUIRE_ASSIGN_OR_RETURN(HeadWeights head, worker::LoadHeadWeights(directory, target, choice.mode));
  return std::make_shared<const HeadWeights>(std::move(head));
}

void AddHeadFlags(CLI::App& command, HeadChoice* choice) {
  command
      .add_option("--draft", choice->directory,
                  "Folder of an EAGLE-3 draft of the model, which specontext selects with (not "
                  "given: the folder retrieval-head in the model's)")
      ->type_name("DIR");
  std::vector<std::string> modes;
  for (const std::string_view name : worker::HeadModeNames()) modes.emplace_back(name);
  command
      .add_option_function<std::string>(
          "--draft-mode",
          [choice](const std::string& name) { choice->mode = worker::FindHeadMode(name); },
          "What the draft sees besides a token's embedding: eagle, the model's hidden states; "
          "trained, the tokens before; embed_only, nothing (not given: what it was trained for)")
      ->check(CLI::IsMember(modes));
}

}  // namespace quire::cli
