// SPDX-License-Identifier: Apache-2.0
//
// OwnedMemory: memory for units to land in, and the owner that keeps it alive. Thread-safety: a
// value; the bytes have none.
#ifndef QUIRE_TRANSPORT_OWNED_MEMORY_H_
#define QUIRE_TRANSPORT_OWNED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

namespace quire {

struct OwnedMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_OWNED_MEMORY_H_
