// SPDX-License-Identifier: Apache-2.0
//
// IoGate: what keeps a slow SSD from taking every thread of the server. A call that has to read
// from the SSD enters the gate first; calls that DRAM answers never come near it. A few calls are
// inside, a few more wait, each tenant has at most its share of both, and whoever finds no place is
// refused at once. Tenants come in in the order in which their calls arrived; which of its own
// calls goes is decided by their urgency, and none is overtaken for ever (urgent_queue.h). Where
// all places to wait are taken, an urgent call takes that of the tenant's least urgent one, which
// is refused instead. As long as the places of the gate are fewer than the calls that the server
// runs, some are left for calls that need no SSD, also while the device hangs.
//
// Thread-safety: all methods may be called concurrently. No lock is held while a call is inside.
// Errors: RESOURCE_EXHAUSTED with a retry hint.
#ifndef QUIRE_KVSERVER_STORE_IO_GATE_H_
#define QUIRE_KVSERVER_STORE_IO_GATE_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/urgent_queue.h"
#include "quire/clock.h"
#include "quire/priority.h"
#include "quire/status.h"

namespace quire::kvserver {

class IoGate {
 public:
  struct Options {
    uint32_t max_inside = 64;
    uint32_t max_waiting = 256;
    /// Places that one tenant may have, inside and waiting alike; at least 1.
    uint32_t max_inside_per_tenant = 64;
    uint32_t max_waiting_per_tenant = 256;
    Duration max_wait = std::chrono::seconds(10);  ///< After it a waiting call is refused.
  };
  class Pass;

  explicit IoGate(const Options& options) : options_(options) {}

  /// A pass, once there is room; it is inside until the pass ends. The gate outlives its passes.
  [[nodiscard]] StatusOr<Pass> Enter(std::string_view tenant,
                                     Priority priority = Priority::kNormal);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A call in the queue; it lives on its caller's stack.
  struct Waiter {
    bool admitted = false;
    bool displaced = false;  ///< A more urgent call has its place.
    CondVar changed;
  };
  struct Share {
    uint32_t inside = 0;
    UrgentQueue<Waiter*> waiting;
  };

  bool HasRoom(const Share& share) const QUIRE_REQUIRES(mutex_);
  Status Wait(Share& share, Priority priority) QUIRE_REQUIRES(mutex_);
  /// Makes room for a call that waits; why there is none.
  Status MakeRoom(Share& share, Priority priority) QUIRE_REQUIRES(mutex_);
  /// A call of the tenant waits no more, without having been let in.
  void GiveBackTurn(Share& share) QUIRE_REQUIRES(mutex_);
  Status Refused(std::string_view reason) QUIRE_REQUIRES(mutex_);
  void AdmitWaiting() QUIRE_REQUIRES(mutex_);
  void Leave(Share& share);

  const Options options_;
  mutable Mutex mutex_;
  /// Tenants are configured, so this is bounded; shares stay where they are.
  std::map<std::string, Share, std::less<>> shares_ QUIRE_GUARDED_BY(mutex_);
  /// Whose turn it is: a tenant once for each of its calls that wait, in order of their arrival.
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

#endif  // QUIRE_KVSERVER_STORE_IO_GATE_H_
