// SPDX-License-Identifier: Apache-2.0
//
// ShmClientMemory: the server's end of payload that a client lends. The client copies a large
// payload into a region of its own, sealed so that it cannot shrink, and names it in the frame. The
// server maps the region and hands the bytes to its handler, with a lease: the client could change
// them while they are read. A lease that is dropped is named to the client with the server's next
// frame, so that its place is used again.
//
// Ownership: leases keep the mapping. Thread-safety: leases may be dropped on any thread, and
// TakeReturned called on any; the rest belongs to one thread.
#ifndef QUIRE_TRANSPORT_SHM_SHM_CLIENT_MEMORY_H_
#define QUIRE_TRANSPORT_SHM_SHM_CLIENT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "transport/shm/shm_peer_memory.h"

namespace quire {

class ShmClientMemory final : public ShmPeerMemory {
 public:
  /// Maps the client's region. INVALID_ARGUMENT when there is one, or the file is unsuitable.
  [[nodiscard]] Status SetRegion(UniqueFd fd, uint64_t bytes);

  [[nodiscard]] StatusOr<std::shared_ptr<PayloadLease>> Borrow(uint64_t lease) override;
  std::span<const std::byte> Bytes(const ShmDescriptor& slice) const override;

  /// Leases that were dropped since the last call.
  std::vector<uint64_t> TakeReturned();

 private:
  class Loan;

  /// Shared with the leases, which may outlive the connection.
  struct State {
    std::unique_ptr<ReadOnlyMapping> region;  ///< Constant once it is set.
    Mutex mutex;
    std::vector<uint64_t> returned QUIRE_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_CLIENT_MEMORY_H_
