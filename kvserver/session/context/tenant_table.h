// SPDX-License-Identifier: Apache-2.0
//
// TenantTable: objects that tenants open and name by a random, unguessable id, bounded per tenant.
// Each has a lease that Find and Renew renew, and ends when it runs out. The lease does not run out
// while another owner (a call, a session that reads a context) uses the object. Clients renew
// several times per lease. An object not renewed for a third of it is idle. Over the bound, the
// longest idle object ends before a refusal. An id of another tenant is NOT_FOUND, like an unknown
// one. Thread-safety: safe for concurrent use. Ownership: shared; an object removed while in use
// lives until that use ends.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_TENANT_TABLE_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_TENANT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

template <typename T>
class TenantTable {
 public:
  struct Options {
    std::string noun;    ///< Name of an object in errors: "session".
    std::string option;  ///< Setting of max_per_tenant, for errors: "--max-sessions".
    uint32_t max_per_tenant = 64;
    Duration lease = std::chrono::seconds(30);
    Clock* clock = nullptr;            ///< Required.
    Random* random = &SystemRandom();  ///< Source of the ids, which must be unguessable.
  };
  explicit TenantTable(Options options) : options_(std::move(options)) {}

  /// RESOURCE_EXHAUSTED when the tenant has max_per_tenant objects and none is idle. The retry hint
  /// says when one may be.
  [[nodiscard]] StatusOr<uint64_t> Insert(std::string_view tenant, std::shared_ptr<T> object)
      QUIRE_EXCLUDES(mutex_) {
    Objects ended;  // Destroyed after the lock: destruction may delete files.
    MutexLock lock(mutex_);
    const TimePoint now = options_.clock->Now();
    const auto count = [&]() QUIRE_REQUIRES(mutex_) {
      const auto it = counts_.find(tenant);
      return it == counts_.end() ? 0 : it->second;
    };
    if (count() >= options_.max_per_tenant) EndExpired(now, ended);
    if (count() >= options_.max_per_tenant) EndIdle(tenant, now, ended);
    if (count() >= options_.max_per_tenant) return Refusal(tenant, now);
    ++counts_[std::string(tenant)];
    const uint64_t id = NewId();
    entries_.emplace(id, Entry{std::string(tenant), std::move(object), now});
    return id;
  }

  /// Ends objects whose lease has run out.
  void RemoveExpired() QUIRE_EXCLUDES(mutex_) {
    Objects ended;
    MutexLock lock(mutex_);
    EndExpired(options_.clock->Now(), ended);
  }
  /// Ends the tenant's longest idle object. Returns false when none is idle.
  bool RemoveIdle(std::string_view tenant) QUIRE_EXCLUDES(mutex_) {
    Objects ended;
    MutexLock lock(mutex_);
    return EndIdle(tenant, options_.clock->Now(), ended);
  }

  /// Returns the object and renews its lease. NOT_FOUND when there is none.
  [[nodiscard]] StatusOr<std::shared_ptr<T>> Find(std::string_view tenant, uint64_t id)
      QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Entry* const entry = Renewed(tenant, id);
    if (entry != nullptr) return entry->object;
    return NotFound("no ", options_.noun, " ", id,
                    ": it was closed, was not used or renewed in time, or the server has "
                    "restarted; open a new one");
  }

  /// Renews leases. Returns the ids without an object, in order.
  [[nodiscard]] std::vector<uint64_t> Renew(std::string_view tenant, std::span<const uint64_t> ids)
      QUIRE_EXCLUDES(mutex_) {
    std::vector<uint64_t> gone;
    MutexLock lock(mutex_);
    for (const uint64_t id : ids) {
      if (Renewed(tenant, id) == nullptr) gone.push_back(id);
    }
    return gone;
  }

  /// Removes and returns the object; null when there was none.
  std::shared_ptr<T> Remove(std::string_view tenant, uint64_t id) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.tenant != tenant) return nullptr;
    std::shared_ptr<T> object = std::move(it->second.object);
    Erase(it);
    return object;
  }

  /// All objects of all tenants, in no order. Renews no lease.
  std::vector<std::shared_ptr<T>> All() const QUIRE_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<T>> all;
    MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_) all.push_back(entry.object);
    return all;
  }

  struct Listed {
    std::string tenant;
    std::shared_ptr<T> object;
    Duration idle{0};  ///< Since its lease was renewed.
  };
  /// The objects of all tenants that were renewed last, latest first. Renews no lease.
  std::vector<Listed> List(size_t most) const QUIRE_EXCLUDES(mutex_) {
    std::vector<Listed> list;
    MutexLock lock(mutex_);
    const TimePoint now = options_.clock->Now();
    for (const auto& [id, entry] : entries_) {
      list.push_back({entry.tenant, entry.object, now - entry.renewed});
    }
    const size_t count = std::min(most, list.size());
    std::ranges::partial_sort(list, list.begin() + static_cast<std::ptrdiff_t>(count), {},
                              &Listed::idle);
    list.resize(count);
    return list;
  }
  /// Number of a tenant's objects.
  uint32_t Count(std::string_view tenant) const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = counts_.find(tenant);
    return it == counts_.end() ? 0 : it->second;
  }

  uint64_t size() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return entries_.size();
  }
  /// Number of objects ended because their lease ran out.
  uint64_t expired() const { return expired_.Get(); }
  /// Number of objects ended to make room for others.
  uint64_t displaced() const { return displaced_.Get(); }

 private:
  /// Bounds of the retry hint: an object may be closed at any time, and clients give up after some
  /// attempts.
  static constexpr Duration kShortestRetry = std::chrono::milliseconds(100);
  static constexpr Duration kLongestRetry = std::chrono::seconds(2);
  struct Entry {
    std::string tenant;
    std::shared_ptr<T> object;
    TimePoint renewed;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;
  using Objects = std::vector<std::shared_ptr<T>>;

  /// Returns a random unused id, not 0.
  uint64_t NewId() QUIRE_REQUIRES(mutex_) {
    uint64_t id = 0;
    do {
      id = options_.random->Next();
    } while (id == 0 || entries_.contains(id));
    return id;
  }
  typename Entries::iterator Erase(typename Entries::iterator it) QUIRE_REQUIRES(mutex_) {
    const auto count = counts_.find(it->second.tenant);
    if (--count->second == 0) counts_.erase(count);
    return entries_.erase(it);
  }
  /// Returns the entry, renewed now; null when there is none.
  Entry* Renewed(std::string_view tenant, uint64_t id) QUIRE_REQUIRES(mutex_) {
    const auto it = entries_.find(id);
    const TimePoint now = options_.clock->Now();
    if (it == entries_.end() || it->second.tenant != tenant || HasExpired(it->second, now)) {
      return nullptr;
    }
    it->second.renewed = now;
    return &it->second;
  }
  bool HasExpired(const Entry& entry, TimePoint now) const {
    return entry.renewed + options_.lease < now && !InUse(entry);
  }
  /// True when the object has an owner besides the table. New owners come from Find, under the
  /// lock, or copy an existing one.
  static bool InUse(const Entry& entry) { return entry.object.use_count() > 1; }
  void RenewUsed(TimePoint now) QUIRE_REQUIRES(mutex_) {
    for (auto& [id, entry] : entries_) {
      if (InUse(entry)) entry.renewed = now;
    }
  }
  Duration idle_after() const { return options_.lease / 3; }

  /// Moves expired objects to `ended`.
  void EndExpired(TimePoint now, Objects& ended) QUIRE_REQUIRES(mutex_) {
    RenewUsed(now);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (!HasExpired(it->second, now)) {
        ++it;
        continue;
      }
      ended.push_back(std::move(it->second.object));
      it = Erase(it);
      expired_.Add();
    }
  }
  /// The tenant's least recently renewed entry; end() when it has none.
  typename Entries::iterator Oldest(std::string_view tenant) QUIRE_REQUIRES(mutex_) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.tenant != tenant) continue;
      if (oldest == entries_.end() || it->second.renewed < oldest->second.renewed) oldest = it;
    }
    return oldest;
  }
  /// Moves the tenant's longest idle object to `ended`. Returns false when none is idle.
  bool EndIdle(std::string_view tenant, TimePoint now, Objects& ended) QUIRE_REQUIRES(mutex_) {
    RenewUsed(now);
    const auto oldest = Oldest(tenant);
    if (oldest == entries_.end() || oldest->second.renewed + idle_after() > now) return false;
    ended.push_back(std::move(oldest->second.object));
    Erase(oldest);
    displaced_.Add();
    return true;
  }
  Status Refusal(std::string_view tenant, TimePoint now) QUIRE_REQUIRES(mutex_) {
    const Duration until_idle = Oldest(tenant)->second.renewed + idle_after() - now;
    return WithRetryAfter(ResourceExhausted("tenant ", tenant, " has ", options_.max_per_tenant,
                                            " open ", options_.noun,
                                            "s, which is the limit, and all of them are in use: "
                                            "close one or raise ",
                                            options_.option),
                          std::clamp(until_idle, kShortestRetry, kLongestRetry));
  }

  const Options options_;
  mutable Mutex mutex_;
  Entries entries_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t, std::less<>> counts_ QUIRE_GUARDED_BY(mutex_);
  Counter expired_, displaced_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_TENANT_TABLE_H_
