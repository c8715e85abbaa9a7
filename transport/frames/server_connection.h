// SPDX-License-Identifier: Apache-2.0
//
// ServerConnection: the server's end of a connection: its hello, the calls that run, and who of
// them sends next. FrameServer owns it.
//
// The pipe's thread only takes frames in. Handlers run on call threads and send their parts
// themselves, in turns (send_turns.h); the connection's own thread sends what no handler does
// (the answer to the hello, refusals, the ends of cancelled calls), and closes the pipe.
//
// A client has to take what it is sent: one that gives back less than a quarter of its window (or
// of what it owes, where a part was larger than that) within the stall timeout loses the call,
// however often it gives back a little; a frame that is on its way into the pipe for longer than
// that, while no more urgent one goes in beside it, ends the connection.
//
// A call that the client cancels ends at once for the client, also while its handler goes on: from
// then on the handler's writes fail. What a handler holds is let go when it returns.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_FRAMES_SERVER_CONNECTION_H_
#define QUIRE_TRANSPORT_FRAMES_SERVER_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/call_threads.h"
#include "transport/frames/frame.h"
#include "transport/frames/send_turns.h"
#include "transport/transport.h"

namespace quire {

/// What all connections of a server count.
struct ConnectionCounters {
  Counter calls, calls_refused, bytes_sent, cancelled, stalled, hello_refused;
};

class ServerConnection final : public FrameReceiver,
                               public std::enable_shared_from_this<ServerConnection> {
 public:
  struct Limits {
    uint64_t max_message_bytes = 0;
    uint64_t part_bytes = 0;
    uint64_t max_window_bytes = 0;
    uint64_t max_request_bytes = 0;  ///< Of all calls that run.
    uint32_t max_calls = 0;
    Duration hello_timeout = {};
    Duration stall_timeout = {};
  };
  /// What it stands on; all outlive it.
  struct Parts {
    CallHandler* handler = nullptr;
    CallThreads* threads = nullptr;
    ConnectionCounters* counters = nullptr;
    Health* health = nullptr;  ///< May be null.
    /// Checks a hello; the connection's tenant, or why it may not be. Calls BecomeOpen.
    std::function<Status(ServerConnection& connection, const FrameHead& hello)> admit;
  };

  ServerConnection(std::unique_ptr<FramePipe> pipe, uint64_t id, const Limits& limits,
                   const Parts& parts);
  ~ServerConnection() override;

  /// Begins to take frames. Called once.
  void Start();
  /// The hello was good: calls of `tenant` are taken from now on.
  void BecomeOpen(std::string_view tenant);
  /// Takes no more calls: they are UNAVAILABLE.
  void Drain();
  /// Waits until no call runs, or until `limit`.
  void AwaitIdle(TimePoint limit);
  /// Ends the connection and cancels its calls; does not wait for them. Not from the pipe's thread.
  void Close();
  /// Closes when a frame has been on its way into the pipe for longer than the stall timeout.
  void KillIfStuck(TimePoint now);
  /// Waits until every handler has returned and the pipe is closed. Not from a handler.
  void Join();

  uint64_t id() const { return id_; }
  std::string_view kind() const { return kind_; }
  bool IsOpenFor(std::string_view tenant) const;
  /// Over, and nothing of it runs any more: Join returns at once.
  bool IsFinished() const;

  /// As FramePipe; RESOURCE_EXHAUSTED over kMaxLandings. Calls that come while it runs do not have
  /// the landing yet.
  Status OpenLanding(uint64_t landing, std::string_view key, uint64_t bytes);
  void CloseLanding(uint64_t landing) { CloseLandingIf(landing, nullptr); }

  void OnFrame(Frame frame) override;
  void OnClosed(const Status& why) override;

 private:
  struct Call {
    uint64_t id = 0;
    std::string method;
    CallMessage request;
    uint64_t request_bytes = 0;
    CallContext context;
    CancelFlag cancelled;
    uint64_t landing = 0;
    uint64_t landing_bytes = 0;
    uint64_t piece_bytes = 0;  ///< Payload of a frame of a part.
    // Guarded by the connection's mutex:
    int64_t credit = 0;          ///< Negative after a part larger than the window.
    TimePoint waits_since;       ///< When it began to wait, or had got another step of credit.
    uint64_t credit_step = 0;    ///< What counts as progress while it waits.
    uint64_t credit_gained = 0;  ///< Since then.
    SendTurns::Turn* turn = nullptr;
    uint32_t parts = 0;
    bool sending = false;
    bool has_stalled = false;  ///< The client took next to nothing in time; still to be told.
    bool end_sent = false;     ///< Or about to be.
  };
  using CallPtr = std::shared_ptr<Call>;
  class Writer;
  class AnnouncedLanding;
  enum class State { kAwaitingHello, kOpen, kRefused };

  /// Ends the connection; the pipe is closed by the connection's thread.
  void Kill() QUIRE_EXCLUDES(mutex_);
  /// Counts and reports a client that takes next to nothing of a reply.
  void TellStalled() QUIRE_EXCLUDES(mutex_);
  void OnHello(const FrameHead& head);
  void OnRequest(FrameHead head, Payload payload);
  void OnCancel(uint64_t id);
  void OnCredit(uint64_t id, uint64_t bytes);
  /// Why the call may not run now; OK when it was entered.
  Status EnterCall(const CallPtr& call);
  void LeaveCall(Call& call);
  /// Why the landing may not be open now; OK for one that is.
  Status WhyNoLanding(uint64_t landing) const QUIRE_REQUIRES(mutex_);
  /// Closes the landing if it is `only`, or whichever it is for null.
  void CloseLandingIf(uint64_t landing, const AnnouncedLanding* only) QUIRE_EXCLUDES(mutex_);

  void RunCall(const CallPtr& call);
  Status WritePart(Call& call, CallMessage part);
  /// Sends one frame of a part when it is its turn and the call has `credit`, which it uses up.
  Status WriteFrame(Call& call, Frame frame, uint64_t credit);
  Status CheckPart(const Call& call, const CallMessage& part) const;
  void EndCall(Call& call, const Status& status);

  /// Waits for `turn`. An error when it will not come.
  Status AwaitTurn(Call& call, SendTurns::Turn& turn) QUIRE_REQUIRES(mutex_);
  /// Why the call may not go on; notes where that is its client's doing.
  Status WhyNot(Call& call, const SendTurns::Turn& turn, TimePoint now) QUIRE_REQUIRES(mutex_);
  TimePoint WakeAt(const Call& call, const SendTurns::Turn& turn) const QUIRE_REQUIRES(mutex_);
  /// Waits for a turn that needs no credit; false when the connection is over.
  bool AwaitOwnTurn(SendTurns::Turn& turn) QUIRE_REQUIRES(mutex_);
  static Frame EndFrame(const Call& call, const Status& status);
  Status Send(Frame frame) QUIRE_EXCLUDES(mutex_);
  void SendOut(Frame frame);
  void QueueEnd(const Call& call, const Status& status) QUIRE_REQUIRES(mutex_);

  /// The connection's own thread.
  void Run();
  bool AwaitOutgoing(Frame* frame);

  const uint64_t id_;
  const Limits limits_;
  const Parts parts_;
  const std::unique_ptr<FramePipe> pipe_;
  const std::string kind_;
  const uint64_t max_message_bytes_;
  const uint64_t piece_bytes_;
  const TimePoint hello_limit_;

  mutable Mutex mutex_;
  CondVar changed_;  ///< For the connection's thread and Join.
  State state_ QUIRE_GUARDED_BY(mutex_) = State::kAwaitingHello;
  std::string tenant_ QUIRE_GUARDED_BY(mutex_);
  uint64_t window_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, CallPtr> calls_ QUIRE_GUARDED_BY(mutex_);
  uint64_t request_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t running_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Handlers that have not returned.
  SendTurns turns_ QUIRE_GUARDED_BY(mutex_);
  TimePoint send_started_ QUIRE_GUARDED_BY(mutex_);  ///< The last that was.
  std::deque<Frame> outbox_ QUIRE_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<AnnouncedLanding>> landings_ QUIRE_GUARDED_BY(mutex_);
  bool draining_ QUIRE_GUARDED_BY(mutex_) = false;
  bool over_ QUIRE_GUARDED_BY(mutex_) = false;
  bool finished_ QUIRE_GUARDED_BY(mutex_) = false;
  Mutex join_mutex_;
  std::thread thread_ QUIRE_GUARDED_BY(join_mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_SERVER_CONNECTION_H_
