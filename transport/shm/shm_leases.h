// SPDX-License-Identifier: Apache-2.0
//
// ShmLeases: the server memory that one client may be reading. The server end of a connection keeps
// the owners of lent payload under lease numbers. The client releases numbers over a socket of
// their own, the lease channel, which may outlive the connection.
//
// A lease ends when one of these happens:
//
// - The client releases it.
// - The channel hangs up, because the client closed it or died. All leases end.
// - The client releases a lease that it does not hold. All leases end, and so does the connection.
// - It is older than max_age since it began or was last renewed. The connection ends too; other
//   leases stay until they are too old.
//
// The client is notified before the memory of an ended lease is released. A reader that checks its
// end of the channel after reading therefore knows whether the bytes were valid.
//
// Ownership: shared by the pipe and, until the last lease ends, by the loop.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LEASES_H_
#define QUIRE_TRANSPORT_SHM_SHM_LEASES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_loop.h"

namespace quire {

/// Totals over the connections of a listener.
struct ShmUse {
  std::atomic<uint64_t> connections{0};
  std::atomic<uint64_t> leased_bytes{0};  ///< Bytes now lent in shared regions, without copies.
  std::atomic<uint64_t> lent_bytes{0};    ///< Payload bytes sent in place so far.
  /// Payload bytes copied so far, to copy-out memory or to the socket.
  std::atomic<uint64_t> copied_bytes{0};
};

class ShmLeases final : public ShmLoop::Handler, public std::enable_shared_from_this<ShmLeases> {
 public:
  struct Limits {
    uint64_t max_bytes = 0;
    Duration max_age = Duration::zero();
  };
  /// Memory lent with one frame.
  struct Lease {
    Payload payload;  ///< Slices in shared regions.
    ShmCopyOut::Block copies;
  };
  /// Called by the loop's thread when the leases require the connection to end.
  using OnBroken = std::function<void(const Status&)>;

  /// Opens a lease channel. Send `*client_end` to the client.
  static StatusOr<std::shared_ptr<ShmLeases>> Open(ShmLoop* loop, const Limits& limits,
                                                   std::shared_ptr<ShmUse> use, OnBroken on_broken,
                                                   UniqueFd* client_end);
  ~ShmLeases() override;

  /// Returns a number for a lease of `bytes` bytes; 0 when the client would exceed its limit, or
  /// its channel is closed.
  [[nodiscard]] uint64_t Reserve(uint64_t bytes);
  /// Keeps `lease` until the client releases its number.
  void Fill(uint64_t number, Lease lease);
  /// Ends a lease whose frame was not sent.
  void Drop(uint64_t number);
  /// Ends the connection's share. Leases stay until they are released, the channel hangs up, or
  /// they are too old.
  void Orphan();

  void OnReady(uint32_t events) override;
  void OnDeadline(TimePoint now) override;

 private:
  struct Held {
    Lease lease;
    uint64_t bytes;
    TimePoint since;
  };
  using Table = std::map<uint64_t, Held>;
  /// Removes leases that are too old and appends the reports of their end to `*words`. Returns when
  /// to check again.
  TimePoint TakeExpired(TimePoint now, Table* over, std::vector<uint64_t>* words)
      QUIRE_REQUIRES(mutex_);

  ShmLeases(ShmLoop* loop, const Limits& limits, std::shared_ptr<ShmUse> use, OnBroken on_broken,
            UniqueFd channel);
  /// Handles words from the client; false when one names a lease that it does not hold.
  bool Take(std::span<const uint64_t> words);
  /// False when one of `numbers` is not held.
  bool Release(std::span<const uint64_t> numbers);
  /// False when the client never held `number`.
  bool Renew(uint64_t number);
  /// Sends words to the client; false when the channel has no room now.
  bool SendWords(std::span<const uint64_t> words) const;
  void EndAll();

  ShmLoop* const loop_;
  const Limits limits_;
  const std::shared_ptr<ShmUse> use_;
  const OnBroken on_broken_;
  const UniqueFd channel_;

  Mutex mutex_;
  ShmLoop::Token token_ QUIRE_GUARDED_BY(mutex_) = 0;
  Table held_ QUIRE_GUARDED_BY(mutex_);
  // Ended by age; the client will release these too.
  std::set<uint64_t> ended_early_ QUIRE_GUARDED_BY(mutex_);
  uint64_t bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t next_number_ QUIRE_GUARDED_BY(mutex_) = 1;
  bool deadline_set_ QUIRE_GUARDED_BY(mutex_) = false;
  bool orphaned_ QUIRE_GUARDED_BY(mutex_) = false;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LEASES_H_
