// SPDX-License-Identifier: Apache-2.0
//
// TicketTable: what admits connections of the data plane. A ticket is 128 random bits that the
// control channel hands to a tenant; the first frame of a connection shows it. It is good for one
// connection of one kind, and for a short time. Tickets that are issued together are alternatives:
// the first of them that is shown uses up all. Tickets are compared in a time that does not depend
// on how much of them is right.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_TICKET_TABLE_H_
#define QUIRE_KVSERVER_SERVICE_TICKET_TABLE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
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

  /// One ticket of `tenant` for each of `kinds`, or none: RESOURCE_EXHAUSTED, with the time until
  /// there is room, when too many of the tenant are unused.
  [[nodiscard]] StatusOr<std::vector<std::string>> Issue(std::string_view tenant,
                                                         std::span<const std::string> kinds);

  /// The tenant that `ticket` was issued to; it is used up, with all that were issued with it.
  /// UNAUTHENTICATED for one that is forged, was used, has expired or is for another kind, without
  /// saying which.
  [[nodiscard]] StatusOr<std::string> Redeem(std::string_view ticket, std::string_view kind);

  size_t unused() const;

 private:
  using Bits = std::array<uint8_t, wire::kTicketBytes>;
  struct Entry {
    Bits bits;
    std::string tenant, kind;
    TimePoint expires;
    uint64_t issue = 0;  ///< The same for those that were issued together.
  };

  void DropExpired() QUIRE_REQUIRES(mutex_);
  /// OK when `count` more of `tenant` fit.
  Status CheckRoom(std::string_view tenant, size_t count) const QUIRE_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::deque<Entry> entries_ QUIRE_GUARDED_BY(mutex_);  ///< The first to expire first.
  uint64_t issues_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_TICKET_TABLE_H_
