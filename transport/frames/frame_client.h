// SPDX-License-Identifier: Apache-2.0
//
// FrameClient: the client's end of a connection for one tenant, over one pipe to a FrameServer.
// Calls run concurrently. Each reply may have `window_bytes` of payload that its caller has not
// taken, so a slow caller delays only its own call. When the pipe dies every call ends with
// UNAVAILABLE. A server that violates the protocol ends every call with INTERNAL, which no retry
// helps. In both cases later calls are refused with UNAVAILABLE.
//
// The pipe's thread only sorts frames into calls. The threads that take parts send credit and
// cancels, so the pipe's thread never sends.
//
// Request slices without an owner are copied. Parts that name places go into the call's landing
// where the pipe can do that; otherwise they come as payload.
// Thread-safety: as Transport.
// Ownership: shared by its user, its calls and its landings; owns the pipe. Landings must end
// before the objects that their callbacks use.
#ifndef QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_
#define QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/threads/mutex.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/frame.h"
#include "transport/transport.h"

namespace quire {

class FrameClient final : public Transport,
                          private FrameReceiver,
                          public std::enable_shared_from_this<FrameClient> {
 public:
  /// Announces a landing to the server over the control channel. After WithdrawLanding returns, the
  /// server no longer writes there.
  using AnnounceLanding = std::function<Status(uint64_t connection_id, uint64_t landing_id,
                                               uint64_t bytes, std::string_view key)>;
  using WithdrawLanding = std::function<void(uint64_t connection_id, uint64_t landing_id)>;

  struct Options {
    std::string tenant = "default";
    std::string ticket;  ///< Ticket of the server's offer.
    /// Limited also by the largest frame.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
    /// Window of each call; at least 1.
    uint64_t window_bytes = uint64_t{32} << 20;
    Duration hello_timeout = std::chrono::seconds(10);
    /// Time for the server to confirm the end of a call with a landing. Exceeding it closes the
    /// connection, so that nothing can land any more.
    Duration cancel_timeout = std::chrono::seconds(10);
    /// How long one waiting caller spins before it sleeps. It pays where waking a thread takes
    /// longer than a reply: 40 to 80 us on a virtual machine. Not after the first 2 MiB of a reply.
    Duration spin = {};
    AnnounceLanding announce = nullptr;  ///< Null: keys stay here, and bytes come as payload.
    WithdrawLanding withdraw = nullptr;
    bool sends_traces = false;  ///< The server reads CallOptions::trace.
  };
  /// Sends a hello over `pipe`, which has not been started. Errors: UNAUTHENTICATED or another
  /// refusal of the server; UNAVAILABLE; DEADLINE_EXCEEDED.
  static StatusOr<std::shared_ptr<FrameClient>> Connect(std::unique_ptr<FramePipe> pipe,
                                                        const Options& options);
  ~FrameClient() override { Close(); }

  TransportCapabilities capabilities() const override;
  /// INVALID_ARGUMENT also for a tenant other than the connection's.
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override;
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override;

  /// Id from the server's hello.
  uint64_t connection_id() const;
  /// Ends the connection; every call ends with UNAVAILABLE. Idempotent. Not from the pipe's thread.
  void Close();

 private:
  class OwnLanding;
  class OwnCall;
  struct Arrivals;
  using ArrivalsPtr = std::shared_ptr<Arrivals>;
  enum class Event { kPart, kEnd, kGivenUp, kTimedOut, kNotYet };

  FrameClient(std::unique_ptr<FramePipe> pipe, const Options& options);

  /// Sends a hello and waits for the answer.
  Status Greet();
  StatusOr<std::unique_ptr<PendingCall>> StartParts(std::string_view method, CallMessage request,
                                                    const CallOptions& options, uint32_t max_parts);
  /// The landing's id; 0 for none. INVALID_ARGUMENT for a landing of another transport.
  StatusOr<uint64_t> LandingId(const Landing* landing) const;

  /// As PendingCall::Next.
  StatusOr<std::optional<CallMessage>> Next(Arrivals& call, TimePoint deadline);
  Event Await(Arrivals& call, TimePoint deadline) QUIRE_REQUIRES(mutex_);
  /// Releases the mutex until the call changes or `until`, without sleeping.
  void SpinUntil(Arrivals& call, TimePoint until) QUIRE_REQUIRES(mutex_);
  StatusOr<std::optional<CallMessage>> TakePart(Arrivals& call) QUIRE_EXCLUDES(mutex_);
  /// The credit to send for taken parts; 0 if it is not due.
  uint64_t CreditDue(Arrivals& call) QUIRE_REQUIRES(mutex_);
  /// Cancels the call and drops its parts.
  void GiveUp(Arrivals& call, const Status& why);
  /// Waits until no byte of the call can arrive in its landing. Not from the pipe's thread. The
  /// server has `cancel_timeout` to confirm it; then the pipe is closed.
  void AwaitQuiet(Arrivals& call);
  bool IsQuiet(const Arrivals& call) const;

  void OnFrame(Frame frame) override;
  void OnClosed(const Status& why) override;
  bool NeverWaits() const override { return true; }
  void OnHelloReply(const FrameHead& head);
  /// Handles a part, or a further piece of one.
  void OnPart(const FrameHead& head, Frame frame);
  /// Appends a frame's content to its call. Errors are faults of the server.
  Status Arrive(Arrivals& call, const FrameHead& head, CallMessage piece) QUIRE_REQUIRES(mutex_);
  void OnEnd(const FrameHead& head);
  /// Ends the connection and all calls with `why`.
  void Fail(const Status& why) QUIRE_EXCLUDES(mutex_);
  /// Ends the connection with a server that sent `what`. Its calls end with INTERNAL, which is not
  /// retried. Later calls find the connection ended, and use the next one.
  void Break(std::string_view what) QUIRE_EXCLUDES(mutex_);
  /// Ends the calls with `end`, unless the connection had ended before. It has ended with `over`
  /// now.
  void EndCalls(const Status& over, const Status& end) QUIRE_REQUIRES(mutex_);
  Status SendHead(const FrameHead& head) { return pipe_->Send({.head = EncodeFrameHead(head)}); }

  const Options options_;
  const std::unique_ptr<FramePipe> pipe_;
  const bool direct_landing_;
  const bool takes_at_once_;
  const uint64_t max_message_bytes_;
  std::atomic<uint64_t> next_landing_{1};

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, ArrivalsPtr> calls_ QUIRE_GUARDED_BY(mutex_);  ///< Calls without an end.
  /// True while a caller is in SpinUntil.
  bool spinner_active_ QUIRE_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t connection_id_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t window_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);  ///< Why the connection ended.
  /// True once the pipe delivers nothing more.
  bool pipe_quiet_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_
