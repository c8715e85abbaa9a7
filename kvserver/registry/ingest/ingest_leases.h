// SPDX-License-Identifier: Apache-2.0
//
// IngestLeases: the ingests under way, each with its reserved version and the end of its lease. The
// metadata has the versions too, so a restart renews every lease once. Pure bookkeeping.
// Thread-safety: safe for concurrent use. Ownership: the clock outlives it.
#ifndef QUIRE_KVSERVER_REGISTRY_INGEST_INGEST_LEASES_H_
#define QUIRE_KVSERVER_REGISTRY_INGEST_INGEST_LEASES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/registry/rows/document_keys.h"
#include "quire/clock.h"

namespace quire::kvserver {

class IngestLeases {
 public:
  static constexpr size_t kMaxPerTenant = 1024;

  IngestLeases(Clock* clock, Duration lease) : clock_(clock), lease_(lease) {}

  Duration lease() const { return lease_; }

  /// A number that no ingest has, and that is hard to guess.
  uint64_t NewId() const;
  bool HasRoom(std::string_view tenant) const QUIRE_EXCLUDES(mutex_);
  void Add(uint64_t id, TenantDocument document) QUIRE_EXCLUDES(mutex_);
  /// The version of a tenant's ingest; nullopt when it has ended.
  std::optional<DocumentName> Find(std::string_view tenant, uint64_t id) const
      QUIRE_EXCLUDES(mutex_);
  /// Renews leases. Returns the ids that are gone, in order.
  std::vector<uint64_t> Renew(std::string_view tenant, std::span<const uint64_t> ids)
      QUIRE_EXCLUDES(mutex_);
  /// Ends the ingest of a version, if there is one.
  void Remove(std::string_view tenant, const DocumentName& name) QUIRE_EXCLUDES(mutex_);
  /// Versions whose leases have ended. They stay until they are removed.
  std::vector<TenantDocument> Abandoned() const QUIRE_EXCLUDES(mutex_);
  size_t size() const QUIRE_EXCLUDES(mutex_);

 private:
  struct Lease {
    TenantDocument document;
    TimePoint end;
  };

  Clock* const clock_;
  const Duration lease_;
  mutable Mutex mutex_;
  std::map<uint64_t, Lease> leases_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_INGEST_INGEST_LEASES_H_
