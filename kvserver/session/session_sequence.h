// SPDX-License-Identifier: Apache-2.0
//
// SessionSequence: the members that one sequence of a session reads, and a lane for each managed
// layer. All lanes have the same number of slots, at most the session's. Thread-safety: members are
// immutable; a lane is used by the call that has claimed it. Ownership: shared by the session and
// the calls that use it; keeps its contexts alive.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_SEQUENCE_H_
#define QUIRE_KVSERVER_SESSION_SESSION_SEQUENCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvserver/session/context/context_resolver.h"
#include "kvserver/session/digest_holder.h"
#include "kvserver/session/session_lane.h"

namespace quire::kvserver {

/// A context that a sequence reads, and the position of its token 0 in the sequence.
struct MemberContext {
  ReadableContext context;
  int64_t position_offset = 0;
};

/// A member's view for one call; an open context grows between calls.
struct MemberView {
  explicit MemberView(const MemberContext& member)
      : view(member.context.view()),
        position_offset(member.position_offset),
        num_pages(view->num_pages()),
        tail_first_page(view->tail_first_page()),
        page_use(member.context.page_use()) {}

  ContextViewPtr view;
  int64_t position_offset;
  uint32_t num_pages;
  uint32_t tail_first_page;  ///< First page that is not stored.
  PageUse* page_use;         ///< Belongs to the member; may be null.
};

class SessionSequence {
 public:
  /// `held` lives as long as the sequence; may be null.
  SessionSequence(std::vector<MemberContext> members, std::shared_ptr<const DigestHolder> held,
                  uint32_t num_lanes, uint32_t num_heads, uint32_t slots_per_head)
      : members_(std::move(members)),
        held_digests_(std::move(held)),
        slots_per_head_(slots_per_head),
        lanes_(num_lanes, SessionLane(num_heads, slots_per_head)) {}

  const std::vector<MemberContext>& members() const { return members_; }
  uint32_t slots_per_head() const { return slots_per_head_; }
  /// OK while the stored segments in `views`, of its members in order, have the bytes of the time
  /// when the members were opened. Slots, held digests and the worker's units are of those bytes.
  /// NOT_FOUND once damaged or lost ones were replaced.
  [[nodiscard]] Status CheckBytes(const PageStore& store, std::span<const MemberView> views) {
    const uint64_t replaced = store.num_replaced();
    if (checked_at_.load(std::memory_order_relaxed) == replaced) return OkStatus();
    for (const MemberView& member : views) {
      if (!WasReplaced(store, *member.view)) continue;
      return NotFound(
          "damaged segments of a context were replaced since it was opened, and may have other "
          "bytes now; open it, and a sequence over it, again");
    }
    checked_at_.store(replaced, std::memory_order_relaxed);
    return OkStatus();
  }
  /// The lane of the managed layer at `index` in the session.
  SessionLane& lane(uint32_t index) { return lanes_[index]; }
  std::vector<SessionLane>& lanes() { return lanes_; }

 private:
  const std::vector<MemberContext> members_;
  const std::shared_ptr<const DigestHolder> held_digests_;
  const uint32_t slots_per_head_;
  std::vector<SessionLane> lanes_;
  std::atomic<uint64_t> checked_at_{
      0};  ///< num_replaced of the store at the last successful check.
};
using SessionSequencePtr = std::shared_ptr<SessionSequence>;

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_SEQUENCE_H_
