// SPDX-License-Identifier: Apache-2.0
//
// ClientConnection: the client's end of a connection: its calls, what has arrived for each, and the
// credit that the server gets back for it. FrameClient and its pending calls share it.
//
// The receiver only sorts frames into calls, and copies payload that the pipe lends to the call's
// landing; all else is copied, credit is given and cancels are sent by the threads that take parts.
// So a slow caller holds up nobody, and nothing is sent from inside the pipe's thread.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_FRAMES_CLIENT_CONNECTION_H_
#define QUIRE_TRANSPORT_FRAMES_CLIENT_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/frame.h"
#include "transport/transport.h"

namespace quire {

class ClientConnection final : public FrameReceiver {
 public:
  struct Options {
    std::string tenant;
    std::string ticket;
    uint64_t max_message_bytes = 0;
    uint64_t window_bytes = 0;
    Duration hello_timeout = {};
    Duration cancel_timeout = {};
  };
  /// A call and what has arrived of it; the connection's mutex guards all but the constants.
  struct Call {
    uint64_t id = 0;
    TimePoint deadline;
    Landing* landing = nullptr;
    CondVar changed;
    std::atomic<uint32_t> changes = 0;  ///< How often `changed` was told.
    std::deque<CallMessage> parts;
    uint64_t queued_bytes = 0;       ///< Of `parts`.
    uint64_t taken_bytes = 0;        ///< Of parts taken; the server has no credit for them yet.
    CallMessage arriving;            ///< Of a part whose last frame has not come.
    bool is_landing = false;         ///< The receiver copies a frame to the landing.
    bool landed_untaken = false;     ///< Something landed of parts that nobody takes any more.
    std::optional<Status> end;       ///< The server's last word, or the connection's.
    std::optional<Status> given_up;  ///< Why nobody waits any more.

    /// With the connection's mutex held.
    void Tell() {
      ++changes;
      changed.NotifyAll();
    }
  };
  using CallPtr = std::shared_ptr<Call>;

  ClientConnection(std::unique_ptr<FramePipe> pipe, const Options& options);
  ~ClientConnection() override { Close(); }

  /// Says hello and waits for the answer. Errors: the server's refusal; UNAVAILABLE;
  /// DEADLINE_EXCEEDED. Called once, first.
  Status Connect();

  StatusOr<CallPtr> Start(std::string_view method, CallMessage request, const CallOptions& options,
                          uint64_t landing_id, uint32_t max_parts);
  /// As PendingCall::Next.
  StatusOr<std::optional<CallMessage>> Next(Call& call, TimePoint deadline);
  /// Nobody waits for the call any more; parts that are there are let go.
  void GiveUp(Call& call, const Status& why);
  /// Returns when no byte of the call can arrive in its landing any more. Not from the receiver.
  /// The wait ends: the receiver copies one frame, which is here, to its end without waiting for
  /// anything; the server has `cancel_timeout` to say that it has stopped, and after that the pipe
  /// is closed.
  void AwaitQuiet(Call& call);
  /// As PendingCall.
  bool MayHaveLanded(const Call& call) const;
  bool IsQuiet(const Call& call) const;

  /// Ends the connection; every call ends with UNAVAILABLE. Idempotent. Not from the receiver.
  void Close();

  FramePipe& pipe() { return *pipe_; }
  const Options& options() const { return options_; }
  /// From the server's hello; 0 before.
  uint64_t id() const;
  /// The options' limit, or what fits in a frame.
  uint64_t max_message_bytes() const { return max_message_bytes_; }

  void OnFrame(Frame frame) override;
  void OnClosed(const Status& why) override;
  bool NeverWaits() const override { return true; }

 private:
  enum class Event { kPart, kEnd, kGivenUp, kTimedOut, kNotYet };

  Event Await(Call& call, TimePoint deadline) QUIRE_REQUIRES(mutex_);
  /// Lets go of the mutex until the call changes or it is `until`, without sleeping.
  void LookUntil(Call& call, TimePoint until) QUIRE_REQUIRES(mutex_);
  StatusOr<std::optional<CallMessage>> TakePart(Call& call) QUIRE_EXCLUDES(mutex_);
  /// The credit to give for what has been taken; 0 for not yet.
  uint64_t CreditDue(Call& call) QUIRE_REQUIRES(mutex_);
  void OnHelloReply(const FrameHead& head);
  void OnPart(const FrameHead& head, Frame frame);
  /// The call that a frame is for, marked as landing; null when nobody waits for it.
  CallPtr BeginPart(uint64_t id) QUIRE_EXCLUDES(mutex_);
  /// Takes the frame to what has come of its part, which the last one queues for the thread that
  /// takes parts. Errors are the server's.
  Status EndPart(Call& call, StatusOr<CallMessage> piece, bool is_last) QUIRE_EXCLUDES(mutex_);
  void OnEnd(const FrameHead& head);
  /// Ends the connection and all calls with `why`.
  void Fail(const Status& why) QUIRE_EXCLUDES(mutex_);
  /// The same for a server that sent `what`. Its calls end with INTERNAL, which nobody repeats;
  /// later ones are told that the connection is over, and go to the next.
  void Break(std::string_view what) QUIRE_EXCLUDES(mutex_);
  /// Ends the calls with `end`, unless the connection was over before; it is with `over` now.
  void EndCalls(const Status& over, const Status& end) QUIRE_REQUIRES(mutex_);
  Status SendHead(const FrameHead& head) { return pipe_->Send({.head = EncodeFrameHead(head)}); }

  const Options options_;
  const std::unique_ptr<FramePipe> pipe_;
  const bool direct_landing_;
  const uint64_t max_message_bytes_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, CallPtr> calls_ QUIRE_GUARDED_BY(mutex_);  ///< Without end.
  bool somebody_looks_ QUIRE_GUARDED_BY(mutex_) = false;        ///< In LookUntil.
  uint64_t next_id_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t connection_id_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t window_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<Status> over_ QUIRE_GUARDED_BY(mutex_);  ///< Why the connection ended.
  bool pipe_quiet_ QUIRE_GUARDED_BY(mutex_) = false;     ///< The pipe delivers nothing any more.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_CLIENT_CONNECTION_H_
