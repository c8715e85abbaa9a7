// SPDX-License-Identifier: Apache-2.0
//
// TicketTable: tickets that admit connections of the data plane. A ticket is 128 random bits that
// the control channel gives to a tenant. The first frame of a connection shows it. It is valid for
// one connection of one kind, and for a short time. Tickets issued together are alternatives: using
// one uses up all. Comparisons take constant time. Thread-safety: all methods may be called
// concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_DATA_PLANE_TICKET_TABLE_H_
#define QUIRE_KVSERVER_SERVICE_DATA_PLANE_TICKET_TABLE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class TicketTable {
 public:
  struct Options {
    size_t max_unused_per_tenant = 64;
    Duration lifetime = std::chrono::seconds(30);
    Random* random = &SystemRandom();
    const Clock* clock = &SystemClock();
  };
  explicit TicketTable(const Options& options) : options_(options) {}

  /// Issues one ticket of `tenant` for each of `kinds`, or none. RESOURCE_EXHAUSTED with a retry
  /// hint when the tenant has too many unused ones.
  [[nodiscard]] StatusOr<std::vector<std::string>> Issue(std::string_view tenant,
                                                         std::span<const std::string> kinds);

  /// Returns the tenant of `ticket` and uses it up, with all issued together. UNAUTHENTICATED for a
  /// forged, used, expired or wrong ticket, without saying which.
  [[nodiscard]] StatusOr<std::string> Redeem(std::string_view ticket, std::string_view kind);

  size_t unused() const;

 private:
  using Bits = std::array<uint8_t, wire::kTicketBytes>;
  struct Entry {
    Bits bits;
    std::string tenant, kind;
    TimePoint expires;
    uint64_t issue = 0;  ///< Equal for tickets issued together.
  };

  void DropExpired() QUIRE_REQUIRES(mutex_);
  /// RESOURCE_EXHAUSTED unless `count` more tickets of `tenant` fit.
  Status CheckRoom(std::string_view tenant, size_t count) const QUIRE_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::deque<Entry> entries_ QUIRE_GUARDED_BY(mutex_);  ///< In order of expiry.
  uint64_t issues_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DATA_PLANE_TICKET_TABLE_H_
