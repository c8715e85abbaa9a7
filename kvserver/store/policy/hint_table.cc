// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/hint_table.h"

#include <algorithm>
#include <ranges>

namespace quire::kvserver {
namespace {

/// Name of the conversation of one segment alone. No caller's name begins with it.
std::string NameOf(const SegmentKey& segment) { return '\0' + segment.Hex(); }

Standing Highest(const std::array<uint32_t, kNumStandings>& counts, Standing otherwise) {
  for (size_t i = counts.size(); i-- > 0;) {
    if (counts[i] > 0) return static_cast<Standing>(i);
  }
  return otherwise;
}

}  // namespace

HintTable::Changes HintTable::Note(std::string_view tenant_name, const Hints& hints,
                                   std::span<const SegmentKey> segments, TimePoint now) {
  Changes changes;
  if (segments.empty()) return changes;
  Tenant& tenant = tenants_[std::string(tenant_name)];
  if (hints.conversation.empty()) {
    for (const SegmentKey& segment : segments) {
      NoteOne(tenant, NameOf(segment), true, hints, {&segment, 1}, now, &changes);
    }
  } else {
    NoteOne(tenant, hints.conversation, false, hints, segments, now, &changes);
  }
  while (tenant.uses > most_uses_ && tenant.by_hint.size() > 1) {
    Forget(*tenant.by_hint.front(), Standing::kNormal, &changes);
  }
  return changes;
}

void HintTable::NoteOne(Tenant& tenant, std::string id, bool anonymous, const Hints& hints,
                        std::span<const SegmentKey> segments, TimePoint now, Changes* changes) {
  Conversation& conversation = Find(tenant, std::move(id), anonymous);
  tenant.by_hint.splice(tenant.by_hint.end(), tenant.by_hint, conversation.turn);
  conversation.last_hint = now;
  conversation.priority = StandingOf(hints.priority);
  conversation.keep_until = now + std::chrono::seconds(hints.keep_seconds);
  SetStanding(conversation, hints.keep_seconds > 0 ? Standing::kKept : conversation.priority,
              changes);
  SetDue(conversation);
  for (const SegmentKey& segment : segments) {
    if (const auto known = conversation.places.find(segment); known != conversation.places.end()) {
      conversation.uses.splice(conversation.uses.begin(), conversation.uses, known->second);
      continue;
    }
    conversation.uses.push_front(segment);
    conversation.places[segment] = conversation.uses.begin();
    ++tenant.uses;
    Count(segment, {}, conversation.standing, Standing::kNormal, changes);
    if (conversation.uses.size() > kMostSegments) {
      DropUse(conversation, std::prev(conversation.uses.end()), Standing::kNormal, changes);
    }
  }
}

HintTable::Conversation& HintTable::Find(Tenant& tenant, std::string id, bool anonymous) {
  const auto [it, added] = tenant.conversations.try_emplace(std::move(id));
  Conversation& conversation = it->second;
  if (!added) return conversation;
  conversation.tenant = &tenant;
  conversation.id = it->first;
  conversation.anonymous = anonymous;
  conversation.turn = tenant.by_hint.insert(tenant.by_hint.end(), &conversation);
  due_.emplace(conversation.due, &conversation);
  if (!anonymous) ++num_conversations_;
  return conversation;
}

void HintTable::SetStanding(Conversation& conversation, Standing standing, Changes* changes) {
  const Standing before = std::exchange(conversation.standing, standing);
  if (before == standing) return;
  for (const SegmentKey& segment : conversation.uses) {
    Count(segment, before, standing, Standing::kNormal, changes);
  }
}

void HintTable::SetDue(Conversation& conversation) {
  due_.erase({conversation.due, &conversation});
  conversation.due = conversation.standing == Standing::kKept
                         ? conversation.keep_until
                         : conversation.last_hint + kForgetAfter;
  due_.emplace(conversation.due, &conversation);
}

void HintTable::Count(const SegmentKey& segment, std::optional<Standing> before,
                      std::optional<Standing> after, Standing otherwise, Changes* changes) {
  const auto [it, first] = segments_.try_emplace(segment);
  Counts& counts = it->second;
  const Standing was = Highest(counts, Standing::kNormal);
  if (before) --counts[static_cast<size_t>(*before)];
  if (after) ++counts[static_cast<size_t>(*after)];
  const Standing is = Highest(counts, otherwise);
  // The first use also ends a release.
  if (is != was || first) changes->push_back({segment, is});
  const bool unused = std::ranges::all_of(counts, [](uint32_t count) { return count == 0; });
  if (unused) segments_.erase(it);
}

void HintTable::DropUse(Conversation& conversation, Uses::iterator use, Standing otherwise,
                        Changes* changes) {
  const SegmentKey segment = *use;
  conversation.places.erase(segment);
  conversation.uses.erase(use);
  --conversation.tenant->uses;
  Count(segment, conversation.standing, {}, otherwise, changes);
}

void HintTable::Forget(Conversation& conversation, Standing otherwise, Changes* changes) {
  while (!conversation.uses.empty()) {
    DropUse(conversation, conversation.uses.begin(), otherwise, changes);
  }
  Tenant& tenant = *conversation.tenant;
  due_.erase({conversation.due, &conversation});
  tenant.by_hint.erase(conversation.turn);
  if (!conversation.anonymous) --num_conversations_;
  tenant.conversations.erase(tenant.conversations.find(conversation.id));
}

std::optional<HintTable::Changes> HintTable::Release(std::string_view tenant_name,
                                                     std::string_view id) {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return std::nullopt;
  const auto conversation = tenant->second.conversations.find(id);
  if (conversation == tenant->second.conversations.end()) return std::nullopt;
  Changes changes;
  Forget(conversation->second, Standing::kReleased, &changes);
  return changes;
}

HintTable::Changes HintTable::Expire(TimePoint now) {
  Changes changes;
  while (!due_.empty() && due_.begin()->first <= now) {
    Conversation& conversation = *due_.begin()->second;
    if (conversation.standing == Standing::kKept) {
      SetStanding(conversation, conversation.priority, &changes);
      SetDue(conversation);
    } else {
      Forget(conversation, Standing::kNormal, &changes);
    }
  }
  return changes;
}

std::vector<SegmentKey> HintTable::SegmentsOf(std::string_view tenant_name,
                                              std::string_view id) const {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return {};
  const auto conversation = tenant->second.conversations.find(id);
  if (conversation == tenant->second.conversations.end()) return {};
  return {conversation->second.uses.begin(), conversation->second.uses.end()};
}

}  // namespace quire::kvserver
