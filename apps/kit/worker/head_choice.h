// SPDX-License-Identifier: Apache-2.0
//
// HeadChoice: which retrieval head a command loads with a model.
#ifndef QUIRE_APPS_KIT_WORKER_HEAD_CHOICE_H_
#define QUIRE_APPS_KIT_WORKER_HEAD_CHOICE_H_

#include <memory>
#include <optional>
#include <string>

#include "gpuworker/head/head_weights.h"
#include "gpuworker/model/checkpoint/config.h"
#include "quire/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace quire::cli {

struct HeadChoice {
  std::string directory = {};  ///< Folder of a draft; empty: that beside the model, if any.
  /// Unset: what the draft was trained for.
  std::optional<worker::HeadMode> mode = {};
};

/// The chosen head of the model in `model_directory`. Null without a choice and without a folder.
/// Errors as LoadHeadWeights, and FAILED_PRECONDITION for a mode without a head.
StatusOr<std::shared_ptr<const worker::HeadWeights>> LoadRetrievalHead(
    const std::string& model_directory, const worker::ModelConfig& config,
    const HeadChoice& choice);

/// Adds --draft and --draft-mode. `choice` lives as long as `command`.
void AddHeadFlags(CLI::App& command, HeadChoice* choice);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_HEAD_CHOICE_H_
