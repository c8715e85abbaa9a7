// SPDX-License-Identifier: Apache-2.0
//
// ServerConnection: the server's end of a connection: its hello, the running calls, and their order
// of sending. FrameServer owns it.
//
// The pipe's thread only receives frames. Handlers run on call threads and send their parts
// themselves, in turns (send_turns.h). The connection's own thread sends everything else: the
// answer to the hello, refusals, the ends of cancelled calls. It also closes the pipe.
//
// A client must take what it is sent. It must return a quarter of its window within the stall
// timeout, or a quarter of what it owes if a part was larger. Otherwise it loses the call, even if
// it returns a little now and then. A frame may take as long to enter the pipe, unless a more
// urgent one enters at the same time. Otherwise the connection ends.
//
// A call that the client cancels ends at once for the client, even while its handler runs. From
// then on the handler's writes fail. Objects that a handler holds are released when it returns.
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

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/call_threads.h"
#include "transport/frames/frame.h"
#include "transport/frames/send_turns.h"
#include "transport/transport.h"

namespace quire {

/// Counters over all connections of a server.
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
    uint64_t max_request_bytes = 0;  ///< Most request bytes of all running calls.
    uint32_t max_calls = 0;
    Duration hello_timeout = {};
    Duration stall_timeout = {};
  };
  /// The objects that it uses; all outlive it.
  struct Parts {
    CallHandler* handler = nullptr;
    CallThreads* threads = nullptr;
    ConnectionCounters* counters = nullptr;
    Health* health = nullptr;  ///< May be null.
    /// Checks a hello. Calls BecomeOpen, or returns why the connection is refused.
    std::function<Status(ServerConnection& connection, const FrameHead& hello)> admit;
  };

  ServerConnection(std::unique_ptr<FramePipe> pipe, uint64_t id, const Limits& limits,
                   const Parts& parts);
  ~ServerConnection() override;

  /// Begins to receive frames. Call it once.
  void Start();
  /// Accepts the hello: calls of `tenant` are taken from now on.
  void BecomeOpen(std::string_view tenant);
  /// Refuses further calls with UNAVAILABLE.
  void Drain();
  /// Waits until no call runs, or until `limit`.
  void AwaitIdle(TimePoint limit);
  /// Ends the connection and cancels its calls; does not wait for them. Not from the pipe's thread.
  void Close();
  /// Closes the pipe if a frame has been entering it for longer than the stall timeout.
  void KillIfStuck(TimePoint now);
  /// Waits until every handler has returned and the pipe is closed. Not from a handler.
  void Join();

  uint64_t id() const { return id_; }
  std::string_view kind() const { return kind_; }
  bool IsOpenFor(std::string_view tenant) const;
  /// True once the connection has ended and nothing of it runs: Join then returns at once.
  bool IsFinished() const;

  /// As FramePipe; RESOURCE_EXHAUSTED over kMaxLandings. Calls that arrive while it runs do not
  /// have the landing yet.
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
    TimePoint waits_since;       ///< Start of the wait, or of the latest step of credit.
    uint64_t credit_step = 0;    ///< Credit that counts as progress during a wait.
    uint64_t credit_gained = 0;  ///< Credit gained since waits_since.
    SendTurns::Turn* turn = nullptr;
    uint32_t parts = 0;
    bool sending = false;
    /// The client took next to nothing in time, and this is not reported yet.
    bool has_stalled = false;
    bool end_sent = false;  ///< True once the end is sent, or about to be.
  };
  using CallPtr = std::shared_ptr<Call>;
  class Writer;
  class AnnouncedLanding;
  enum class State { kAwaitingHello, kOpen, kRefused };

  /// Ends the connection; the pipe is closed by the connection's thread.
  void Kill() QUIRE_EXCLUDES(mutex_);
  /// Counts and reports a client that takes next to nothing of a reply.
  void ReportStalled() QUIRE_EXCLUDES(mutex_);
  void OnHello(const FrameHead& head);
  void OnRequest(FrameHead head, Payload payload);
  void OnCancel(uint64_t id);
  void OnCredit(uint64_t id, uint64_t bytes);
  /// Enters a call. Returns why it may not run now, or OK.
  Status EnterCall(const CallPtr& call);
  void LeaveCall(Call& call);
  /// OK for an open landing; otherwise why it is not open.
  Status CheckLanding(uint64_t landing) const QUIRE_REQUIRES(mutex_);
  /// Closes the landing if it is `only`, or any for null.
  void CloseLandingIf(uint64_t landing, const AnnouncedLanding* only) QUIRE_EXCLUDES(mutex_);

  void RunCall(const CallPtr& call);
  Status WritePart(Call& call, CallMessage part);
  /// Sends one frame of a part at its turn, once the call has `credit`, and uses up that credit.
  Status WriteFrame(Call& call, Frame frame, uint64_t credit);
  Status CheckPart(const Call& call, const CallMessage& part) const;
  void EndCall(Call& call, const Status& status);

  /// Waits for `turn`; returns an error if it will not be granted.
  Status AwaitTurn(Call& call, SendTurns::Turn& turn) QUIRE_REQUIRES(mutex_);
  /// Returns why the call may not continue, and counts faults of its client.
  Status CheckMayProceed(Call& call, const SendTurns::Turn& turn, TimePoint now)
      QUIRE_REQUIRES(mutex_);
  TimePoint WakeAt(const Call& call, const SendTurns::Turn& turn) const QUIRE_REQUIRES(mutex_);
  /// Waits for a turn that needs no credit; false if the connection has ended.
  bool AwaitOwnTurn(SendTurns::Turn& turn) QUIRE_REQUIRES(mutex_);
  static Frame EndFrame(const Call& call, const Status& status);
  Status Send(Frame frame) QUIRE_EXCLUDES(mutex_);
  void SendOut(Frame frame);
  void QueueEnd(const Call& call, const Status& status) QUIRE_REQUIRES(mutex_);

  /// Loop of the connection's own thread.
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
  TimePoint send_started_ QUIRE_GUARDED_BY(mutex_);  ///< Start of the latest send.
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
