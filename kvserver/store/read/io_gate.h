// SPDX-License-Identifier: Apache-2.0
//
// IoGate: keeps a slow SSD from taking every thread of the server. A call that reads from the SSD
// enters the gate first. Calls served from DRAM do not. The gate admits few calls, and few more
// wait. Each tenant has at most its share of both. A call without a place is refused at once.
//
// Tenants are admitted in the order in which their calls arrived. Among a tenant's calls urgency
// decides, and none starves (urgent_queue.h). When all waiting places are taken, an urgent call
// displaces the tenant's least urgent one, which is refused. The gate has fewer places than the
// server runs calls, so calls from DRAM proceed even while the device hangs.
//
// Thread-safety: all methods may be called concurrently. No lock is held while a call is inside.
// Errors: RESOURCE_EXHAUSTED with a retry hint.
#ifndef QUIRE_KVSERVER_STORE_READ_IO_GATE_H_
#define QUIRE_KVSERVER_STORE_READ_IO_GATE_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/urgent_queue.h"
#include "quire/clock.h"
#include "quire/priority.h"
#include "quire/status.h"

namespace quire::kvserver {

class IoGate {
 public:
  struct Options {
    uint32_t max_inside = 64;
    uint32_t max_waiting = 256;
    /// Most places of one tenant, inside and waiting alike; at least 1.
    uint32_t max_inside_per_tenant = 64;
    uint32_t max_waiting_per_tenant = 256;
    Duration max_wait = std::chrono::seconds(10);  ///< A call that waits longer is refused.
  };
  class Pass;

  explicit IoGate(const Options& options) : options_(options) {}

  /// Waits for a place and returns its pass. The call is inside until the pass ends. The gate
  /// outlives its passes.
  [[nodiscard]] StatusOr<Pass> Enter(std::string_view tenant,
                                     Priority priority = Priority::kNormal);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A call in the queue, on its caller's stack.
  struct Waiter {
    bool admitted = false;
    bool displaced = false;  ///< A more urgent call took its place.
    CondVar changed;
  };
  struct Share {
    uint32_t inside = 0;
    UrgentQueue<Waiter*> waiting;
  };

  bool HasRoom(const Share& share) const QUIRE_REQUIRES(mutex_);
  Status Wait(Share& share, Priority priority) QUIRE_REQUIRES(mutex_);
  /// Makes room for a waiting call. Returns an error when there is none.
  Status MakeRoom(Share& share, Priority priority) QUIRE_REQUIRES(mutex_);
  /// Removes one turn of a tenant whose call stopped waiting without admission.
  void GiveBackTurn(Share& share) QUIRE_REQUIRES(mutex_);
  Status Refused(std::string_view reason) QUIRE_REQUIRES(mutex_);
  void AdmitWaiting() QUIRE_REQUIRES(mutex_);
  void Leave(Share& share);

  const Options options_;
  mutable Mutex mutex_;
  /// Bounded by the configured tenants. Addresses of shares are stable.
  std::map<std::string, Share, std::less<>> shares_ QUIRE_GUARDED_BY(mutex_);
  /// Turns in order of arrival: one entry of its tenant for each waiting call.
  std::list<Share*> turns_ QUIRE_GUARDED_BY(mutex_);
  uint32_t inside_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ QUIRE_GUARDED_BY(mutex_) = 0;
};

/// A place inside the gate. Movable; belongs to one thread.
class IoGate::Pass {
 public:
  ~Pass() {
    if (gate_ != nullptr) gate_->Leave(*share_);
  }
  Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), share_(other.share_) {}
  Pass& operator=(Pass&&) = delete;

 private:
  friend class IoGate;
  Pass(IoGate* gate, Share* share) : gate_(gate), share_(share) {}

  IoGate* gate_;
  Share* share_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_READ_IO_GATE_H_
