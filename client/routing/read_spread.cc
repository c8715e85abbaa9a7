// SPDX-License-Identifier: Apache-2.0
#include "client/routing/read_spread.h"

namespace quire::internal {

void ReadSpread::Refresh() {
  const TimePoint now = clock_.Now();
  {
    MutexLock lock(mutex_);
    if (now < known_until_) return;
    known_until_ = now + kAge;  // Other reads do not ask meanwhile.
  }
  auto addresses = router_->FindHotOwners(documents_);
  MutexLock lock(mutex_);
  // While no server tells, reads go where calls go.
  addresses_ = addresses.ok() ? *std::move(addresses) : std::vector<std::string>();
  std::erase_if(owners_, [now](const auto& owner) {
    return owner.second.in_flight == 0 && owner.second.not_before <= now;
  });
}

std::optional<std::string> ReadSpread::Draw() {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  std::vector<const std::string*> usable;
  for (const std::string& address : addresses_) {
    if (owners_[address].not_before <= now) usable.push_back(&address);
  }
  if (usable.size() < 2) return std::nullopt;
  const size_t first = random_.Below(usable.size());
  const size_t second = (first + 1 + random_.Below(usable.size() - 1)) % usable.size();
  const bool second_is_free =
      owners_[*usable[second]].in_flight < owners_[*usable[first]].in_flight;
  const std::string& drawn = *usable[second_is_free ? second : first];
  ++owners_[drawn].in_flight;
  return drawn;
}

std::optional<NodeChoice::Node> ReadSpread::Begin() {
  Refresh();
  std::optional<std::string> drawn = Draw();
  if (!drawn) return std::nullopt;
  auto transport = router_->ConnectTo(*drawn);
  if (transport.ok()) return NodeChoice::Node{*std::move(drawn), *std::move(transport)};
  End(*drawn, transport.status());
  return std::nullopt;
}

void ReadSpread::End(const std::string& address, const Status& status) {
  const TimePoint now = clock_.Now();
  MutexLock lock(mutex_);
  Owner& owner = owners_[address];
  if (owner.in_flight > 0) --owner.in_flight;
  if (!status.ok() && !IsCancelled(status)) owner.not_before = now + kAge;
}

}  // namespace quire::internal
