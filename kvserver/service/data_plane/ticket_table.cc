// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/ticket_table.h"

#include <algorithm>
#include <utility>

#include "common/base/retry_hint.h"

namespace quire::kvserver {
namespace {

/// Compares every byte, in constant time. REQUIRES: `shown` is as long as `bits`.
bool Same(std::span<const uint8_t> bits, std::string_view shown) {
  uint8_t difference = 0;
  for (size_t i = 0; i < bits.size(); ++i) {
    difference |= static_cast<uint8_t>(bits[i] ^ static_cast<uint8_t>(shown[i]));
  }
  return difference == 0;
}

}  // namespace

StatusOr<std::vector<std::string>> TicketTable::Issue(std::string_view tenant,
                                                      std::span<const std::string> kinds) {
  MutexLock lock(mutex_);
  DropExpired();
  QUIRE_RETURN_IF_ERROR(CheckRoom(tenant, kinds.size()));
  std::vector<std::string> tickets;
  const TimePoint expires = options_.clock->Now() + options_.lifetime;
  const uint64_t issue = issues_++;
  for (const std::string& kind : kinds) {
    Entry entry{.bits = {},
                .tenant = std::string(tenant),
                .kind = kind,
                .expires = expires,
                .issue = issue};
    options_.random->Fill(entry.bits);
    tickets.emplace_back(entry.bits.begin(), entry.bits.end());
    entries_.push_back(std::move(entry));
  }
  return tickets;
}

StatusOr<std::string> TicketTable::Redeem(std::string_view ticket, std::string_view kind) {
  MutexLock lock(mutex_);
  DropExpired();
  auto found = entries_.end();
  if (ticket.size() == wire::kTicketBytes) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (Same(it->bits, ticket)) found = it;
    }
  }
  const Status refused =
      MakeStatus(StatusCode::kUnauthenticated,
                 "the ticket is not valid: each admits one connection of one kind within ",
                 std::chrono::duration_cast<std::chrono::seconds>(options_.lifetime).count(),
                 " s; ask for offers again");
  if (found == entries_.end()) return refused;
  const Entry entry = std::move(*found);
  std::erase_if(entries_, [&](const Entry& other) { return other.issue == entry.issue; });
  if (entry.kind != kind) return refused;
  return entry.tenant;
}

size_t TicketTable::unused() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

void TicketTable::DropExpired() {
  const TimePoint now = options_.clock->Now();
  while (!entries_.empty() && entries_.front().expires <= now) entries_.pop_front();
}

Status TicketTable::CheckRoom(std::string_view tenant, size_t count) const {
  const auto of_tenant = [&](const Entry& entry) { return entry.tenant == tenant; };
  const auto unused = static_cast<size_t>(std::ranges::count_if(entries_, of_tenant));
  if (unused + count <= options_.max_unused_per_tenant) return OkStatus();
  const Status refused =
      ResourceExhausted("tenant '", tenant, "' has ", unused, " tickets that it has not used, of ",
                        options_.max_unused_per_tenant, "; use them or wait until they expire");
  const auto oldest = std::ranges::find_if(entries_, of_tenant);
  if (oldest == entries_.end()) return refused;  // More kinds than tickets.
  return WithRetryAfter(refused, oldest->expires - options_.clock->Now());
}

}  // namespace quire::kvserver
