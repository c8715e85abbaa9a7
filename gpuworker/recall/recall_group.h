// SPDX-License-Identifier: Apache-2.0
//
// RecallGroup: the recalls of sequences that share a session, in few messages. Wants collect until
// Send, and leave as one message per priority, the most urgent first. Each sequence then takes its
// own lane out of the reply. A decode step makes at most two requests a layer, a correction and a
// prefetch.
//
// A failure hits one sequence only. A failed shared message does not name the lane at fault. Every
// missing lane is requested once more, in a message of its own; only lanes that fail again fail.
// Dropping a lane before it has arrived cancels its message. Lanes are dropped for a correction,
// for a newer selection, and at the end of a sequence. The other lanes leave again with the next
// Send, in a message of their own.
//
// Thread-safety: none; it belongs to the thread of its session. Ownership: the session and its
// staging area outlive the group; the group its channels and their recalls.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_GROUP_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "gpuworker/recall/recall_channel.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::worker {

class RecallGroup {
 public:
  RecallGroup(ClientSession* session, const StagingArea* staging)
      : session_(session), staging_(staging) {}
  RecallGroup(const RecallGroup&) = delete;
  RecallGroup& operator=(const RecallGroup&) = delete;

  /// The channel of a sequence of the session, which the staging area has a place for.
  std::unique_ptr<RecallChannel> Channel(uint32_t sequence);
  /// Sends the wants since the last call. One that cannot be sent fails where it is waited for.
  void Send();

  /// Messages sent so far, and the lanes that they asked for.
  uint64_t messages() const { return messages_; }
  uint64_t lanes() const { return lanes_; }

 private:
  class GroupChannel;
  class GroupRecall;
  struct Message;
  struct Ticket;
  using Tickets = std::vector<std::shared_ptr<Ticket>>;

  std::shared_ptr<Ticket> Enqueue(LayerWant want, const RecallOptions& options);
  void SendAll(Tickets waiting);
  /// Sends `tickets`, which have the same options, as one message.
  void SendTogether(const Tickets& tickets);
  /// Waits for the next part of a message, or for its end, and distributes it.
  [[nodiscard]] Status Receive(std::shared_ptr<Message> message, TimePoint deadline);
  void Distribute(const Message& message, RecallPart part);
  /// The message failed with `status`.
  void OnFailure(std::shared_ptr<Message> message, const Status& status);
  void GiveUp(Ticket& ticket);

  ClientSession* const session_;
  const StagingArea* const staging_;
  Tickets queue_;
  Tickets again_;  ///< Their message was given up for another lane. Not to ride with new ones.
  uint64_t messages_ = 0;
  uint64_t lanes_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_GROUP_H_
