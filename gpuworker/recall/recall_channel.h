// SPDX-License-Identifier: Apache-2.0
//
// RecallChannel: how one sequence's recalls reach its session. A sequence that has a session of its
// own sends each at once (SessionChannel); those of a batch share messages (recall_group.h).
//
// Thread-safety: none; channels and recalls of a session belong to its thread. Ownership: the
// channel outlives its recalls.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_CHANNEL_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_CHANNEL_H_

#include <memory>
#include <optional>

#include "gpuworker/recall/staging_area.h"
#include "quire/clock.h"
#include "quire/recall.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::worker {

/// A recall of one lane in flight; PendingRecall is one of several. The destructor cancels it.
class ChannelRecall {
 public:
  virtual ~ChannelRecall() = default;
  /// When it is over, whatever has come (the client's clock).
  virtual TimePoint deadline() const = 0;
  /// Waits for the lane's part, or for a further piece of it (RecallPart::bytes_to_come); nullopt
  /// after all of it. Errors, and a part that comes anew, as PendingRecall::Next.
  virtual StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) = 0;
  StatusOr<std::optional<RecallPart>> Next() { return Next(deadline()); }
};

class RecallChannel {
 public:
  virtual ~RecallChannel() = default;
  /// Requests `want`, which has one layer. The channel fills in the sequence and the landing. It
  /// may delay the message until the part is awaited. Options may ask for units in pieces; the
  /// channel may ignore that. Payload is valid until the next recall of its lane is started.
  virtual StatusOr<std::unique_ptr<ChannelRecall>> Start(LayerWant want,
                                                         const RecallOptions& options) = 0;
  /// ClientSession::Applied.
  virtual void Applied(const RecallPart& part) = 0;
  /// ClientSession::Invalidate.
  virtual void Invalidate(const RecallPart& part) = 0;
  /// The slots of `layer` are empty; the server learns it before the next recall.
  virtual void Forget(uint32_t layer) = 0;
  /// ClientSession::Mismatched, of a unit of the channel's sequence.
  virtual void Mismatched(MismatchedUnit unit) = 0;
};

/// A message for each want.
class SessionChannel final : public RecallChannel {
 public:
  /// For `sequence` of `session`, whose units land in `staging` if that has a place for them. Both
  /// outlive this.
  SessionChannel(ClientSession* session, const StagingArea* staging, uint32_t sequence)
      : session_(session), staging_(staging), sequence_(sequence) {}

  StatusOr<std::unique_ptr<ChannelRecall>> Start(LayerWant want,
                                                 const RecallOptions& options) override;
  void Applied(const RecallPart& part) override { session_->Applied(part); }
  void Invalidate(const RecallPart& part) override { session_->Invalidate(part); }
  void Forget(uint32_t layer) override {
    session_->Invalidate({.lanes = {{.sequence = sequence_, .layer = layer}}});
  }
  void Mismatched(MismatchedUnit unit) override {
    unit.sequence = sequence_;
    session_->Mismatched(unit);
  }

 private:
  ClientSession* const session_;
  const StagingArea* const staging_;
  const uint32_t sequence_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_CHANNEL_H_
