// SPDX-License-Identifier: Apache-2.0
//
// FrameClient: calls over one connection, which is one pipe to a FrameServer, for one tenant. Calls
// run side by side; each reply may take `window_bytes` of payload that nobody has taken yet, so a
// caller that is slow holds up its own call only. When the pipe dies every call ends with
// UNAVAILABLE, and where the server sent what does not belong there with INTERNAL, which no attempt
// cures; the client is of no use any more and refuses further calls with UNAVAILABLE.
//
// Request slices without an owner are copied. Parts that name places are put into the call's
// landing by the pipe where it can do that, otherwise by the thread that takes them; without a
// landing they come as payload whose slices are those that the server had.
// Thread-safety: as Transport. Ownership: owns the pipe; pending calls may outlive the client,
// which ends them; landings end before what the landing callbacks stand on.
#ifndef QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_
#define QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/client_connection.h"
#include "transport/transport.h"

namespace quire {

class FrameClient final : public Transport {
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
    /// How long the server has to confirm that a call with a landing has ended; then the connection
    /// is closed, so that nothing can land any more.
    Duration cancel_timeout = std::chrono::seconds(10);
    AnnounceLanding announce = nullptr;  ///< Null: keys stay here, and bytes come as payload.
    WithdrawLanding withdraw = nullptr;
  };
  /// Says hello over `pipe`, which has not been started. Errors: UNAUTHENTICATED or another refusal
  /// of the server; UNAVAILABLE; DEADLINE_EXCEEDED.
  static StatusOr<std::unique_ptr<FrameClient>> Connect(std::unique_ptr<FramePipe> pipe,
                                                        const Options& options);
  ~FrameClient() override;

  TransportCapabilities capabilities() const override;
  /// INVALID_ARGUMENT also for a tenant that is not the connection's.
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(LandingMemory memory) override;
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override;

  uint64_t connection_id() const { return connection_->id(); }

 private:
  FrameClient(std::shared_ptr<ClientConnection> connection, const Options& options)
      : connection_(std::move(connection)), options_(options) {}
  StatusOr<std::unique_ptr<PendingCall>> StartParts(std::string_view method, CallMessage request,
                                                    const CallOptions& options, uint32_t max_parts);

  const std::shared_ptr<ClientConnection> connection_;
  const Options options_;
  std::atomic<uint64_t> next_landing_{1};
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_CLIENT_H_
