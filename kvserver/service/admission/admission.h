// SPDX-License-Identifier: Apache-2.0
//
// Admission: limits the calls that run at a time. Further calls wait, each tenant's in a bounded
// queue of its own, and are admitted fairly, urgent ones first (fair_queue.h). A call over its
// tenant's bound is refused at once with a retry hint, or displaces a less urgent one. A call
// leaves the queue when its deadline passes.
//
// Thread-safety: all methods may be called concurrently. No lock is held while a call runs. Errors:
// RESOURCE_EXHAUSTED with a retry hint, DEADLINE_EXCEEDED.
#ifndef QUIRE_KVSERVER_SERVICE_ADMISSION_ADMISSION_H_
#define QUIRE_KVSERVER_SERVICE_ADMISSION_ADMISSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/service/admission/fair_queue.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::kvserver {

class Admission {
 public:
  struct Options {
    std::string door;           ///< Name for metrics and messages: "read".
    uint32_t max_running = 64;  ///< At least 1.
    uint32_t max_queued_per_tenant = 32;
  };
  class Pass;

  explicit Admission(const Options& options)
      : options_(options), queue_({.max_per_tenant = options.max_queued_per_tenant}) {}

  /// Returns a pass once the call may run, until the pass ends. `cost` is its known part, in bytes.
  /// `deadline` is on SystemClock(). `priority` orders calls of the tenant. A call cancelled while
  /// it waits is CANCELLED soon after. The admission outlives its passes.
  [[nodiscard]] StatusOr<Pass> Enter(std::string_view tenant, uint64_t cost, TimePoint deadline,
                                     Priority priority = Priority::kNormal,
                                     const CancelFlag* cancelled = nullptr);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A call in the queue, on its caller's stack.
  struct Waiter {
    bool admitted = false;
    bool displaced = false;  ///< A more urgent call took its place in the queue.
    CondVar changed;
  };
  struct Totals {
    uint64_t refused = 0;
    uint64_t expired = 0;
  };

  Totals& TotalsOf(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  Status Wait(std::string_view tenant, uint64_t cost, TimePoint deadline, Priority priority,
              const CancelFlag* cancelled) QUIRE_REQUIRES(mutex_);
  /// Makes room in the tenant's queue. Returns false when there is none for this priority.
  bool MakeRoom(std::string_view tenant, Priority priority) QUIRE_REQUIRES(mutex_);
  Status Refused(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  /// Time to drain the tenant's queue at the pace of recent calls.
  Duration DrainTime(std::string_view tenant) const QUIRE_REQUIRES(mutex_);
  void Leave(std::string_view tenant, TimePoint start, uint64_t extra_cost);
  void StepOut();
  void StepIn();
  /// Gives a place to the next waiting call.
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

/// Permission to run. Movable; belongs to one thread.
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

  /// Runs `wait`, in which the call waits without working, and lets another call run meanwhile. The
  /// call continues at once afterwards, even when all places are taken: it ends sooner than a new
  /// one.
  template <typename Wait>
  auto Outside(const Wait& wait) {
    admission_->StepOut();
    auto result = wait();
    admission_->StepIn();
    return result;
  }

  /// Adds cost beyond the estimate at Enter.
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

#endif  // QUIRE_KVSERVER_SERVICE_ADMISSION_ADMISSION_H_
