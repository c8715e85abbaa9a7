// SPDX-License-Identifier: Apache-2.0
//
// ShmLeases: what one client may be reading in the server's memory. The server end of a connection
// keeps the owners of what it sent under lease numbers; the client gives numbers back over a socket
// of their own, the lease channel. That socket is the life of the leases: it outlasts the
// connection while the client holds payload, and when it hangs up, because the client closed it or
// died, all leases end at once. So they do when the client gives back what it does not have, which
// ends the connection too. A lease that has been held for longer than max_age since it began, or
// was last renewed, ends alone, and so does the connection; the others stay until they are too old.
// The client is told of an end before what was lent is let go: who has read it asks its end of the
// channel afterwards, and knows whether the bytes were the right ones.
//
// Ownership: shared by the pipe and, until the last lease is over, by the loop. Thread-safety: all
// methods may be called concurrently.
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

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_loop.h"

namespace quire {

/// What the connections of a listener hold together, and what they have sent.
struct ShmUse {
  std::atomic<uint64_t> connections{0};
  std::atomic<uint64_t> leased_bytes{0};  ///< In shared regions; copies are not counted.
  std::atomic<uint64_t> lent_bytes{0};    ///< Payload in all that was sent in place.
  std::atomic<uint64_t> copied_bytes{0};  ///< And by copies: to copy-out memory or to the socket.
};

class ShmLeases final : public ShmLoop::Handler, public std::enable_shared_from_this<ShmLeases> {
 public:
  struct Limits {
    uint64_t max_bytes = 0;
    Duration max_age = Duration::zero();
  };
  /// Of one frame.
  struct Lease {
    Payload payload;  ///< Slices in shared regions.
    ShmCopyOut::Block copies;
  };
  /// Called by the loop's thread when the connection must end because of its leases.
  using OnBroken = std::function<void(const Status&)>;

  /// Opens a lease channel. `*client_end` is to be sent to the client.
  static StatusOr<std::shared_ptr<ShmLeases>> Open(ShmLoop* loop, const Limits& limits,
                                                   std::shared_ptr<ShmUse> use, OnBroken on_broken,
                                                   UniqueFd* client_end);
  ~ShmLeases() override;

  /// A number for a lease of `bytes` bytes; 0 when that would be more than the client may hold, or
  /// its channel is closed.
  [[nodiscard]] uint64_t Reserve(uint64_t bytes);
  /// Keeps `lease` until the client gives back its number.
  void Fill(uint64_t number, Lease lease);
  /// Ends a lease whose frame was not sent.
  void Drop(uint64_t number);
  /// The connection has ended: leases that are held stay until they are given back, the channel
  /// hangs up, or the oldest is too old.
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
  /// Takes out what is too old, and says so in `*words`; when to look again.
  TimePoint TakeTooOld(TimePoint now, Table* over, std::vector<uint64_t>* words)
      QUIRE_REQUIRES(mutex_);

  ShmLeases(ShmLoop* loop, const Limits& limits, std::shared_ptr<ShmUse> use, OnBroken on_broken,
            UniqueFd channel);
  /// Takes what the client says; false when it speaks of a lease that it does not have.
  bool Take(std::span<const uint64_t> words);
  /// False when one of `numbers` is not held.
  bool Release(std::span<const uint64_t> numbers);
  /// False when `number` was never the client's.
  bool Renew(uint64_t number);
  /// Tells the client; false when it cannot be told now.
  bool Say(std::span<const uint64_t> words) const;
  void EndAll();

  ShmLoop* const loop_;
  const Limits limits_;
  const std::shared_ptr<ShmUse> use_;
  const OnBroken on_broken_;
  const UniqueFd channel_;

  Mutex mutex_;
  ShmLoop::Token token_ QUIRE_GUARDED_BY(mutex_) = 0;
  Table held_ QUIRE_GUARDED_BY(mutex_);
  std::set<uint64_t> ended_early_ QUIRE_GUARDED_BY(mutex_);  // Those will be given back, too.
  uint64_t bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t next_number_ QUIRE_GUARDED_BY(mutex_) = 1;
  bool deadline_set_ QUIRE_GUARDED_BY(mutex_) = false;
  bool orphaned_ QUIRE_GUARDED_BY(mutex_) = false;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LEASES_H_
