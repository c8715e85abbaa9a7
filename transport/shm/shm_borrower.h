// SPDX-License-Identifier: Apache-2.0
//
// ShmBorrower: the client end of leases: the server's memory that is mapped, and the way back of
// what was lent. Whoever holds a borrowed owner keeps both; the connection may be over. A lease is
// given back where its last owner is dropped, a frame at a time. While the server does not read
// what comes back that waits, a second at most; then it is left to the server to end the lease.
//
// The server tells over the same channel which leases it has ended, before it uses their memory for
// something else; who asks a lease whether it is still good reads what has been told so far.
//
// Thread-safety: leases may be dropped, asked and renewed on any thread; the rest belongs to one
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

#include "common/base/mutex.h"
#include "common/base/shared_memory.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/payload_lease.h"
#include "quire/status.h"
#include "transport/shm/shm_wire.h"

namespace quire {

class ShmBorrower : public std::enable_shared_from_this<ShmBorrower> {
 public:
  /// A channel of leases that last for `duration`. INVALID_ARGUMENT when there is one, or is no
  /// socket.
  [[nodiscard]] Status SetChannel(UniqueFd channel, Duration duration);
  /// Maps a region. INVALID_ARGUMENT when the number is taken; errors of ReadOnlyMapping.
  [[nodiscard]] Status AddRegion(uint16_t number, UniqueFd fd, uint64_t bytes);

  /// Owns what a frame lent. INVALID_ARGUMENT when there is no channel, or is such a lease already.
  [[nodiscard]] StatusOr<std::shared_ptr<PayloadLease>> Borrow(uint64_t lease)
      QUIRE_EXCLUDES(told_mutex_);
  /// The bytes of a descriptor in a region; empty when there are none.
  std::span<const std::byte> Bytes(const ShmDescriptor& slice) const;

 private:
  class Loan;

  /// State of a borrowed lease, as the server has told it.
  struct Told {
    bool ended = false;
    uint64_t renewals = 0;
    uint64_t refusals = 0;
  };

  void GiveBack(uint64_t lease);
  void Send(std::span<const uint64_t> words) const;
  bool StillGood(uint64_t lease) QUIRE_EXCLUDES(told_mutex_);
  Status Renew(uint64_t lease, Duration timeout) QUIRE_EXCLUDES(told_mutex_);
  /// Reads what the server has said, without waiting. Returns what is then known of `lease`.
  Told Hear(uint64_t lease) QUIRE_EXCLUDES(told_mutex_);
  void HearWords(std::span<const uint64_t> words) QUIRE_REQUIRES(told_mutex_);

  UniqueFd channel_;
  Duration duration_ = Duration::zero();
  std::array<std::unique_ptr<ReadOnlyMapping>, kMaxShmRegions + 1> regions_;  // By number.

  Mutex told_mutex_;
  /// The server cannot tell any more which leases it has ended.
  bool deaf_ QUIRE_GUARDED_BY(told_mutex_) = false;
  std::map<uint64_t, Told> told_ QUIRE_GUARDED_BY(told_mutex_);  ///< By borrowed lease.
  /// Leases that ended and are not borrowed: their frames come yet, or they were on their way back.
  std::set<uint64_t> ended_elsewhere_ QUIRE_GUARDED_BY(told_mutex_);

  Mutex mutex_;
  bool sending_ QUIRE_GUARDED_BY(mutex_) = false;           // Some thread is.
  std::vector<uint64_t> pending_ QUIRE_GUARDED_BY(mutex_);  // To be sent.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_BORROWER_H_
