// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/space/hint_keeper.h"

#include <algorithm>
#include <optional>

namespace quire::kvserver {
namespace {

Status NoConversation(std::string_view conversation) {
  return NotFound("no conversation '", conversation,
                  "': it was released, forgotten, or had no hint since the server started");
}

}  // namespace

void HintKeeper::Note(std::string_view tenant, const Hints& hints,
                      std::span<const SegmentKey> segments) {
  if (hints.empty() || segments.empty()) return;
  hints_.Add();
  MutexLock lock(mutex_);
  Apply(table_.Note(tenant, hints, segments, clock_->Now()));
}

StatusOr<uint64_t> HintKeeper::Release(std::string_view tenant, std::string_view conversation) {
  MutexLock lock(mutex_);
  const std::optional<HintTable::Changes> changes = table_.Release(tenant, conversation);
  if (!changes) return NoConversation(conversation);
  Apply(*changes);
  released_.Add();
  return static_cast<uint64_t>(
      std::ranges::count(*changes, Standing::kReleased, &StandingChange::standing));
}

StatusOr<std::vector<SegmentKey>> HintKeeper::SegmentsOf(std::string_view tenant,
                                                         std::string_view conversation) const {
  MutexLock lock(mutex_);
  std::vector<SegmentKey> segments = table_.SegmentsOf(tenant, conversation);
  if (segments.empty()) return NoConversation(conversation);
  return segments;
}

void HintKeeper::Expire() {
  MutexLock lock(mutex_);
  Apply(table_.Expire(clock_->Now()));
}

void HintKeeper::Apply(const HintTable::Changes& changes) {
  if (changes.empty()) return;
  dram_->SetStandings(changes);
  segments_->SetStandings(changes);
}

void HintKeeper::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("hints", "Calls that gave hints about segments.", hints_.Get());
  visit.Counter("conversations_released", "Conversations that their callers released.",
                released_.Get());
  MutexLock lock(mutex_);
  visit.Gauge("conversations", "Conversations that hints have named.", table_.num_conversations());
  visit.Gauge("segments_hinted", "Segments that hints are about.", table_.num_segments());
}

}  // namespace quire::kvserver
