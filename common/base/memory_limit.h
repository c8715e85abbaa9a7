// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may have: the machine's, or less where a control group says so (in a
// container, or a unit of systemd). Thread-safety: pure functions of files.
#ifndef QUIRE_COMMON_BASE_MEMORY_LIMIT_H_
#define QUIRE_COMMON_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace quire {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string whose;  ///< For messages: "the memory of this machine", "the limit in FILE".
};

/// Reads the limits of the process's control groups, of version 2 and 1, up to the root. What
/// cannot be read limits nothing. `root` stands before the paths of files, in tests.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_LIMIT_H_
