// SPDX-License-Identifier: Apache-2.0
//
// SharedSessions: seats the sequences of a batch in sessions that they share, so that one message
// recalls for all of them (recall_group.h). Sequences share one when their lanes are alike but for
// the slots, of which each has its own number, and the session has enough:
// - Where units come in messages, slots that no sequence has cost nothing. Sessions have as many as
//   can be, and sequences of every budget share.
// - Where the server writes units into a staging area, every sequence has room there for all of its
//   session's slots. Sessions have their first sequence's, rounded up to a power of two, and take
//   in who rounds to the same. So are the area's sequences, and it does not shrink: it is at most
//   four times what the most sequences that it had need.
// A session that the server has no room in for one more is passed over: another is opened. It ends
// with the last of its sequences.
//
// A session that lost a sequence, or could not remove one, accepts no more. A reopened sequence
// therefore never gets a session that the server has dropped.
//
// Thread-safety: none. Ownership: what it is given outlives it; it outlives its seats.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_SHARED_SESSIONS_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_SHARED_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "gpuworker/engine/session_source.h"
#include "gpuworker/recall/recall_group.h"

namespace quire::worker {

class SharedSessions final : public BatchSessions {
 public:
  SharedSessions(Client* client, const KvSpec* spec);
  ~SharedSessions() override;
  SharedSessions(const SharedSessions&) = delete;
  SharedSessions& operator=(const SharedSessions&) = delete;

  StatusOr<std::unique_ptr<SessionSeat>> Seat(const ContextRef& context,
                                              const LaneShape& shape) override;
  /// A message for each session and priority.
  void Send() override;
  uint64_t messages() const override;
  uint64_t lanes() const override;

  size_t num_sessions() const { return sessions_.size(); }

 private:
  /// Arguments that a session is opened with. Sequences that ask for the same may share it.
  struct Kind {
    LaneShape shape;
    bool lands = false;  ///< It has a staging area, if the transport still writes there.
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Shared;
  class SharedSeat;
  /// The kind of session for a sequence of `shape`.
  Kind KindFor(const LaneShape& shape) const;
  StatusOr<std::unique_ptr<SessionSeat>> Join(Shared* shared, const SequenceSpec& sequence);
  StatusOr<std::unique_ptr<SessionSeat>> Open(const Kind& kind, const SequenceSpec& sequence);
  /// The seat of a sequence that the session has.
  StatusOr<std::unique_ptr<SessionSeat>> Take(Shared* shared, uint32_t sequence);
  void Leave(Shared* shared, uint32_t sequence);

  Client* const client_;
  const KvSpec* const spec_;
  std::vector<std::unique_ptr<Shared>> sessions_;
  uint64_t past_messages_ = 0;  ///< Messages of sessions that have ended.
  uint64_t past_lanes_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_SHARED_SESSIONS_H_
