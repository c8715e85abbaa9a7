// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may have: the machine's, or less where a control group says so (in a
// container, or a unit of systemd). Thread-safety: pure functions of files and values.
#ifndef QUIRE_COMMON_BASE_MEMORY_LIMIT_H_
#define QUIRE_COMMON_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string whose;  ///< For messages: "the memory of this machine", "the limit in FILE".
};

/// Reads the limits of the process's control groups, of version 2 and 1, up to the root. What
/// cannot be read limits nothing. `root` stands before the paths of files, in tests.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

/// INVALID_ARGUMENT naming `option` and the limit when `bytes` is more: beyond it the kernel would
/// end the process once the memory is used.
[[nodiscard]] Status CheckWithin(const MemoryLimit& limit, std::string_view option, uint64_t bytes);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_LIMIT_H_
