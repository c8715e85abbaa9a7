// SPDX-License-Identifier: Apache-2.0
//
// ShmBorrower: the client end of leases: the server's memory that is mapped, and the way back of
// what was lent. Whoever holds a borrowed owner keeps both; the connection may be over. A lease is
// given back where its last owner is dropped, a frame at a time. While the server does not read
// what comes back that waits, a second at most; then it is left to the server to end the lease.
//
// Thread-safety: leases may be dropped on any thread; the rest belongs to one thread.
#ifndef QUIRE_COMMON_TRANSPORT_SHM_BORROWER_H_
#define QUIRE_COMMON_TRANSPORT_SHM_BORROWER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/shared_memory.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/shm_wire.h"

namespace quire {

class ShmBorrower : public std::enable_shared_from_this<ShmBorrower> {
 public:
  /// INVALID_ARGUMENT when there is one, or is no socket.
  [[nodiscard]] Status SetChannel(UniqueFd channel);
  /// Maps a region. INVALID_ARGUMENT when the number is taken; errors of ReadOnlyMapping.
  [[nodiscard]] Status AddRegion(uint16_t number, UniqueFd fd, uint64_t bytes);

  /// Owns what a frame lent. INVALID_ARGUMENT when there is no channel.
  [[nodiscard]] StatusOr<std::shared_ptr<const void>> Borrow(uint64_t lease);
  /// The bytes of a descriptor in a region; empty when there are none.
  std::span<const std::byte> Bytes(const ShmDescriptor& slice) const;

 private:
  class Loan;

  void GiveBack(uint64_t lease);
  void Send(std::span<const uint64_t> leases) const;

  UniqueFd channel_;
  std::array<std::unique_ptr<ReadOnlyMapping>, kMaxShmRegions + 1> regions_;  // By number.

  Mutex mutex_;
  bool sending_ QUIRE_GUARDED_BY(mutex_) = false;           // Some thread is.
  std::vector<uint64_t> pending_ QUIRE_GUARDED_BY(mutex_);  // To be sent.
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_SHM_BORROWER_H_
