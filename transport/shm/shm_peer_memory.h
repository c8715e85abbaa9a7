// SPDX-License-Identifier: Apache-2.0
//
// ShmPeerMemory: memory of the peer, as frames name it. Thread-safety: as the implementation says.
#ifndef QUIRE_TRANSPORT_SHM_SHM_PEER_MEMORY_H_
#define QUIRE_TRANSPORT_SHM_SHM_PEER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "quire/payload_lease.h"
#include "quire/status.h"
#include "transport/shm/shm_wire.h"

namespace quire {

class ShmPeerMemory {
 public:
  virtual ~ShmPeerMemory() = default;
  /// The owner of the payload that a frame lent. INVALID_ARGUMENT for a lease that cannot be given.
  [[nodiscard]] virtual StatusOr<std::shared_ptr<PayloadLease>> Borrow(uint64_t lease) = 0;
  /// The bytes of a descriptor in a region; empty when out of range.
  virtual std::span<const std::byte> Bytes(const ShmDescriptor& slice) const = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_PEER_MEMORY_H_
