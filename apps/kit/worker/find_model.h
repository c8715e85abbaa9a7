// SPDX-License-Identifier: Apache-2.0
//
// Finds the bundled model, so that commands work from any directory of a checkout.
#ifndef QUIRE_APPS_KIT_WORKER_FIND_MODEL_H_
#define QUIRE_APPS_KIT_WORKER_FIND_MODEL_H_

#include <string>

#include "quire/status.h"

namespace quire::cli {

/// `given` when it is not empty; otherwise models/recall-small in the current directory, or in the
/// nearest directory above the running program that has it. NOT_FOUND says to give --model.
StatusOr<std::string> FindModel(const std::string& given);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_FIND_MODEL_H_
