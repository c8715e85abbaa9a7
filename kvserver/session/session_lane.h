// SPDX-License-Identifier: Apache-2.0
//
// SessionLane: one managed layer of one sequence: the order of its exchanges and what its slots
// hold, kept in step, and the digests that are held for it. Lanes know nothing of each other.
// Thread-safety: none; who uses a lane has claimed it (lane_claims.h).
#ifndef QUIRE_KVSERVER_SESSION_SESSION_LANE_H_
#define QUIRE_KVSERVER_SESSION_SESSION_LANE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvserver/select/digest_residency.h"
#include "kvserver/session/exchange_state.h"
#include "kvserver/session/server_lane_map.h"
#include "quire/page_lists.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionLane {
 public:
  SessionLane(uint32_t num_heads, uint32_t slots_per_head) : map_(num_heads, slots_per_head) {}

  [[nodiscard]] Status CheckRecall(uint64_t exchange, uint64_t applied) const {
    return exchanges_.CheckRecall(exchange, applied);
  }
  /// Takes a recall that CheckRecall allows: commits what the worker applied, or rolls it back
  /// (true).
  bool TakeRecall(uint64_t exchange, uint64_t applied) {
    return Settle(exchanges_.Recall(exchange, applied));
  }
  /// Answers the recall that was taken: `placed` is pending then.
  void Plan(const PageLists& selected, ServerLaneMap::Scratch& scratch, PlacedUnits* placed) {
    exchanges_.SetPending();
    map_.Plan(selected, scratch, placed);
  }
  /// Forgets the recall that was taken last: none of its answer has left.
  void Abandon() {
    map_.Rollback();
    exchanges_.Abandon();
  }

  /// Takes over the worker's slots, [n_kv][slots_per_head] each, after exchange `applied`.
  void Resync(uint64_t applied, std::span<const int32_t> pages,
              std::span<const uint32_t> generations) {
    map_.Replace(pages, generations);
    exchanges_.Resync(applied);
  }
  /// Empty, as at the beginning.
  void Reset() {
    map_.Clear();
    exchanges_.Resync(0);
  }

  const ServerLaneMap& map() const { return map_; }

  /// Digests of one kind at the lane's layer of one member of its sequence, for selection.
  struct MemberDigests {
    std::shared_ptr<const ResidentDigests> held;  ///< Null: they are not held.
    /// DigestResidency::frees when they did not fit: they are asked for again after it has changed.
    std::optional<uint64_t> refused_at;
  };
  MemberDigests& digests(uint32_t member, kernels::DigestKind kind) {
    return digests_[{member, kind}];
  }

 private:
  bool Settle(ExchangeState::Previous previous) {
    if (previous == ExchangeState::Previous::kCommit) map_.Commit();
    if (previous == ExchangeState::Previous::kRollBack) map_.Rollback();
    return previous == ExchangeState::Previous::kRollBack;
  }

  ExchangeState exchanges_;
  ServerLaneMap map_;
  /// Empty before the first selection.
  std::map<std::pair<uint32_t, kernels::DigestKind>, MemberDigests> digests_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_LANE_H_
