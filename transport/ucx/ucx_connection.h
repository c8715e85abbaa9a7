// SPDX-License-Identifier: Apache-2.0
//
// UcxConnection: the state behind a UCX pipe: handshake, frames in both directions, landings, and
// the end. The pipe shares it with the UCX operations in flight.
// Thread-safety: as stated at the methods. Members without a mutex belong to the worker's thread.
#ifndef QUIRE_TRANSPORT_UCX_UCX_CONNECTION_H_
#define QUIRE_TRANSPORT_UCX_UCX_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/ucx/frames/frame_cuts.h"
#include "transport/ucx/frames/frame_delivery.h"
#include "transport/ucx/frames/frame_order.h"
#include "transport/ucx/frames/send_queue.h"
#include "transport/ucx/puts/ucx_landing.h"
#include "transport/ucx/puts/ucx_put_window.h"
#include "transport/ucx/ucx.h"
#include "transport/ucx/ucx_endpoint.h"
#include "transport/ucx/ucx_worker.h"

namespace quire {

class UcxConnection final : public UcxMessageSink,
                            public std::enable_shared_from_this<UcxConnection> {
 public:
  enum class Role { kClient, kServer };

  UcxConnection(Role role, std::shared_ptr<UcxWorker> worker, const UcxOptions& options);

  // On the worker's thread.
  Status Connect(const SocketAddress& address);
  Status Accept(ucp_conn_request_h request);
  /// Accepts the client's hello and sends the welcome.
  void Welcome(const UcxHello& hello);
  ucp_ep_h endpoint_handle() const { return endpoint_->handle(); }
  void OnMessage(UcxMessage message) override;
  void OnBrokenMessage(const Status& why) override { Fail(why); }

  // From any thread: see FramePipe.
  /// Waits for the handshake.
  Status WaitUntilOpen(Duration timeout) QUIRE_EXCLUDES(mutex_);
  PipeCapabilities capabilities() QUIRE_EXCLUDES(mutex_);
  void Start(FrameReceiver* receiver);
  Status Send(Frame frame) QUIRE_EXCLUDES(mutex_);
  StatusOr<std::string> AddLanding(uint64_t id, std::span<std::byte> memory);
  void RemoveLanding(uint64_t id) QUIRE_EXCLUDES(mutex_);
  Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes);
  void CloseLanding(uint64_t id) QUIRE_EXCLUDES(mutex_);
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes);
  void Close() QUIRE_EXCLUDES(mutex_);

 private:
  enum class Phase { kConnecting, kOpen, kClosed };
  struct Outgoing;
  /// A landing of the client at the server, and the callbacks that wait for its end.
  struct OpenedLanding {
    std::shared_ptr<UcxRemoteLanding> remote;
    uint32_t frames_under_way = 0;
    std::vector<std::function<void()>> when_idle;
  };

  // On the worker's thread.
  void Begin(std::unique_ptr<UcxEndpoint> endpoint);
  UcxEndpoint::OnError ErrorHandler();
  void SetOpen(uint64_t peer_window) QUIRE_EXCLUDES(mutex_);
  void Fail(const Status& why) QUIRE_EXCLUDES(mutex_);
  void SendControl(UcxKind kind, uint64_t landing, uint64_t argument, std::vector<std::byte> data);
  void SendQueued() QUIRE_EXCLUDES(mutex_);
  /// Sends about piece_bytes of the queued frames that UCX may have, or all of them; false when
  /// none is left.
  bool SendPiece(bool all) QUIRE_EXCLUDES(mutex_);
  /// Sends a frame that counts as `bytes`.
  void SendFrame(Frame frame, uint64_t bytes);
  /// Bounds of the messages in which a frame is sent.
  CutBounds BoundsOf(const Frame& frame) const;
  /// The message of a frame, or a piece of one. `lands`: its payload goes by puts.
  std::shared_ptr<Outgoing> MessageOf(UcxKind kind, Frame frame, uint64_t bytes, bool lands);
  /// Posts SendQueued to the worker's thread.
  void PostSending() QUIRE_REQUIRES(mutex_);
  bool LandsDirectly(const Frame& frame) const;
  void PutFrame(const std::shared_ptr<Outgoing>& out);
  void SendMessage(const std::shared_ptr<Outgoing>& out);
  UcxDone SendDone(std::shared_ptr<Outgoing> out);
  void EndSend(Outgoing& out, ucs_status_t status) QUIRE_EXCLUDES(mutex_);
  void ReceiveTaken(uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  void ReceiveWelcome(const UcxMessage& message);
  void ReceiveFrame(UcxMessage message);
  void Process(UcxMessage message);
  /// Adds a message to the frame that is arriving.
  Status AddMessage(UcxMessage& message);
  /// Refuses a message that no correct peer sends after the pieces before it.
  Status CheckMessage(const UcxHeader& header) const;
  Status PlacePayload(UcxMessage& message, Frame* frame);
  /// Waits until the client has every frame that Send accepted, at most kUcxLinger while it takes
  /// nothing. Completion in UCX is not enough: closing the endpoint loses what the client has not
  /// read.
  void AwaitReceived() QUIRE_EXCLUDES(mutex_);
  /// Tells the server once all frames that it announced have arrived.
  void ReportEndReached();
  StatusOr<OwnedMemory> AllocateOnThread(uint64_t bytes);
  /// The memory allocated here that contains `memory`; null if none does.
  std::shared_ptr<UcxMemory> AllocatedAround(std::span<std::byte> memory) const;
  void AddLandingOnThread(uint64_t id, std::span<std::byte> memory, StatusOr<std::string>* key);
  /// Returns false when there is nothing to wait for.
  bool RemoveLandingOnThread(uint64_t id);
  /// Returns true if the peer confirmed in time that it no longer writes there, while the
  /// connection was open.
  bool WaitForLandingClosed(uint64_t id) QUIRE_EXCLUDES(mutex_);
  /// Waits, after the end of the connection, until UCX delivers nothing more. Not from the worker's
  /// thread. The wait always ends: Fail drops the endpoint, which releases everything after at most
  /// twice kUcxLinger (UcxEndpoint::State::Shut, CloseNow). It has no limit of its own, because
  /// memory that UCX may still write to must not be freed.
  void WaitForEndpointGone() QUIRE_EXCLUDES(mutex_);
  Status OpenLandingOnThread(uint64_t id, std::string_view key, uint64_t bytes);
  /// Calls `closed` once nothing more is written there.
  void CloseLandingOnThread(uint64_t id, std::function<void()> closed);
  void FrameLanded(uint64_t landing);
  /// True if the server writes into landings: both ends agree to it, and a lane does so natively.
  bool WritesLandings() const { return wants_keys_ && endpoint_->WritesRemoteMemory(); }
  /// Stores the present abilities of the lanes for capabilities().
  void ReportLanes() QUIRE_EXCLUDES(mutex_);

  const Role role_;
  const std::shared_ptr<UcxWorker> worker_;
  const UcxOptions options_;
  const UcxToken token_;

  Mutex mutex_;
  CondVar changed_;
  Phase phase_ QUIRE_GUARDED_BY(mutex_) = Phase::kConnecting;
  Status why_closed_ QUIRE_GUARDED_BY(mutex_);
  SendQueue queue_ QUIRE_GUARDED_BY(mutex_);
  uint64_t window_ QUIRE_GUARDED_BY(mutex_) = 0;
  /// Bytes sent that the peer has not taken.
  uint64_t untaken_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  /// True while SendQueued is posted or runs.
  bool send_posted_ QUIRE_GUARDED_BY(mutex_) = false;
  bool direct_ QUIRE_GUARDED_BY(mutex_) = false;
  bool end_reached_ QUIRE_GUARDED_BY(mutex_) = false;    ///< True once the client has every frame.
  bool endpoint_gone_ QUIRE_GUARDED_BY(mutex_) = false;  ///< True once UCX has closed the endpoint.
  std::set<uint64_t> landings_ending_ QUIRE_GUARDED_BY(mutex_);

  FrameDelivery delivery_;

  // Used by the worker's thread only.
  std::unique_ptr<UcxEndpoint> endpoint_;
  std::shared_ptr<UcxPutWindow> puts_;
  bool open_ = false;
  bool wants_keys_ = false;  ///< True if both ends take part in direct landings.
  bool closed_ = false;
  UcxToken peer_;
  UcxSecret secret_ = {};
  uint64_t next_sequence_ = 0;
  uint64_t next_serial_ = 1;
  FrameOrder<UcxMessage> order_{4096};
  Frame arriving_;                 ///< A frame of which pieces have arrived.
  uint64_t arriving_payload_ = 0;  ///< Bytes of these pieces.
  /// Number of frames and pieces that the server sends in all; null until it announces it.
  std::optional<uint64_t> end_;
  std::map<uint64_t, UcxLocalLanding> local_landings_;
  std::map<uint64_t, OpenedLanding> opened_landings_;
  ReplayWindow used_serials_;
  std::vector<std::weak_ptr<UcxMemory>> allocated_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_CONNECTION_H_
