// SPDX-License-Identifier: Apache-2.0
#include "client/spanning/sequence_places.h"

#include <algorithm>

namespace quire::internal {

SequencePlaces::SequencePlaces(std::span<const std::string> addresses) {
  for (uint32_t member = 0; member < addresses.size(); ++member) {
    auto fragment = std::ranges::find(fragments_, addresses[member], &Fragment::address);
    if (fragment == fragments_.end()) {
      fragment = fragments_.insert(fragment, {.address = addresses[member], .members = {}});
    }
    members_.push_back({.fragment = static_cast<size_t>(fragment - fragments_.begin()),
                        .local = static_cast<uint32_t>(fragment->members.size())});
    fragment->members.push_back(member);
  }
}

}  // namespace quire::internal
