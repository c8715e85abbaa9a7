// SPDX-License-Identifier: Apache-2.0
//
// PeerMemory: the memory of another process of this host, which the kernel copies from
// (cross-memory attach). Whether it may is the kernel's to say: it does for processes of one user,
// and for root, where no module of the kernel's forbids it.
// Thread-safety: pure functions of the memory.
#ifndef QUIRE_COMMON_TRANSPORT_PEER_MEMORY_H_
#define QUIRE_COMMON_TRANSPORT_PEER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"

namespace quire {

class PeerMemory {
 public:
  /// From where in the process to where in this one.
  struct Piece {
    uint64_t from = 0;
    std::span<std::byte> to;
  };

  /// Of no process.
  PeerMemory() = default;
  /// `process` as it is numbered in this process's namespace.
  explicit PeerMemory(uint64_t process) : process_(process) {}
  /// This process, for others.
  static uint64_t OwnProcess();

  /// Whether the process is there, may be read, and has `bytes` at `address`: a secret that it has
  /// told tells it from any other.
  bool Has(uint64_t address, std::span<const uint8_t> bytes) const;
  /// UNAVAILABLE when a piece could not be read to its end: the process is gone, or was never the
  /// one that was meant. Some bytes may have been written then.
  [[nodiscard]] Status Read(std::span<const Piece> pieces) const;

 private:
  uint64_t process_ = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_PEER_MEMORY_H_
