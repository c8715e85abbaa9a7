// SPDX-License-Identifier: Apache-2.0
//
// Identifier of this boot of this machine. Two processes with the same id can share memory.
// Containers of one machine have the same id; a connect shows if they reach each other's sockets.
// Thread-safety: pure but for the file.
#ifndef QUIRE_COMMON_BASE_HOST_ID_H_
#define QUIRE_COMMON_BASE_HOST_ID_H_

#include <string>

namespace quire {

inline constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";

/// The boot id, without its line end; empty where the system has none.
std::string ReadHostId(const std::string& path = kBootIdPath);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_HOST_ID_H_
