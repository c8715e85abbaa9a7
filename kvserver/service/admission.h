// SPDX-License-Identifier: Apache-2.0
//
// Admission: the door of the server. So many calls run at a time; further ones wait, each tenant's
// in a bounded queue of its own, and are let in fairly, urgent ones first (fair_queue.h). A call
// over its tenant's bound is refused at once and told when to come back, unless a less urgent one
// waits, which is refused in its stead; one whose deadline passes
// in the queue leaves it.
//
// Thread-safety: all methods may be called concurrently. No lock is held while a call runs.
// Errors: RESOURCE_EXHAUSTED with a retry hint, DEADLINE_EXCEEDED.
#ifndef QUIRE_KVSERVER_SERVICE_ADMISSION_H_
#define QUIRE_KVSERVER_SERVICE_ADMISSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/service/fair_queue.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::kvserver {

class Admission {
 public:
  struct Options {
    std::string door;           ///< For metrics and messages: "read".
    uint32_t max_running = 64;  ///< At least 1.
    uint32_t max_queued_per_tenant = 32;
  };
  class Pass;

  explicit Admission(const Options& options)
      : options_(options), queue_({.max_per_tenant = options.max_queued_per_tenant}) {}

  /// A pass, once the call may run; it runs until the pass ends. `cost` is what is known of it, in
  /// bytes; `deadline` is on SystemClock(); `priority` counts among the calls of the tenant. A call
  /// that is cancelled while it waits is CANCELLED soon after. The admission outlives its passes.
  [[nodiscard]] StatusOr<Pass> Enter(std::string_view tenant, uint64_t cost, TimePoint deadline,
                                     Priority priority = Priority::kNormal,
                                     const CancelFlag* cancelled = nullptr);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A call in the queue; it lives on its caller's stack.
  struct Waiter {
    bool admitted = false;
    bool displaced = false;  ///< A more urgent call has its place in the queue.
    CondVar changed;
  };
  struct Totals {
    uint64_t refused = 0;
    uint64_t expired = 0;
  };

  Totals& TotalsOf(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  Status Wait(std::string_view tenant, uint64_t cost, TimePoint deadline, Priority priority,
              const CancelFlag* cancelled) QUIRE_REQUIRES(mutex_);
  /// Makes room in the tenant's queue; false when there is none for a call of this urgency.
  bool MakeRoom(std::string_view tenant, Priority priority) QUIRE_REQUIRES(mutex_);
  Status Refused(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  /// How long the tenant's queue takes to drain at the pace of recent calls.
  Duration DrainTime(std::string_view tenant) const QUIRE_REQUIRES(mutex_);
  void Leave(std::string_view tenant, TimePoint start, uint64_t extra_cost);
  void StepOut();
  void StepIn();
  /// Gives a place to the next call that waits.
  void FreePlace() QUIRE_REQUIRES(mutex_);

  const Options options_;
  LatencyHistogram waits_;
  mutable Mutex mutex_;
  FairQueue queue_ QUIRE_GUARDED_BY(mutex_);
  std::map<FairQueue::Ticket, Waiter*> waiters_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, Totals, std::less<>> totals_ QUIRE_GUARDED_BY(mutex_);
  FairQueue::Ticket next_ticket_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t running_ QUIRE_GUARDED_BY(mutex_) = 0;
  Duration mean_run_ QUIRE_GUARDED_BY(mutex_){0};  ///< Moving average.
};

/// Leave to run. Movable; belongs to one thread.
class Admission::Pass {
 public:
  ~Pass() {
    if (admission_ != nullptr) admission_->Leave(tenant_, start_, extra_cost_);
  }
  Pass(Pass&& other) noexcept
      : admission_(std::exchange(other.admission_, nullptr)),
        tenant_(std::move(other.tenant_)),
        start_(other.start_),
        extra_cost_(other.extra_cost_) {}
  Pass& operator=(Pass&&) = delete;

  /// Runs `wait`, in which the call waits for others and does no work, and lets another call run
  /// meanwhile. Afterwards the call goes on at once, also when all places are taken by then: it is
  /// done sooner than one that has not begun.
  template <typename Wait>
  auto Outside(const Wait& wait) {
    admission_->StepOut();
    auto result = wait();
    admission_->StepIn();
    return result;
  }

  /// What the call cost beyond what was said when it entered.
  void AddCost(uint64_t bytes) { extra_cost_ += bytes; }

 private:
  friend class Admission;
  Pass(Admission* admission, std::string_view tenant, TimePoint start)
      : admission_(admission), tenant_(tenant), start_(start) {}

  Admission* admission_;
  std::string tenant_;
  const TimePoint start_;
  uint64_t extra_cost_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADMISSION_H_
