// SPDX-License-Identifier: Apache-2.0
//
// SessionLane: one managed layer of one sequence. It keeps the order of exchanges and the slots in
// step, and has the digests held for it. Lanes are independent. Thread-safety: none; its user has
// claimed the lane (lane_claims.h).
#ifndef QUIRE_KVSERVER_SESSION_SESSION_LANE_H_
#define QUIRE_KVSERVER_SESSION_SESSION_LANE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/page/slot_map.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/session/exchange_state.h"
#include "quire/page_lists.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionLane {
 public:
  SessionLane(uint32_t num_heads, uint32_t slots_per_head) : map_(num_heads, slots_per_head) {}

  [[nodiscard]] Status CheckRecall(uint64_t exchange, uint64_t applied) const {
    return exchanges_.CheckRecall(exchange, applied);
  }
  /// Accepts a recall that CheckRecall allows. Commits the applied changes, or rolls them back and
  /// returns true.
  bool TakeRecall(uint64_t exchange, uint64_t applied) {
    return Settle(exchanges_.Recall(exchange, applied));
  }
  /// Plans the answer of the accepted recall; `placed` is pending then.
  void Plan(const PageLists& selected, SlotMap::Scratch& scratch, PlacedUnits* placed) {
    exchanges_.SetPending();
    map_.Plan(selected, scratch, placed);
  }
  /// Undoes the last accepted recall, none of whose answer was sent.
  void Abandon() {
    map_.Rollback();
    exchanges_.Abandon();
  }

  /// Replaces the slots by the worker's, [n_kv][slots_per_head] each, after exchange `applied`.
  void Resync(uint64_t applied, std::span<const int32_t> pages,
              std::span<const uint32_t> generations) {
    map_.Replace(pages, generations);
    exchanges_.Resync(applied);
  }
  /// Empties the lane, as at the start.
  void Reset() {
    map_.Clear();
    exchanges_.Resync(0);
  }

  const SlotMap& map() const { return map_; }

  /// Digests of one kind and one member of its sequence at the lane's layer.
  struct MemberDigests {
    std::shared_ptr<const ResidentDigests> held;  ///< Null: not held.
    /// DigestResidency::frees at the refusal. Holding is retried after it has changed.
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
  SlotMap map_;
  /// Empty before the first selection.
  std::map<std::pair<uint32_t, kernels::DigestKind>, MemberDigests> digests_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_LANE_H_
