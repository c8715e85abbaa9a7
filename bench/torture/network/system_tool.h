// SPDX-License-Identifier: Apache-2.0
//
// RunTool: runs a program of the system, as `ip` or `mount`, to its end.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_SYSTEM_TOOL_H_
#define QUIRE_BENCH_TORTURE_NETWORK_SYSTEM_TOOL_H_

#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::torture {

/// Program and arguments. The program is looked for in PATH and in the folders of administrators.
/// It has the namespaces of the calling thread. UNAVAILABLE with its output when it fails.
[[nodiscard]] Status RunTool(std::vector<std::string> command);

/// The same with a command line whose words have single spaces between them and no other.
[[nodiscard]] Status RunToolLine(const std::string& line);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_SYSTEM_TOOL_H_
