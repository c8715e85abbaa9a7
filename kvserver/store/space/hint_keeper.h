// SPDX-License-Identifier: Apache-2.0
//
// HintKeeper: carries out the rules of HintTable. It tells both tiers of each change of a standing,
// in the order of the changes. Hints are kept in memory only.
//
// Thread-safety: all methods may be called concurrently. `mutex_` comes before the locks of the
// tiers, and is held over no I/O. Callers hold no lock of a tier.
#ifndef QUIRE_KVSERVER_STORE_SPACE_HINT_KEEPER_H_
#define QUIRE_KVSERVER_STORE_SPACE_HINT_KEEPER_H_

#include <span>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/policy/hint_table.h"
#include "kvserver/store/space/segment_keeper.h"
#include "quire/clock.h"
#include "quire/hints.h"
#include "quire/status.h"

namespace quire::kvserver {

class HintKeeper {
 public:
  /// All outlive the keeper.
  HintKeeper(DramTier* dram, SegmentKeeper* segments, Clock* clock)
      : dram_(dram), segments_(segments), clock_(clock) {}

  /// See PageStore::NoteHints.
  void Note(std::string_view tenant, const Hints& hints, std::span<const SegmentKey> segments)
      QUIRE_EXCLUDES(mutex_);
  /// See PageStore::ReleaseConversation.
  [[nodiscard]] StatusOr<uint64_t> Release(std::string_view tenant, std::string_view conversation)
      QUIRE_EXCLUDES(mutex_);
  /// See HintTable::SegmentsOf. NOT_FOUND when there is no such conversation.
  [[nodiscard]] StatusOr<std::vector<SegmentKey>> SegmentsOf(std::string_view tenant,
                                                             std::string_view conversation) const
      QUIRE_EXCLUDES(mutex_);
  /// See HintTable::Expire.
  void Expire() QUIRE_EXCLUDES(mutex_);

  /// conversations, conversations_released, segments_hinted, hints.
  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  void Apply(const HintTable::Changes& changes) QUIRE_REQUIRES(mutex_);

  DramTier* const dram_;
  SegmentKeeper* const segments_;
  Clock* const clock_;
  mutable Mutex mutex_;
  HintTable table_ QUIRE_GUARDED_BY(mutex_);
  Counter hints_, released_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_HINT_KEEPER_H_
