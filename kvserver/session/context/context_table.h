// SPDX-License-Identifier: Apache-2.0
//
// ContextTable: the open contexts of all tenants, bounded in number and in bytes in memory. A
// context lives while its lease is renewed (tenant_table.h). Its stored segments stay, unless it is
// private. Over a bound, idle contexts end before a refusal. Thread-safety: safe for concurrent
// use. Ownership: the store and the kernels outlive it.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_TABLE_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_TABLE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/session/context/memory_budget.h"
#include "kvserver/session/context/open_context.h"
#include "kvserver/session/context/tenant_table.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Storage of a context's segments; see OpenContext::Deps.
struct ContextStorage {
  CodecParams codec = {};
  bool private_pages = false;
  bool strict = false;
  Hints hints = {};
};

class ContextTable {
 public:
  struct Options {
    uint32_t max_contexts_per_tenant = 64;
    uint64_t max_bytes_per_tenant = uint64_t{1} << 30;  ///< Limit of pages not yet stored.
    Duration lease = std::chrono::seconds(30);          ///< Lease of a context.
    PageStore* store = nullptr;                         ///< Required.
    const kernels::KernelTable* ops = nullptr;          ///< Required.
    Clock* clock = nullptr;                             ///< Required.
  };
  explicit ContextTable(const Options& options);

  struct Opened {
    uint64_t id = 0;
    std::shared_ptr<OpenContext> context;
  };
  /// Opens a context, which continues `chain` unless null; its spec must be `spec`
  /// (INVALID_ARGUMENT names the difference). RESOURCE_EXHAUSTED over a limit when none of the
  /// tenant's contexts is idle.
  [[nodiscard]] StatusOr<Opened> Open(std::string_view tenant, const KvSpec& spec,
                                      const ContextViewPtr& chain,
                                      const ContextStorage& storage = {});
  /// Returns an open context, or one sealed recently. NOT_FOUND otherwise.
  [[nodiscard]] StatusOr<std::shared_ptr<OpenContext>> Find(std::string_view tenant, uint64_t id);
  /// Renews leases of open contexts. Returns the ids that are gone, in order.
  [[nodiscard]] std::vector<uint64_t> Renew(std::string_view tenant,
                                            std::span<const uint64_t> ids) {
    return open_.Renew(tenant, ids);
  }
  Duration lease() const { return options_.lease; }
  /// All open contexts of all tenants, for the scrub of their pages.
  std::vector<std::shared_ptr<OpenContext>> OpenOnes() const { return open_.All(); }
  /// Ends open contexts whose lease has run out.
  void RemoveExpired() { open_.RemoveExpired(); }
  /// Ends the open state of a sealed context. Find still returns the tenant's last sealed ones, so
  /// that a seal with a lost reply can be repeated. It keeps as many as the tenant may have open.
  /// It also keeps those that may still be named, kMostToBeNamed times as many.
  void Retire(std::string_view tenant, uint64_t id);
  /// Releases the holds of a sealed context whose chain ends with `tip`, and has a name now. Other
  /// contexts with this chain hold it on: their clients name it, too. Ignores an unknown one.
  void Named(std::string_view tenant, uint64_t id, const SegmentKey& tip);
  /// Time that a sealed context holds its segments for its client to name them.
  static constexpr Duration kNamingTime = std::chrono::seconds(30);
  static constexpr size_t kMostToBeNamed = 16;
  /// Releases the holds of sealed contexts after that time.
  void ReleaseUnnamed();
  /// Drops a context. Returns false when there was none.
  bool Drop(std::string_view tenant, uint64_t id);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct Sealed {
    uint64_t id = 0;
    std::shared_ptr<OpenContext> context;
    TimePoint holds_until;  ///< TimePoint::max(): it no longer holds its segments.
  };
  using SealedWanted = std::function<bool(const Sealed&)>;
  /// Removes the sealed contexts from `known` that hold segments and that `wanted` accepts, and
  /// returns them.
  static std::vector<std::shared_ptr<OpenContext>> TakeHolders(std::deque<Sealed>& known,
                                                               const SealedWanted& wanted);
  std::shared_ptr<MemoryBudget> BudgetOf(std::string_view tenant) QUIRE_EXCLUDES(mutex_);

  const Options options_;
  TenantTable<OpenContext> open_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryBudget>, std::less<>> budgets_
      QUIRE_GUARDED_BY(mutex_);
  /// By tenant, oldest first, bounded for each tenant.
  std::map<std::string, std::deque<Sealed>, std::less<>> sealed_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_TABLE_H_
