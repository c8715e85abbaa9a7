// SPDX-License-Identifier: Apache-2.0
//
// Programs that are installed together find each other by their folder.
#ifndef QUIRE_APPS_KIT_PROGRAM_BESIDE_H_
#define QUIRE_APPS_KIT_PROGRAM_BESIDE_H_

#include <span>
#include <string>

#include "quire/status.h"

namespace quire::cli {

/// Path of the program `name` in the folder of the running program. NOT_FOUND when there is none.
StatusOr<std::string> ProgramBeside(const std::string& name);

/// Replaces this process by the program `name` of the same folder. `arguments` are those after
/// argv[0]. Returns only when that fails.
[[nodiscard]] Status RunProgramBeside(const std::string& name,
                                      std::span<const char* const> arguments);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_PROGRAM_BESIDE_H_
