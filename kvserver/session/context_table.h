// SPDX-License-Identifier: Apache-2.0
//
// ContextTable: the open contexts of all tenants, bounded in number and in bytes held in memory.
// A context lives for as long as its lease is renewed (tenant_table.h); what it stored stays,
// unless it is private. Over a bound, contexts that were left idle go before anything is refused.
// Thread-safety: safe for concurrent use. Ownership: the store and the kernels outlive it.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_TABLE_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_TABLE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/session/memory_budget.h"
#include "kvserver/session/open_context.h"
#include "kvserver/session/tenant_table.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

/// How a context's segments are stored: see OpenContext::Deps.
struct ContextStorage {
  CodecParams codec = {};
  bool private_pages = false;
  bool strict = false;
};

class ContextTable {
 public:
  struct Options {
    uint32_t max_contexts_per_tenant = 64;
    uint64_t max_bytes_per_tenant = uint64_t{1} << 30;  ///< Pages not yet stored.
    Duration lease = std::chrono::seconds(30);          ///< Of a context, without a sign of life.
    PageStore* store = nullptr;                         ///< Required.
    const kernels::KernelTable* ops = nullptr;          ///< Required.
    Clock* clock = nullptr;                             ///< Required.
  };
  explicit ContextTable(const Options& options);

  struct Opened {
    uint64_t id = 0;
    std::shared_ptr<OpenContext> context;
  };
  /// Opens a context, continuing `chain` when it is not null: its spec must be `spec`
  /// (INVALID_ARGUMENT names the difference). RESOURCE_EXHAUSTED over a limit when none of the
  /// tenant's contexts is idle.
  [[nodiscard]] StatusOr<Opened> Open(std::string_view tenant, const KvSpec& spec,
                                      const ContextViewPtr& chain,
                                      const ContextStorage& storage = {});
  /// An open context, or one sealed a little while ago. NOT_FOUND otherwise.
  [[nodiscard]] StatusOr<std::shared_ptr<OpenContext>> Find(std::string_view tenant, uint64_t id);
  /// Renews leases of open contexts; the ids of which there are none any more, in order.
  [[nodiscard]] std::vector<uint64_t> Renew(std::string_view tenant,
                                            std::span<const uint64_t> ids) {
    return open_.Renew(tenant, ids);
  }
  Duration lease() const { return options_.lease; }
  /// The contexts that are open now, of all tenants, for what looks after their pages.
  std::vector<std::shared_ptr<OpenContext>> OpenOnes() const { return open_.All(); }
  /// Ends open contexts whose lease has run out.
  void RemoveExpired() { open_.RemoveExpired(); }
  /// The context was sealed: it no longer counts as open. The tenant's last ones, as many as it may
  /// have open, stay known to Find, so that a seal whose reply was lost can be repeated; so do
  /// those whose client may still name them, kMostToBeNamed times as many.
  void Retire(std::string_view tenant, uint64_t id);
  /// The tenant's chain that ends with `tip` has a name now: its sealed contexts need not hold it.
  void Named(std::string_view tenant, const SegmentKey& tip);
  /// A sealed context holds its segments for this long, in which its client may name them.
  static constexpr Duration kNamingTime = std::chrono::seconds(30);
  static constexpr size_t kMostToBeNamed = 16;
  /// Has sealed contexts whose time is over let go.
  void LetGoUnnamed();
  /// Forgets a context; false when there was none.
  bool Drop(std::string_view tenant, uint64_t id);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct Sealed {
    uint64_t id = 0;
    std::shared_ptr<OpenContext> context;
    TimePoint holds_until;  ///< TimePoint::max(): it does not hold its segments any more.
  };
  using SealedWanted = std::function<bool(const Sealed&)>;
  /// Has those sealed contexts of `known` let go that hold segments and `wanted` agrees to.
  static std::vector<std::shared_ptr<OpenContext>> TakeHolders(std::deque<Sealed>& known,
                                                               const SealedWanted& wanted);
  std::shared_ptr<MemoryBudget> BudgetOf(std::string_view tenant) QUIRE_EXCLUDES(mutex_);

  const Options options_;
  TenantTable<OpenContext> open_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryBudget>, std::less<>> budgets_
      QUIRE_GUARDED_BY(mutex_);
  /// By tenant, oldest first, bounded for each.
  std::map<std::string, std::deque<Sealed>, std::less<>> sealed_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_TABLE_H_
