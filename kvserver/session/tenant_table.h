// SPDX-License-Identifier: Apache-2.0
//
// TenantTable: objects that tenants open and name by an id: random and unguessable, bounded per
// tenant, forgotten when nobody has used them for a while. An id of another tenant is NOT_FOUND,
// as one that never was.
// Thread-safety: safe for concurrent use. Ownership: shared; an object that is removed while it is
// in use lives until that use ends.
#ifndef QUIRE_KVSERVER_SESSION_TENANT_TABLE_H_
#define QUIRE_KVSERVER_SESSION_TENANT_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/base/status.h"

namespace quire::kvserver {

template <typename T>
class TenantTable {
 public:
  struct Options {
    std::string noun;    ///< What is held, for errors: "session".
    std::string option;  ///< Where max_per_tenant is set, for errors: "--max-sessions".
    uint32_t max_per_tenant = 64;
    Duration idle_expiry = std::chrono::minutes(10);
    Clock* clock = nullptr;            ///< Required.
    Random* random = &SystemRandom();  ///< Of the ids: nobody may guess another's.
  };
  explicit TenantTable(Options options) : options_(std::move(options)) {}

  /// RESOURCE_EXHAUSTED when the tenant has max_per_tenant objects that are not idle.
  [[nodiscard]] StatusOr<uint64_t> Insert(std::string_view tenant, std::shared_ptr<T> object)
      QUIRE_EXCLUDES(mutex_) {
    Idle idle;  // Goes after the lock: what a context keeps is deleted from disk.
    MutexLock lock(mutex_);
    DropIdle(idle);
    uint32_t& count = counts_[std::string(tenant)];
    if (count >= options_.max_per_tenant) {
      return WithRetryAfter(
          ResourceExhausted("tenant ", tenant, " has ", count, " open ", options_.noun,
                            "s, which is the limit: close one or raise ", options_.option),
          kRetryWhenFull);
    }
    ++count;
    const uint64_t id = NewId();
    entries_.emplace(id, Entry{std::string(tenant), std::move(object), options_.clock->Now()});
    return id;
  }

  /// Forgets what nobody has used for a while; otherwise that waits for the next Insert.
  void RemoveIdle() QUIRE_EXCLUDES(mutex_) {
    Idle idle;
    MutexLock lock(mutex_);
    DropIdle(idle);
  }

  /// The object, which counts as used now. NOT_FOUND when there is none.
  [[nodiscard]] StatusOr<std::shared_ptr<T>> Find(std::string_view tenant, uint64_t id)
      QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.tenant != tenant || IsIdle(it->second)) {
      return NotFound("no ", options_.noun, " ", id,
                      ": it was closed, was idle for too long, or the server has restarted; open a "
                      "new one");
    }
    it->second.last_used = options_.clock->Now();
    return it->second.object;
  }

  /// The object that was removed, null when there was none.
  std::shared_ptr<T> Remove(std::string_view tenant, uint64_t id) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.tenant != tenant) return nullptr;
    std::shared_ptr<T> object = std::move(it->second.object);
    Erase(it);
    return object;
  }

  uint64_t size() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return entries_.size();
  }

 private:
  static constexpr Duration kRetryWhenFull = std::chrono::seconds(1);
  struct Entry {
    std::string tenant;
    std::shared_ptr<T> object;
    TimePoint last_used;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;
  using Idle = std::vector<std::shared_ptr<T>>;

  /// Random, not 0, not in use.
  uint64_t NewId() QUIRE_REQUIRES(mutex_) {
    uint64_t id = 0;
    do {
      id = options_.random->Next();
    } while (id == 0 || entries_.contains(id));
    return id;
  }
  typename Entries::iterator Erase(typename Entries::iterator it) QUIRE_REQUIRES(mutex_) {
    if (--counts_[it->second.tenant] == 0) counts_.erase(it->second.tenant);
    return entries_.erase(it);
  }
  bool IsIdle(const Entry& entry) const {
    return entry.last_used < options_.clock->Now() - options_.idle_expiry;
  }
  /// Moves what nobody has used for a while to `idle`.
  void DropIdle(Idle& idle) QUIRE_REQUIRES(mutex_) {
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (!IsIdle(it->second)) {
        ++it;
        continue;
      }
      idle.push_back(std::move(it->second.object));
      it = Erase(it);
    }
  }

  const Options options_;
  mutable Mutex mutex_;
  Entries entries_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t> counts_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_TENANT_TABLE_H_
