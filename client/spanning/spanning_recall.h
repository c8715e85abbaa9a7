// SPDX-License-Identifier: Apache-2.0
//
// SpanningRecall: a recall of a SpanningSession in flight, which is one recall of each part that it
// needs. A lane is handed out when all of its nodes have sent theirs. Thread-safety: as
// PendingRecall. Ownership: the session outlives it.
#ifndef QUIRE_CLIENT_SPANNING_SPANNING_RECALL_H_
#define QUIRE_CLIENT_SPANNING_SPANNING_RECALL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/spanning/lane_merge.h"
#include "client/spanning/spanning_session.h"
#include "quire/clock.h"
#include "quire/pending_recall.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::internal {

class SpanningRecall final : public PendingRecall {
 public:
  /// For wants that passed the session's checks.
  SpanningRecall(SpanningSession* session, std::span<const LayerWant> wants);
  ~SpanningRecall() override { Cancel(); }

  /// Asks every part; an error has ended the recall.
  [[nodiscard]] Status Launch(const RecallOptions& options);
  /// Parts that were asked.
  size_t num_messages() const { return streams_.size(); }

  using PendingRecall::Next;
  TimePoint deadline() const override { return deadline_; }
  [[nodiscard]] StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override;
  void Cancel() override;

 private:
  using Part = SpanningSession::Part;
  /// The wants of one part, and its lanes that have come and were not handed out.
  struct Stream {
    std::shared_ptr<Part> part;
    std::vector<LayerWant> wants;
    std::unique_ptr<PendingRecall> recall;
    std::deque<RecallPart> lanes;
  };
  /// A lane, and the streams that bring it.
  struct Lane {
    PlannedLane planned;  ///< Only sequence and layer, unless it spans nodes.
    bool spans = false;
    std::vector<size_t> streams;  ///< Stream of each fragment; kNothing for one not asked.
  };
  static constexpr size_t kNothing = SIZE_MAX;

  void AddWhole(const LayerWant& want);
  void AddSpanning(const LayerWant& want);
  size_t StreamOf(const std::shared_ptr<Part>& part);
  /// Waits until a lane of the stream is there. DEADLINE_EXCEEDED may be passing (IsPassing).
  Status Await(Stream& stream, TimePoint deadline);
  bool IsPassing(const Stream& stream, const Status& status) const;
  StatusOr<RecallPart> Take(Lane& lane);
  /// The next lane of a stream, which has to be that one.
  StatusOr<RecallPart> TakePiece(Stream& stream, uint32_t sequence, uint32_t layer);
  void End(Status status);

  SpanningSession& session_;
  std::vector<Stream> streams_;
  std::vector<Lane> lanes_;  ///< In the order asked.
  size_t arrived_ = 0;
  TimePoint deadline_ = TimePoint::max();
  bool ended_ = false;
  Status end_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_SPANNING_RECALL_H_
