// SPDX-License-Identifier: Apache-2.0
//
// FairQueue: the order of waiting calls of several tenants, by deficit round robin. Each round
// gives every waiting tenant the same quantum of cost for its calls, urgent ones first and none
// starving (urgent_queue.h). Cost beyond a call's estimate is debt, taken off the next rounds.
// Waiting tenants thus share the server evenly by cost, whatever the number and priority of their
// calls. A call waits for a bounded number of rounds and for more urgent calls of its own tenant.
//
// A pure policy: no threads, no clock. Thread-safety: none; Admission holds its mutex.
#ifndef QUIRE_KVSERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_
#define QUIRE_KVSERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/threads/urgent_queue.h"

namespace quire::kvserver {

class FairQueue {
 public:
  using Ticket = uint64_t;
  struct Options {
    uint32_t max_per_tenant = 32;  ///< Waiting calls of a tenant.
    int64_t quantum = 256 << 10;   ///< Cost in bytes; at least 1.
    /// Largest cost of one call, and debt of a tenant; larger ones count as this.
    int64_t max_cost = 16 << 20;
  };
  explicit FairQueue(const Options& options) : options_(options) {}

  /// True when `tenant` may have one more waiting call.
  bool HasRoom(std::string_view tenant) const;
  /// Adds a waiting call. REQUIRES: HasRoom(tenant), and `ticket` is not in the queue.
  void Push(std::string_view tenant, Ticket ticket, uint64_t cost,
            Priority priority = Priority::kNormal);
  /// Removes and returns the next call; nullopt when none waits.
  std::optional<Ticket> Pop();
  /// Removes a call that gave up. REQUIRES: it waits.
  void Remove(std::string_view tenant, Ticket ticket);
  /// Removes the tenant's last call in order; nullopt when none is less urgent than `priority`.
  std::optional<Ticket> Displace(std::string_view tenant, Priority priority);
  /// Charges cost beyond the estimate to `tenant`. Counts only while calls wait: unwanted capacity
  /// is no debt.
  void Charge(std::string_view tenant, uint64_t cost);

  size_t size() const { return size_; }
  size_t size(std::string_view tenant) const;
  /// Number of tenants with waiting calls.
  size_t tenants() const { return round_.size(); }

 private:
  struct Entry {
    Ticket ticket;
    int64_t cost = 0;
    bool operator==(const Entry& other) const { return ticket == other.ticket; }
  };
  struct Tenant {
    UrgentQueue<Entry> calls;
    int64_t credit = 0;    ///< Remaining credit; negative for a debt.
    bool granted = false;  ///< Has this round's quantum.
  };

  int64_t Clamped(uint64_t cost) const;
  Tenant& Of(std::string_view tenant);
  /// Updates the tenant after a call has left. A tenant without calls takes no turns and keeps no
  /// unused credit.
  void OnGone(Tenant& tenant);

  const Options options_;
  std::map<std::string, Tenant, std::less<>> tenants_;  ///< Bounded by the configured tenants.
  std::list<Tenant*> round_;  ///< Tenants with waiting calls; the front one is being served.
  size_t size_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADMISSION_FAIR_QUEUE_H_
