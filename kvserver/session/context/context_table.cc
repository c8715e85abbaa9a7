// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/context_table.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {

ContextTable::ContextTable(const Options& options)
    : options_(options),
      open_({.noun = "context",
             .option = "--max-contexts",
             .max_per_tenant = options.max_contexts_per_tenant,
             .lease = options.lease,
             .clock = options.clock}) {}

StatusOr<ContextTable::Opened> ContextTable::Open(std::string_view tenant, const KvSpec& spec,
                                                  const ContextViewPtr& chain,
                                                  const ContextStorage& storage) {
  if (chain != nullptr) {
    if (const std::string difference = FirstDifference(*chain->spec, spec); !difference.empty()) {
      return InvalidArgument("the KvSpec differs from that of the context to continue in ",
                             difference, "; read it with the model that wrote it");
    }
  }
  OpenContext::Deps deps{.tenant = std::string(tenant),
                         .store = options_.store,
                         .ops = options_.ops,
                         .budget = BudgetOf(tenant),
                         .codec = storage.codec,
                         .private_pages = storage.private_pages,
                         .strict = storage.strict,
                         .hints = storage.hints};
  QUIRE_ASSIGN_OR_RETURN(auto context, OpenContext::Create(std::move(deps), spec, chain));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t id, open_.Insert(tenant, context));
  return Opened{id, std::move(context)};
}

StatusOr<std::shared_ptr<OpenContext>> ContextTable::Find(std::string_view tenant, uint64_t id) {
  {
    MutexLock lock(mutex_);
    if (const auto known = sealed_.find(tenant); known != sealed_.end()) {
      for (const Sealed& sealed : known->second) {
        if (sealed.id == id) return sealed.context;
      }
    }
  }
  return open_.Find(tenant, id);
}

void ContextTable::Retire(std::string_view tenant, uint64_t id) {
  std::vector<std::shared_ptr<OpenContext>> forgotten;  // Released after the lock.
  MutexLock lock(mutex_);
  std::shared_ptr<OpenContext> context = open_.Remove(tenant, id);
  if (context == nullptr) return;  // Retired or dropped by another call.
  std::deque<Sealed>& known = sealed_[std::string(tenant)];
  known.push_back({id, std::move(context), options_.clock->Now() + kNamingTime});
  const size_t most = options_.max_contexts_per_tenant;
  while (known.size() > most) {
    // Contexts that may still be named stay, within their bound.
    auto goes = std::ranges::find(known, TimePoint::max(), &Sealed::holds_until);
    if (goes == known.end()) {
      if (known.size() <= most * kMostToBeNamed) break;
      goes = known.begin();
    }
    forgotten.push_back(std::move(goes->context));
    known.erase(goes);
  }
}

std::vector<std::shared_ptr<OpenContext>> ContextTable::TakeHolders(std::deque<Sealed>& known,
                                                                    const SealedWanted& wanted) {
  std::vector<std::shared_ptr<OpenContext>> holders;
  for (Sealed& sealed : known) {
    if (sealed.holds_until == TimePoint::max() || !wanted(sealed)) continue;
    sealed.holds_until = TimePoint::max();
    holders.push_back(sealed.context);
  }
  return holders;
}

void ContextTable::Named(std::string_view tenant, uint64_t id, const SegmentKey& tip) {
  std::vector<std::shared_ptr<OpenContext>> holders;
  {
    MutexLock lock(mutex_);
    const auto known = sealed_.find(tenant);
    if (known == sealed_.end()) return;
    holders = TakeHolders(known->second, [&](const Sealed& sealed) {
      return sealed.id == id && sealed.context->view()->chain_tip() == tip;
    });
  }
  for (const auto& context : holders) context->ReleaseSegments();
}

void ContextTable::ReleaseUnnamed() {
  std::vector<std::shared_ptr<OpenContext>> holders;
  {
    MutexLock lock(mutex_);
    const TimePoint now = options_.clock->Now();
    for (auto& [tenant, known] : sealed_) {
      for (auto& context :
           TakeHolders(known, [now](const Sealed& sealed) { return sealed.holds_until <= now; })) {
        holders.push_back(std::move(context));
      }
    }
  }
  for (const auto& context : holders) context->ReleaseSegments();
}

bool ContextTable::Drop(std::string_view tenant, uint64_t id) {
  if (open_.Remove(tenant, id) != nullptr) return true;
  std::shared_ptr<OpenContext> dropped;  // Released after the lock.
  MutexLock lock(mutex_);
  const auto known = sealed_.find(tenant);
  if (known == sealed_.end()) return false;
  return std::erase_if(known->second, [&](Sealed& sealed) {
           if (sealed.id == id) dropped = std::move(sealed.context);
           return sealed.id == id;
         }) > 0;
}

std::shared_ptr<MemoryBudget> ContextTable::BudgetOf(std::string_view tenant) {
  MutexLock lock(mutex_);
  auto it = budgets_.find(tenant);
  if (it == budgets_.end()) {
    auto budget = std::make_shared<MemoryBudget>(
        options_.max_bytes_per_tenant, "the tenant's open contexts", "--context-bytes",
        [this, name = std::string(tenant)] { return open_.RemoveIdle(name); });
    it = budgets_.emplace(std::string(tenant), std::move(budget)).first;
  }
  return it->second;
}

void ContextTable::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("contexts_open", "Open contexts.", open_.size());
  visit.Counter("contexts_expired", "Open contexts that ended because nobody renewed their lease.",
                open_.expired());
  visit.Counter("contexts_displaced",
                "Open contexts that were idle and ended to make room for others of their tenant.",
                open_.displaced());
  uint64_t bytes = 0;
  MutexLock lock(mutex_);
  for (const auto& [tenant, budget] : budgets_) bytes += budget->used_bytes();
  visit.Gauge("contexts_open_bytes", "Pages of open contexts that are not stored yet.", bytes);
}

}  // namespace quire::kvserver
