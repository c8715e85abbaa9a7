// SPDX-License-Identifier: Apache-2.0
//
// ShmBorrower: the client end of leases. It holds the mapped memory of the server and the channel
// on which leases are released. A borrowed owner keeps both, also after the connection has ended. A
// lease is released, one frame at a time, when its last owner is dropped. While the server does not
// read releases, sending one waits, for a second at most. After that the server ends the lease
// itself.
//
// The server reports an ended lease on the same channel before it reuses the memory. IsValid
// reads all reports received so far.
//
// Thread-safety: leases may be dropped, checked and renewed on any thread; the rest belongs to one
// thread.
#ifndef QUIRE_TRANSPORT_SHM_SHM_BORROWER_H_
#define QUIRE_TRANSPORT_SHM_SHM_BORROWER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/payload_lease.h"
#include "quire/status.h"
#include "transport/shm/shm_peer_memory.h"
#include "transport/shm/shm_wire.h"

namespace quire {

class ShmBorrower final : public ShmPeerMemory, public std::enable_shared_from_this<ShmBorrower> {
 public:
  /// Sets the channel of leases that last for `duration`. INVALID_ARGUMENT when there already is a
  /// channel, or `channel` is no socket.
  [[nodiscard]] Status SetChannel(UniqueFd channel, Duration duration);
  /// Maps a region. INVALID_ARGUMENT when the number is in use; errors of ReadOnlyMapping.
  [[nodiscard]] Status AddRegion(uint16_t number, UniqueFd fd, uint64_t bytes);

  /// Returns the owner of the payload that a frame lent. INVALID_ARGUMENT when there is no channel,
  /// or the lease is already borrowed.
  [[nodiscard]] StatusOr<std::shared_ptr<PayloadLease>> Borrow(uint64_t lease) override
      QUIRE_EXCLUDES(reports_mutex_);
  std::span<const std::byte> Bytes(const ShmDescriptor& slice) const override;

 private:
  class Loan;

  /// State of a borrowed lease as the server reported it.
  struct Reported {
    bool ended = false;
    uint64_t renewals = 0;
    uint64_t refusals = 0;
  };

  void GiveBack(uint64_t lease);
  void Send(std::span<const uint64_t> words) const;
  bool IsValid(uint64_t lease) QUIRE_EXCLUDES(reports_mutex_);
  Status Renew(uint64_t lease, Duration timeout) QUIRE_EXCLUDES(reports_mutex_);
  /// Reads the server's reports without waiting. Returns the state of `lease` after them.
  Reported ReadReports(uint64_t lease) QUIRE_EXCLUDES(reports_mutex_);
  void ApplyReports(std::span<const uint64_t> words) QUIRE_REQUIRES(reports_mutex_);

  UniqueFd channel_;
  Duration duration_ = Duration::zero();
  std::array<std::unique_ptr<ReadOnlyMapping>, kMaxShmRegions + 1> regions_;  // By number.

  Mutex reports_mutex_;
  /// Set when the server's reports of ended leases can no longer be received.
  bool reports_lost_ QUIRE_GUARDED_BY(reports_mutex_) = false;
  std::map<uint64_t, Reported> reported_ QUIRE_GUARDED_BY(reports_mutex_);  ///< By lease number.
  /// Ended leases that are not borrowed: their frames are still in flight, or they were being
  /// released.
  std::set<uint64_t> ended_elsewhere_ QUIRE_GUARDED_BY(reports_mutex_);

  Mutex mutex_;
  bool sending_ QUIRE_GUARDED_BY(mutex_) = false;           // True while a thread sends.
  std::vector<uint64_t> pending_ QUIRE_GUARDED_BY(mutex_);  // Words to send.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_BORROWER_H_
