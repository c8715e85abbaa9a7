// SPDX-License-Identifier: Apache-2.0
#include "cluster/view/cluster_view.h"

#include <algorithm>

namespace quire::cluster {
namespace {

constexpr size_t kMaxClusterNameBytes = 64;

bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsNameCharacter(char c) { return IsLetterOrDigit(c) || c == '.' || c == '_' || c == '-'; }

}  // namespace

std::string_view Name(MemberState state) {
  switch (state) {
    case MemberState::kUp:
      return "up";
    case MemberState::kDraining:
      return "draining";
    case MemberState::kLeft:
      return "left";
    case MemberState::kLost:
      return "lost";
  }
  return "";
}

bool Understand(const Member& one, const Member& other) {
  return one.protocol >= other.oldest_protocol && other.protocol >= one.oldest_protocol;
}

std::string ProtocolsOf(const Member& member) {
  const std::string newest = std::to_string(member.protocol);
  if (member.oldest_protocol == member.protocol) return "protocol " + newest;
  return "protocols " + std::to_string(member.oldest_protocol) + " to " + newest;
}

const Member* ClusterView::Find(std::string_view member) const {
  const auto found = std::ranges::lower_bound(members, member, {}, &Member::name);
  return found != members.end() && found->name == member ? &*found : nullptr;
}

const HotDocument* ClusterView::FindHot(uint64_t placement_hash) const {
  const auto found =
      std::ranges::lower_bound(hot_documents, placement_hash, {}, &HotDocument::placement_hash);
  return found != hot_documents.end() && found->placement_hash == placement_hash ? &*found
                                                                                 : nullptr;
}

Status CheckClusterName(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxClusterNameBytes && IsLetterOrDigit(name[0]) &&
      std::ranges::all_of(name, IsNameCharacter)) {
    return OkStatus();
  }
  return InvalidArgument(what, " '", name, "': must be 1..", kMaxClusterNameBytes,
                         " characters of a-z, 0-9, '.', '_' and '-', beginning with a letter or "
                         "digit");
}

}  // namespace quire::cluster
