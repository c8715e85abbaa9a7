// SPDX-License-Identifier: Apache-2.0
//
// Memory limit of this process: the machine's memory, or less where a control group (container,
// systemd unit) says so. Thread-safety: pure functions of files and values.
#ifndef QUIRE_COMMON_BASE_MEMORY_MEMORY_LIMIT_H_
#define QUIRE_COMMON_BASE_MEMORY_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string whose;  ///< Source, for messages: "the memory of this machine", "the limit in FILE".
};

/// Reads the limits of the process's control groups, version 2 and 1, up to the root. An unreadable
/// file limits nothing. `root` is put before all paths, for tests.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

/// INVALID_ARGUMENT naming `option` and the limit when `bytes` exceeds it. Beyond the limit the
/// kernel kills the process.
[[nodiscard]] Status CheckWithin(const MemoryLimit& limit, std::string_view option, uint64_t bytes);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_MEMORY_LIMIT_H_
