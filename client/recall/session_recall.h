// SPDX-License-Identifier: Apache-2.0
//
// SessionRecall: a recall in flight. Its parts come in the order asked, so the first layer can be
// attended to while the others are on their way. Made by ClientSession::Start.
//
// It retries transient errors. After UNAVAILABLE or a refusal with a retry hint it waits and asks
// for the missing lanes. After FAILED_PRECONDITION or a resync it asks again under the new epoch.
// Every attempt has an exchange number of its own.
//
// In pieces (RecallOptions::piece_bytes) a part may come without all of its units, which then
// follow as parts without lanes. If some do not arrive, the lanes are unknown. The session marks
// their slots as empty, and tells the server before the next recall. They are asked for again. A
// part with the same lanes comes, and the caller drops the one before it.
//
// Thread-safety: none; it belongs to the thread of its session. Ownership: the session outlives it.
#ifndef QUIRE_CLIENT_RECALL_SESSION_RECALL_H_
#define QUIRE_CLIENT_RECALL_SESSION_RECALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/recall/direct_landing.h"
#include "client/recall/recall_codec.h"
#include "client/retry.h"
#include "common/base/random.h"
#include "common/base/trace/span.h"
#include "quire/clock.h"
#include "quire/pending_recall.h"
#include "quire/recall.h"
#include "quire/status.h"
#include "quire/units.h"
#include "transport/transport.h"

namespace quire::internal {

class LandingArea;
class SessionState;

class SessionRecall final : public PendingRecall {
 public:
  /// For `owned`, or for `wants`, which outlive this, when that is empty. They are valid, and of
  /// lanes without a recall in flight.
  SessionRecall(SessionState* session, std::vector<LayerWant> owned,
                std::span<const LayerWant> wants, const RecallOptions& options, TimePoint deadline);
  ~SessionRecall() override;  ///< Cancels.

  /// Sends the first attempt; an error has ended the recall.
  [[nodiscard]] Status Launch();
  using PendingRecall::Next;
  TimePoint deadline() const override { return deadline_; }
  [[nodiscard]] StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override;
  void Cancel() override;

 private:
  friend class SessionState;
  /// Landing that the transport fills in an attempt; null when the units are to come as
  /// payload.
  Landing* ChooseLanding() const;
  DirectLanding::Lanes MissingLanes() const;
  std::span<const WantedLane> missing() const { return std::span(lanes_).subspan(arrived_); }
  /// True for a caller whose `deadline` has passed: it takes what has arrived, and never waits.
  bool IsPoll(TimePoint deadline) const;
  /// Sends an attempt for what is missing; before that, what the session needs, which waits.
  [[nodiscard]] Status Send();
  /// Waits until `deadline` for the next attempt's time.
  [[nodiscard]] Status WaitForAttempt(TimePoint deadline);
  /// Waits for a part of the attempt in flight, or its end.
  [[nodiscard]] StatusOr<std::optional<RecallPart>> Receive(TimePoint deadline);
  [[nodiscard]] StatusOr<RecallPart> Take(CallMessage body);
  /// Further units of the lanes in pieces.
  [[nodiscard]] StatusOr<RecallPart> TakePiece(CallMessage body);
  /// The first `count` of what is missing have come with all their units.
  void Arrive(size_t count);
  Status EarlyEnd() const;
  /// The attempt came to nothing: prepares another one, or ends the recall.
  void OnFailure(const Status& status);
  /// Cancels the attempt in flight, if there is one. Lanes in pieces are unknown from then on.
  void Abandon();
  void End(Status status);

  SessionState* const session_;
  const std::vector<LayerWant> owned_;
  const std::vector<WantedLane> lanes_;
  const RecallOptions options_;
  LandingArea* const area_;  ///< Area of options_; may be null.
  const TimePoint deadline_;
  SeededRandom jitter_;
  Attempts attempts_;
  std::unique_ptr<PendingCall> call_;  ///< Null between attempts.
  Landing* landing_ = nullptr;         ///< Landing of the attempt in flight (ChooseLanding).
  bool call_over_ = false;             ///< Nothing of call_ will arrive any more.
  uint64_t exchange_ = 0;              ///< Number of the attempt in flight.
  TimePoint asked_at_;                 ///< Before its request was sent.
  bool resynced_ = false;              ///< After FAILED_PRECONDITION, which is done once.
  std::vector<MismatchedUnit> told_;   ///< Mismatches that this attempt tells the server.
  bool mismatched_ = false;            ///< A unit of this attempt did not match its checksum.
  uint32_t rechecks_ = 0;              ///< Number of attempts for that reason.
  TimePoint not_before_;               ///< When the next attempt may be made.
  size_t arrived_ = 0;                 ///< Number of lanes_ that have come.
  size_t in_pieces_ = 0;               ///< Number of missing() lanes that have come in part.
  uint64_t bytes_to_come_ = 0;         ///< Payload of those lanes that has not come.
  bool ended_ = false;
  Status end_;  ///< Answer of Next after the end; OK when all parts arrived.
  Span span_;   ///< From the first attempt to the end.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_SESSION_RECALL_H_
