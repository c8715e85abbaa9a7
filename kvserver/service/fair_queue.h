// SPDX-License-Identifier: Apache-2.0
//
// FairQueue: who is next among the waiting calls of several tenants, by deficit round robin. Each
// round gives every tenant that waits the same quantum of cost to spend on its calls, the urgent
// ones first (urgent_queue.h: none of them waits for ever); what a call turned out to cost beyond
// its estimate is owed and taken off the next rounds. So tenants that wait share the server evenly
// by cost, however many calls each of them sends and however urgent it says they are, and a call
// waits for a bounded number of rounds and for the more urgent calls of its own tenant.
//
// A pure policy: no threads, no clock. Thread-safety: none; Admission holds its mutex.
#ifndef QUIRE_KVSERVER_SERVICE_FAIR_QUEUE_H_
#define QUIRE_KVSERVER_SERVICE_FAIR_QUEUE_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/urgent_queue.h"

namespace quire::kvserver {

class FairQueue {
 public:
  using Ticket = uint64_t;
  struct Options {
    uint32_t max_per_tenant = 32;  ///< Calls of a tenant that wait.
    int64_t quantum = 256 << 10;   ///< Of cost, in bytes; at least 1.
    int64_t max_cost =
        16 << 20;  ///< Of one call, and of a tenant's debt; larger ones count as this.
  };
  explicit FairQueue(const Options& options) : options_(options) {}

  /// Whether `tenant` may have one more call waiting.
  bool HasRoom(std::string_view tenant) const;
  /// The call waits from now on. REQUIRES: HasRoom(tenant), and `ticket` does not wait.
  void Push(std::string_view tenant, Ticket ticket, uint64_t cost,
            Priority priority = Priority::kNormal);
  /// The call that is to run next does not wait any more; nullopt when none waits.
  std::optional<Ticket> Pop();
  /// A call gave up. REQUIRES: it waits.
  void Remove(std::string_view tenant, Ticket ticket);
  /// The tenant's call that would be served last does not wait any more; nullopt when none is less
  /// urgent than `priority`.
  std::optional<Ticket> Displace(std::string_view tenant, Priority priority);
  /// A call of `tenant` cost that much more than was said. Only counts while calls wait: what
  /// nobody else wanted is nobody's debt.
  void Charge(std::string_view tenant, uint64_t cost);

  size_t size() const { return size_; }
  size_t size(std::string_view tenant) const;
  /// Tenants that have calls waiting.
  size_t tenants() const { return round_.size(); }

 private:
  struct Entry {
    Ticket ticket;
    int64_t cost = 0;
    bool operator==(const Entry& other) const { return ticket == other.ticket; }
  };
  struct Tenant {
    UrgentQueue<Entry> calls;
    int64_t credit = 0;    ///< Left of its quanta; negative when it owes.
    bool granted = false;  ///< It has this round's quantum.
  };

  int64_t Clamped(uint64_t cost) const;
  Tenant& Of(std::string_view tenant);
  /// A call of the tenant has gone. After its last one it takes no turns, and credit that it has
  /// not used is not saved up.
  void OnGone(Tenant& tenant);

  const Options options_;
  std::map<std::string, Tenant, std::less<>> tenants_;  ///< Configured ones, so it is bounded.
  std::list<Tenant*> round_;  ///< Tenants that have calls waiting; the front one is being served.
  size_t size_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_FAIR_QUEUE_H_
