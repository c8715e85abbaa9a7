// SPDX-License-Identifier: Apache-2.0
//
// FrameClient: the client's end of a connection, which is one pipe to a FrameServer, for one
// tenant. Calls run side by side. Each reply may take `window_bytes` of payload that its caller has
// not taken yet, so a slow caller holds up its own call only. When the pipe dies every call ends
// with UNAVAILABLE. A server that breaks the protocol ends every call with INTERNAL, which no
// attempt cures. Either way later calls are refused with UNAVAILABLE.
//
// The pipe's thread only sorts frames into calls. Credit is given and cancels are sent by the
// threads that take parts, so nothing is sent from inside the pipe's thread.
//
// Request slices without an owner are copied. Parts that name places are put into the call's
// landing where the pipe can do that; otherwise they come as payload.
// Thread-safety: as Transport. Ownership: shared by its user, its calls and its landings; owns the
// pipe. Landings end before what the landing callbacks stand on.
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

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/limits.h"
#include "transport/frame_pipe.h"
#include "transport/frames/frame.h"
#include "transport/transport.h"

namespace quire {

class FrameClient final : public Transport,
                          private FrameReceiver,
                          public std::enable_shared_from_this<FrameClient> {
 public:
  /// Tells the server of a landing over the control channel, and takes it back: when
  /// WithdrawLanding returns the server writes there no more.
  using AnnounceLanding = std::function<Status(uint64_t connection_id, uint64_t landing_id,
                                               uint64_t bytes, std::string_view key)>;
  using WithdrawLanding = std::function<void(uint64_t connection_id, uint64_t landing_id)>;

  struct Options {
    std::string tenant = "default";
    std::string ticket;                                          ///< From the server's offer.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Or what fits in a frame.
    uint64_t window_bytes = uint64_t{32} << 20;                  ///< Of each call; at least 1.
    Duration hello_timeout = std::chrono::seconds(10);
    /// How long the server has to confirm that a call with a landing has ended. After that the
    /// connection is closed, so that nothing can land any more.
    Duration cancel_timeout = std::chrono::seconds(10);
    /// How long a caller spins for what it waits for before it sleeps; one caller at a time. Worth
    /// it where waking a thread takes longer than a reply: 40 to 80 us on a virtual machine.
    Duration spin = {};
    AnnounceLanding announce = nullptr;  ///< Null: keys stay here, and bytes come as payload.
    WithdrawLanding withdraw = nullptr;
  };
  /// Says hello over `pipe`, which has not been started. Errors: UNAUTHENTICATED or another refusal
  /// of the server; UNAVAILABLE; DEADLINE_EXCEEDED.
  static StatusOr<std::shared_ptr<FrameClient>> Connect(std::unique_ptr<FramePipe> pipe,
                                                        const Options& options);
  ~FrameClient() override { Close(); }

  TransportCapabilities capabilities() const override;
  /// INVALID_ARGUMENT also for a tenant that is not the connection's.
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override;
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override;

  /// From the server's hello.
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

  /// Says hello and waits for the answer.
  Status Greet();
  StatusOr<std::unique_ptr<PendingCall>> StartParts(std::string_view method, CallMessage request,
                                                    const CallOptions& options, uint32_t max_parts);
  /// The landing's id; 0 for none. INVALID_ARGUMENT for a landing of another transport.
  StatusOr<uint64_t> LandingId(const Landing* landing) const;

  /// As PendingCall::Next.
  StatusOr<std::optional<CallMessage>> Next(Arrivals& call, TimePoint deadline);
  Event Await(Arrivals& call, TimePoint deadline) QUIRE_REQUIRES(mutex_);
  /// Lets go of the mutex until the call changes or it is `until`, without sleeping.
  void SpinUntil(Arrivals& call, TimePoint until) QUIRE_REQUIRES(mutex_);
  StatusOr<std::optional<CallMessage>> TakePart(Arrivals& call) QUIRE_EXCLUDES(mutex_);
  /// The credit to give for what has been taken; 0 for not yet.
  uint64_t CreditDue(Arrivals& call) QUIRE_REQUIRES(mutex_);
  /// Cancels the call and drops the parts that are there.
  void GiveUp(Arrivals& call, const Status& why);
  /// Returns when no byte of the call can arrive in its landing any more. Not from the pipe's
  /// thread. The server has `cancel_timeout` to say that it has stopped; then the pipe is closed.
  void AwaitQuiet(Arrivals& call);
  bool IsQuiet(const Arrivals& call) const;

  void OnFrame(Frame frame) override;
  void OnClosed(const Status& why) override;
  bool NeverWaits() const override { return true; }
  void OnHelloReply(const FrameHead& head);
  /// A part, or a further piece of one.
  void OnPart(const FrameHead& head, Frame frame);
  /// Puts what a frame brought behind what has come of its call. Errors are the server's.
  Status Arrive(Arrivals& call, const FrameHead& head, CallMessage piece) QUIRE_REQUIRES(mutex_);
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
  std::atomic<uint64_t> next_landing_{1};

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, ArrivalsPtr> calls_ QUIRE_GUARDED_BY(mutex_);  ///< Without end.
  bool spinner_active_ QUIRE_GUARDED_BY(mutex_) = false;            ///< In SpinUntil.
  uint64_t next_id_ QUIRE_GUARDED_BY(mutex_) = 1;
  uint64_t connection_id_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t window_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);  ///< Why the connection ended.
  bool pipe_quiet_ QUIRE_GUARDED_BY(mutex_) = false;       ///< The pipe delivers nothing any more.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_
