// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: renews the leases of the contexts, sessions and ingests that a client holds. They
// stay alive while their owner computes between two calls, and end soon after its process. One call
// renews all of them, about six times in a lease, from a thread that starts with the first.
//
// A failed renewal is left to the next one. If the lease has ended on the server, the owner's next
// call gets NOT_FOUND, and the owner reopens. Thread-safety: safe for concurrent use. Ownership:
// the transport is shared; what Keep returns may outlive the keeper.
#ifndef QUIRE_CLIENT_DATA_LEASE_KEEPER_H_
#define QUIRE_CLIENT_DATA_LEASE_KEEPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class LeaseKeeper {
 public:
  enum class Kind : uint8_t { kContext, kSession, kIngest };
  static constexpr size_t kKinds = 3;
  /// Keeps one lease alive: its renewals end with the last copy.
  using Kept = std::shared_ptr<const void>;

  /// Calls go out as `tenant`'s.
  LeaseKeeper(std::shared_ptr<Transport> transport, std::string tenant)
      : transport_(std::move(transport)), tenant_(std::move(tenant)) {}
  /// Does not wait for the server.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  /// Renews the lease of what was just opened. Null when `lease` is not
  /// positive, as from a server that has none.
  [[nodiscard]] Kept Keep(Kind kind, uint64_t id, Duration lease) QUIRE_EXCLUDES(mutex_);

  /// Renews everything once, waiting until the answers are there or `timeout` has passed. Leases
  /// that the server says are gone are not renewed again. The thread calls it.
  Status Renew(Duration timeout) QUIRE_EXCLUDES(mutex_);

 private:
  using Ids = std::set<uint64_t>;
  /// Ids whose leases are renewed, shared with what Keep has returned.
  struct Held {
    Mutex mutex;
    std::array<Ids, kKinds> ids QUIRE_GUARDED_BY(mutex);
    Ids& Of(Kind kind) QUIRE_REQUIRES(mutex) { return ids[static_cast<size_t>(kind)]; }
    std::vector<uint64_t> Copy(Kind kind) QUIRE_EXCLUDES(mutex);
    void Remove(Kind kind, uint64_t id) QUIRE_EXCLUDES(mutex);
  };
  class Call;

  void Run() QUIRE_EXCLUDES(mutex_);
  /// Waits until the next renewal is due; false when the keeper goes.
  bool WaitForNext() QUIRE_EXCLUDES(mutex_);
  /// Ids of each kind, at most as many as one call may have.
  using Batch = std::array<std::vector<uint64_t>, kKinds>;
  Status RenewSome(const Batch& batch, Duration timeout) QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<Transport> transport_;
  const std::string tenant_;
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  Mutex mutex_;  ///< Not taken together with that of `held_`.
  CondVar changed_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  Duration period_ QUIRE_GUARDED_BY(mutex_) =
      Duration::max();  ///< Period that suits the shortest lease so far.
  PendingCall* under_way_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DATA_LEASE_KEEPER_H_
