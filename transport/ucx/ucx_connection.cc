// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/random.h"
#include "quire/clock.h"
#include "transport/ucx/ucx_settings.h"
#include "transport/ucx/ucx_status.h"

namespace quire {
namespace {

constexpr uint32_t kMaxPuts = 64;
/// Payload of a message that UCX packs, with room for what follows it.
constexpr uint64_t kPackedBytes = kUcxInPlaceBytes - (4 << 10);
static_assert(kPackedBytes >= kLeastUcxPieceBytes);
/// How long closing waits for a client that takes its last frames slowly.
constexpr Duration kLongestLinger = 5 * kUcxLinger;

/// A one-time notification from one thread to another that waits. Thread-safe.
class Notification {
 public:
  void Notify() {
    MutexLock lock(mutex_);
    notified_ = true;
    changed_.NotifyAll();
  }
  /// Waits; false on timeout.
  bool Await(Duration timeout) {
    const TimePoint deadline = SystemClock().Now() + timeout;
    MutexLock lock(mutex_);
    while (!notified_) {
      const Duration left = deadline - SystemClock().Now();
      if (left <= Duration::zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool notified_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace

/// A message in flight, with all the memory that UCX reads.
struct UcxConnection::Outgoing {
  std::array<std::byte, UcxHeader::kEncodedBytes> header;
  std::vector<std::byte> tail;  ///< Follows the payload.
  std::vector<ucp_dt_iov_t> data;
  uint64_t data_bytes = 0;
  std::vector<std::byte> gathered;  ///< The data in one piece, if UCX requires that.
  Frame frame;
  uint64_t bytes = 0;  ///< Bytes that it counts as in the queue.

  void Append(std::span<const std::byte> piece) {
    if (piece.empty()) return;
    data.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    data_bytes += piece.size();
  }
  /// Puts the data in one piece.
  void Gather() {
    gathered.reserve(data_bytes);
    for (const ucp_dt_iov_t& piece : data) {
      const auto* const begin = static_cast<const std::byte*>(piece.buffer);
      gathered.insert(gathered.end(), begin, begin + piece.length);
    }
    data.assign(1, {gathered.data(), gathered.size()});
    frame.payload = {};
  }
};

UcxConnection::UcxConnection(Role role, std::shared_ptr<UcxWorker> worker,
                             const UcxOptions& options)
    : role_(role),
      worker_(std::move(worker)),
      options_(options),
      token_(MakeUcxToken(SystemRandom())),
      queue_(options.given_bytes),
      delivery_([this](uint64_t bytes) {
        worker_->Post([weak = weak_from_this(), bytes] {
          if (const auto self = weak.lock()) self->SendControl(UcxKind::kTaken, 0, bytes, {});
        });
      }) {}

// The handshake.

UcxEndpoint::OnError UcxConnection::ErrorHandler() {
  return [weak = weak_from_this()](const Status& why) {
    if (const auto self = weak.lock()) self->Fail(why);
  };
}

void UcxConnection::Begin(std::unique_ptr<UcxEndpoint> endpoint) {
  endpoint_ = std::move(endpoint);
  puts_ = std::make_shared<UcxPutWindow>(endpoint_.get(), kMaxPuts);
  worker_->AddSink(token_, this);
  // Keeps the connection until the endpoint is closed: the worker has it as a sink, and UCX may
  // deliver until then.
  endpoint_->KeepUntilClosed({nullptr, [self = shared_from_this()](const void*) {
                                MutexLock lock(self->mutex_);
                                self->endpoint_gone_ = true;
                                self->changed_.NotifyAll();
                              }});
}

Status UcxConnection::Connect(const SocketAddress& address) {
  QUIRE_ASSIGN_OR_RETURN(auto endpoint,
                         UcxEndpoint::Connect(worker_, address, options_, ErrorHandler()));
  Begin(std::move(endpoint));
  SendControl(UcxKind::kHello, 0, 0,
              EncodeUcxHello({token_, options_.direct_landings, options_.queue_bytes}));
  return OkStatus();
}

Status UcxConnection::Accept(ucp_conn_request_h request) {
  QUIRE_ASSIGN_OR_RETURN(auto endpoint,
                         UcxEndpoint::Accept(worker_, request, options_, ErrorHandler()));
  Begin(std::move(endpoint));
  return OkStatus();
}

void UcxConnection::Welcome(const UcxHello& hello) {
  if (closed_) return;
  peer_ = hello.client;
  wants_keys_ = options_.direct_landings && hello.direct_landings;
  SystemRandom().Fill(secret_);
  SendControl(UcxKind::kWelcome, 0, 0,
              EncodeUcxWelcome({token_, secret_, wants_keys_, options_.queue_bytes}));
  SetOpen(hello.window_bytes);
}

void UcxConnection::ReceiveWelcome(const UcxMessage& message) {
  if (role_ == Role::kServer || open_) {
    return Fail(InvalidArgument("the UCX peer welcomes a connection that is open already"));
  }
  const auto welcome = DecodeUcxWelcome(message.data());
  if (!welcome.ok()) return Fail(welcome.status());
  peer_ = welcome->server;
  secret_ = welcome->secret;
  wants_keys_ = options_.direct_landings && welcome->direct_landings;
  SetOpen(welcome->window_bytes);
}

void UcxConnection::SetOpen(uint64_t peer_window) {
  if (closed_) return;  // The message before may have closed it.
  open_ = true;
  worker_->TuneLocalConnections();
  ReportLanes();
  // Half of what the peer may send, so that it never waits for a report of frames not yet sent.
  delivery_.SetReportBytes(std::min(peer_window, options_.queue_bytes) / 2);
  MutexLock lock(mutex_);
  phase_ = Phase::kOpen;
  window_ = std::min(peer_window, options_.queue_bytes);
  changed_.NotifyAll();
}

Status UcxConnection::WaitUntilOpen(Duration timeout) {
  const TimePoint deadline = SystemClock().Now() + timeout;
  MutexLock lock(mutex_);
  while (phase_ == Phase::kConnecting) {
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) return Unavailable("no answer in time");
    changed_.WaitFor(mutex_, left);
  }
  return phase_ == Phase::kOpen ? OkStatus() : why_closed_;
}

void UcxConnection::ReportLanes() {
  const bool direct = WritesLandings();
  MutexLock lock(mutex_);
  direct_ = direct;
}

PipeCapabilities UcxConnection::capabilities() {
  MutexLock lock(mutex_);
  return {.name = "ucx",
          .max_frame_bytes = options_.max_frame_bytes,
          .piece_bytes = options_.piece_bytes,
          .in_place = false,
          .direct_landing = direct_,
          .detail = direct_                    ? "the server writes into landings"
                    : options_.direct_landings ? "no lane writes remote memory: messages"
                                               : "messages"};
}

// The end.

void UcxConnection::Fail(const Status& why) {
  if (closed_) return;
  closed_ = true;
  {
    MutexLock lock(mutex_);
    phase_ = Phase::kClosed;
    why_closed_ = why;
    queue_.Clear();
    changed_.NotifyAll();
  }
  worker_->RemoveSink(token_);
  delivery_.End(why);
  // Posted, because this may be a callback of the endpoint, which cannot be closed there.
  worker_->Post([self = shared_from_this()] {
    self->puts_->Stop();
    self->arriving_ = {};
    for (auto& [id, landing] : self->opened_landings_) {
      self->endpoint_->KeepUntilClosed(std::move(landing.remote));
    }
    self->endpoint_.reset();
    for (auto& [id, landing] : self->opened_landings_) {
      for (const auto& idle : landing.when_idle) idle();
    }
    self->opened_landings_.clear();
  });
}

void UcxConnection::AwaitReceived() {
  const TimePoint limit = SystemClock().Now() + kLongestLinger;
  MutexLock lock(mutex_);
  if (phase_ != Phase::kOpen || untaken_bytes_ == 0) return;
  worker_->Post([self = shared_from_this()] {
    while (self->SendPiece(/*all=*/true)) {  // Queued frames are counted in the announced number.
    }
    self->SendControl(UcxKind::kEnd, 0, self->next_sequence_, {});
  });
  uint64_t untaken = untaken_bytes_;
  TimePoint idle_limit = SystemClock().Now() + kUcxLinger;
  while (phase_ == Phase::kOpen && !end_reached_) {
    const TimePoint now = SystemClock().Now();
    if (std::exchange(untaken, untaken_bytes_) != untaken_bytes_) idle_limit = now + kUcxLinger;
    const Duration left = std::min(limit, idle_limit) - now;
    if (left <= Duration::zero()) return;
    changed_.WaitFor(mutex_, left);
  }
}

void UcxConnection::Close() {
  // Clients of a stopping server wait for its last frames.
  if (role_ == Role::kServer && !worker_->OnThread()) AwaitReceived();
  {
    MutexLock lock(mutex_);  // Wakes a receiver call that waits to send.
    if (phase_ != Phase::kClosed) why_closed_ = Unavailable("the connection was closed");
    phase_ = Phase::kClosed;
    changed_.NotifyAll();
  }
  delivery_.Stop();
  worker_->Run([this] { Fail(Unavailable("the connection was closed")); });
  if (worker_->OnThread()) return;
  bool is_direct = false;
  worker_->Run([&] {  // Runs after the tasks that Fail posted.
    is_direct = std::ranges::any_of(local_landings_,
                                    [](const auto& entry) { return entry.second.is_direct(); });
  });
  if (is_direct) WaitForEndpointGone();
  worker_->Run([this] {
    local_landings_.clear();
    allocated_.clear();
  });
}

// Sending.

Status UcxConnection::Send(Frame frame) {
  const uint64_t frame_bytes = frame.payload.size_bytes() + frame.head.size();
  if (frame_bytes > options_.max_frame_bytes) {
    return ResourceExhausted("a frame of ", frame_bytes, " bytes is over the limit of ",
                             options_.max_frame_bytes);
  }
  const uint64_t bytes = frame_bytes + UcxHeader::kEncodedBytes;
  if (!frame.places.empty() && frame.places.size() != frame.payload.slices().size()) {
    return InvalidArgument("a frame has ", frame.payload.slices().size(), " slices but ",
                           frame.places.size(), " places");
  }
  FrameRanges ranges(frame);
  // These threads must not wait for the peer, which may wait for them.
  const bool may_wait = !worker_->OnThread() && !delivery_.OnThread();
  {
    MutexLock lock(mutex_);
    while (may_wait && phase_ == Phase::kOpen &&
           untaken_bytes_ >= window_ + queue_.BytesBehind(frame.priority)) {
      changed_.Wait(mutex_);
    }
    if (phase_ == Phase::kClosed) return why_closed_;
    if (phase_ == Phase::kConnecting) return FailedPrecondition("the connection is not open yet");
    untaken_bytes_ += bytes;
    queue_.Push({.frame = std::move(frame), .ranges = std::move(ranges), .bytes = bytes});
    PostSending();
  }
  return OkStatus();
}

void UcxConnection::PostSending() {
  if (!queue_.HasNext() || std::exchange(send_posted_, true)) return;
  worker_->Post([self = shared_from_this()] { self->SendQueued(); });
}

void UcxConnection::SendQueued() {
  // UCX sends at once what a socket takes. After each piece it reads the peer's reports, which the
  // next pieces may wait for.
  if (SendPiece(/*all=*/false)) {
    worker_->Post([self = shared_from_this()] { self->SendQueued(); });
  }
}

bool UcxConnection::SendPiece(bool all) {
  for (uint64_t bytes = 0; bytes < options_.piece_bytes;) {
    SendQueue::Item next;
    {
      MutexLock lock(mutex_);
      if (all ? queue_.empty() : !queue_.HasNext()) {
        send_posted_ = false;
        return false;
      }
      next = queue_.Pop();
    }
    bytes += next.frame.payload.size_bytes() + UcxHeader::kEncodedBytes;
    SendFrame(std::move(next.frame), next.bytes);
  }
  return true;
}

void UcxConnection::SendFrame(Frame frame, uint64_t bytes) {
  if (LandsDirectly(frame)) {
    return PutFrame(MessageOf(UcxKind::kFrame, std::move(frame), bytes, /*lands=*/true));
  }
  const CutBounds bounds = BoundsOf(frame);
  std::vector<Frame> pieces = CutFrame(std::move(frame), bounds);
  Frame last = std::move(pieces.back());
  pieces.pop_back();
  for (Frame& piece : pieces) {
    const uint64_t of_piece = piece.payload.size_bytes();
    bytes -= of_piece;
    SendMessage(MessageOf(UcxKind::kPiece, std::move(piece), of_piece, /*lands=*/false));
  }
  SendMessage(MessageOf(UcxKind::kFrame, std::move(last), bytes, /*lands=*/false));
}

CutBounds UcxConnection::BoundsOf(const Frame& frame) const {
  // Rendezvous takes any size, and a frame for a landing is placed as a whole.
  if (frame.landing != 0 || worker_->context().gather_bytes() != UINT64_MAX) return {};
  return {.slices = kMostUcxSlices,
          .packed_bytes = kPackedBytes,
          .bytes = std::max(options_.piece_bytes, kPackedBytes)};
}

std::shared_ptr<UcxConnection::Outgoing> UcxConnection::MessageOf(UcxKind kind, Frame frame,
                                                                  uint64_t bytes, bool lands) {
  auto out = std::make_shared<Outgoing>();
  out->frame = std::move(frame);
  out->bytes = bytes;
  UcxHeader header;
  header.kind = kind;
  header.to = peer_;
  header.sequence = next_sequence_++;
  header.landing = out->frame.landing;
  header.head_bytes = out->frame.head.size();
  if (lands) {
    header.argument = out->frame.payload.size_bytes();
  } else {
    header.payload_bytes = out->frame.payload.size_bytes();
    const std::vector<Slice>& slices = out->frame.payload.slices();
    const std::vector<uint64_t>& places = out->frame.places;
    out->tail.reserve(places.size() * UcxPlace::kEncodedBytes + out->frame.head.size());
    for (size_t i = 0; i < places.size(); ++i) {
      AppendUcxPlace({places[i], slices[i].bytes.size()}, &out->tail);
    }
    header.index_bytes = out->tail.size();
    out->data.reserve(slices.size() + 1);
    for (const Slice& slice : slices) out->Append(slice.bytes);
  }
  const auto head = std::as_bytes(std::span(out->frame.head));
  out->tail.insert(out->tail.end(), head.begin(), head.end());
  out->Append(out->tail);
  out->header = EncodeUcxHeader(header);
  return out;
}

bool UcxConnection::LandsDirectly(const Frame& frame) const {
  const auto found = opened_landings_.find(frame.landing);
  if (frame.landing == 0 || frame.places.empty() || found == opened_landings_.end()) return false;
  const OpenedLanding& landing = found->second;
  if (!landing.when_idle.empty()) return false;
  for (size_t i = 0; i < frame.places.size(); ++i) {
    const UcxPlace place{frame.places[i], frame.payload.slices()[i].bytes.size()};
    if (!landing.remote->Holds(place)) return false;  // The client refuses it.
  }
  return true;
}

void UcxConnection::PutFrame(const std::shared_ptr<Outgoing>& out) {
  OpenedLanding& landing = opened_landings_.at(out->frame.landing);
  ++landing.frames_under_way;
  puts_->Write(landing.remote, out->frame.payload.slices(), out->frame.places,
               [self = shared_from_this(), out](ucs_status_t status) {
                 self->FrameLanded(out->frame.landing);
                 if (status != UCS_OK) return self->EndSend(*out, status);
                 out->frame.payload = {};
                 self->SendMessage(out);
               });
}

void UcxConnection::SendMessage(const std::shared_ptr<Outgoing>& out) {
  if (closed_ || endpoint_ == nullptr) return EndSend(*out, UCS_ERR_CANCELED);
  // Rendezvous takes one piece. It also keeps it until the peer has fetched it, so it must not hold
  // memory that others wait for.
  if (!out->data.empty() && out->data_bytes >= worker_->context().gather_bytes()) out->Gather();
  endpoint_->Send(out->header, out->data, /*is_hello=*/false, SendDone(out));
}

UcxDone UcxConnection::SendDone(std::shared_ptr<Outgoing> out) {
  // Holds the connection weakly, because UCX may never end the message.
  return [weak = weak_from_this(), out = std::move(out)](ucs_status_t status) {
    if (const auto self = weak.lock()) self->EndSend(*out, status);
  };
}

void UcxConnection::EndSend(Outgoing& out, ucs_status_t status) {
  if (out.bytes > 0) {
    MutexLock lock(mutex_);
    queue_.Done(out.frame.priority, out.bytes);
    PostSending();
  }
  out.frame = {};
  if (status != UCS_OK) {
    Fail(Unavailable("a frame could not be sent: ", ucs_status_string(status)));
  }
}

void UcxConnection::SendControl(UcxKind kind, uint64_t landing, uint64_t argument,
                                std::vector<std::byte> data) {
  if (closed_) return;
  auto out = std::make_shared<Outgoing>();
  UcxHeader header;
  header.kind = kind;
  header.to = peer_;
  header.landing = landing;
  header.argument = argument;
  header.payload_bytes = data.size();
  out->header = EncodeUcxHeader(header);
  out->tail = std::move(data);
  out->Append(out->tail);
  endpoint_->Send(out->header, out->data, kind == UcxKind::kHello, SendDone(out));
}

// Receiving.

void UcxConnection::OnMessage(UcxMessage message) {
  const UcxHeader& header = message.header();
  if (header.kind == UcxKind::kWelcome) return ReceiveWelcome(message);
  if (!open_) return Fail(InvalidArgument("the UCX peer sent a frame before the handshake"));
  const bool from_client = role_ == Role::kServer;
  if (header.kind == UcxKind::kFrame || header.kind == UcxKind::kPiece) {
    if (from_client && header.landing != 0) {
      return Fail(InvalidArgument("a UCX client sent a frame with places in a landing"));
    }
    return ReceiveFrame(std::move(message));
  }
  if (header.kind == UcxKind::kCloseLanding && from_client) {
    // Invalidates its key, should it still be in flight.
    (void)used_serials_.Take(header.argument);
    return CloseLandingOnThread(header.landing, [this, id = header.landing] {
      SendControl(UcxKind::kLandingClosed, id, 0, {});
    });
  }
  if (header.kind == UcxKind::kLandingClosed && !from_client) {
    MutexLock lock(mutex_);
    landings_ending_.erase(header.landing);
    return changed_.NotifyAll();
  }
  if (header.kind == UcxKind::kTaken) return ReceiveTaken(header.argument);
  if (header.kind == UcxKind::kEnd && !from_client) {
    end_ = header.argument;
    return ReportEndReached();
  }
  if (header.kind == UcxKind::kEndReached && from_client) {
    MutexLock lock(mutex_);
    end_reached_ = true;
    return changed_.NotifyAll();
  }
  Fail(InvalidArgument("the UCX peer sent a message that its end does not send"));
}

void UcxConnection::ReceiveFrame(UcxMessage message) {
  const uint64_t sequence = message.header().sequence;
  if (!order_.IsNext(sequence)) {
    message.Keep();
    if (const Status kept = order_.Keep(sequence, std::move(message)); !kept.ok()) Fail(kept);
    return;
  }
  order_.Pass();
  Process(std::move(message));
  while (!closed_) {
    auto next = order_.TakeNext();
    if (!next) break;
    Process(std::move(*next));
  }
  ReportEndReached();
}

void UcxConnection::ReportEndReached() {
  if (order_.passed() == end_) SendControl(UcxKind::kEndReached, 0, 0, {});
}

void UcxConnection::ReceiveTaken(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    if (bytes <= untaken_bytes_) {
      untaken_bytes_ -= bytes;
      return changed_.NotifyAll();
    }
  }
  Fail(InvalidArgument("the UCX peer has taken ", bytes, " bytes, more than it was sent"));
}

void UcxConnection::Process(UcxMessage message) {
  // A correct peer has at most one window for each priority and one frame more, plus what its
  // receiver sent.
  if (delivery_.waiting_bytes() > 4 * options_.queue_bytes + options_.max_frame_bytes) {
    return Fail(InvalidArgument("the UCX peer sends more than it may"));
  }
  if (const Status added = AddMessage(message); !added.ok()) return Fail(added);
  if (message.header().kind == UcxKind::kPiece) return;
  const uint64_t bytes = std::exchange(arriving_payload_, 0) + message.header().WindowBytes();
  delivery_.Push(std::exchange(arriving_, {}), bytes);
}

Status UcxConnection::CheckMessage(const UcxHeader& header) const {
  const uint64_t left = options_.max_frame_bytes - arriving_payload_;
  if (header.payload_bytes > left || header.head_bytes > left - header.payload_bytes) {
    return InvalidArgument("a UCX frame of ", arriving_payload_, " + ", header.payload_bytes, " + ",
                           header.head_bytes, " bytes is over the limit of ",
                           options_.max_frame_bytes);
  }
  if (header.kind == UcxKind::kPiece && (header.payload_bytes < kLeastUcxPieceBytes ||
                                         header.index_bytes > 0 || header.head_bytes > 0)) {
    return InvalidArgument("a piece of a UCX frame is too small, or is not payload alone");
  }
  const bool has_pieces = arriving_payload_ > 0 || header.kind == UcxKind::kPiece;
  if (has_pieces && (header.landing != 0 || header.argument > 0)) {
    return InvalidArgument("a UCX frame in pieces is for a landing");
  }
  if (header.argument == 0) return OkStatus();
  const auto landing = local_landings_.find(header.landing);
  if (landing == local_landings_.end() || !landing->second.is_direct() ||
      header.argument > landing->second.bytes().size()) {
    return InvalidArgument("a UCX frame claims to have landed where it cannot");
  }
  return OkStatus();
}

Status UcxConnection::AddMessage(UcxMessage& message) {
  const UcxHeader header = message.header();
  QUIRE_RETURN_IF_ERROR(CheckMessage(header));
  const auto head = message.data().subspan(header.payload_bytes + header.index_bytes);
  arriving_.head.assign(reinterpret_cast<const char*>(head.data()), head.size());
  arriving_.landing = header.landing;
  if (header.argument > 0) {
    arriving_.landed_bytes = header.argument;
    return OkStatus();
  }
  QUIRE_RETURN_IF_ERROR(PlacePayload(message, &arriving_));
  if (header.kind == UcxKind::kPiece) arriving_payload_ += header.payload_bytes;
  return OkStatus();
}

Status UcxConnection::PlacePayload(UcxMessage& message, Frame* frame) {
  const UcxHeader header = message.header();
  std::span<const std::byte> payload = message.data().first(header.payload_bytes);
  QUIRE_ASSIGN_OR_RETURN(
      const auto places,
      DecodeUcxIndex(message.data().subspan(header.payload_bytes, header.index_bytes),
                     header.payload_bytes));
  const auto landing = local_landings_.find(header.landing);
  // A landing without a key is delivered as payload: only the receiver knows which calls are over.
  if (!places.empty() && landing != local_landings_.end() && landing->second.is_direct()) {
    QUIRE_RETURN_IF_ERROR(landing->second.Place(places, payload));
    frame->landed_bytes = payload.size();
    return OkStatus();
  }
  if (payload.empty()) return OkStatus();
  const std::shared_ptr<const void> owner = message.Keep();
  payload = message.data().first(header.payload_bytes);
  if (places.empty()) frame->payload.Append(Slice{payload, owner});
  for (const UcxPlace& place : places) {
    frame->payload.Append(Slice{payload.first(place.bytes), owner});
    frame->places.push_back(place.offset);
    payload = payload.subspan(place.bytes);
  }
  return OkStatus();
}

void UcxConnection::Start(FrameReceiver* receiver) { delivery_.Start(receiver); }

// Landings.

StatusOr<OwnedMemory> UcxConnection::AllocateLandingMemory(uint64_t bytes) {
  StatusOr<OwnedMemory> memory = Unavailable("the connection is over");
  worker_->Run([&] {
    if (closed_) return;
    memory = WritesLandings() ? AllocateOnThread(bytes) : StatusOr<OwnedMemory>(OwnedMemory());
  });
  return memory;
}

StatusOr<OwnedMemory> UcxConnection::AllocateOnThread(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(const auto allocated,
                         UcxMemory::Allocate(worker_->context().shared_from_this(), bytes));
  std::erase_if(allocated_, [](const auto& memory) { return memory.expired(); });
  allocated_.push_back(allocated);
  // Runs on the only thread that may use UCX.
  const auto release = [worker = worker_, memory = allocated](const std::byte*) mutable {
    worker->Post([last = std::move(memory)] {});
  };
  return OwnedMemory{allocated->bytes().first(bytes),
                     std::shared_ptr<const std::byte>(allocated->bytes().data(), release)};
}

StatusOr<std::string> UcxConnection::AddLanding(uint64_t id, std::span<std::byte> memory) {
  StatusOr<std::string> key = Unavailable("the connection is over");
  worker_->Run([&] {
    if (!closed_) AddLandingOnThread(id, memory, &key);
  });
  return key;
}

void UcxConnection::AddLandingOnThread(uint64_t id, std::span<std::byte> memory,
                                       StatusOr<std::string>* key) {
  if (id == 0 || memory.empty() || local_landings_.contains(id)) {
    *key = InvalidArgument("landing ", id, " is empty, or there is one with that id");
    return;
  }
  std::shared_ptr<UcxMemory> registered;
  bool written = WritesLandings();
  if (wants_keys_) {
    registered = AllocatedAround(memory);
    // Within a host UCX emulates writes to memory that it has not allocated, by messages. A server
    // that dies during them ends the client's process (UCX 1.13).
    written = written && (registered != nullptr || !worker_->context().is_loopback());
    if (registered == nullptr) {
      auto mapped = UcxMemory::Map(worker_->context().shared_from_this(), memory);
      if (!mapped.ok()) {
        *key = mapped.status();
        return;
      }
      registered = *std::move(mapped);
    }
  }
  const UcxLocalLanding landing(memory, next_serial_++, std::move(registered));
  *key = wants_keys_ ? landing.Key(id, secret_, written) : StatusOr<std::string>(std::string());
  if (key->ok()) local_landings_.emplace(id, landing);
}

std::shared_ptr<UcxMemory> UcxConnection::AllocatedAround(std::span<std::byte> memory) const {
  for (const auto& weak : allocated_) {
    auto allocated = weak.lock();
    if (allocated != nullptr && allocated->Contains(memory)) return allocated;
  }
  return nullptr;
}

void UcxConnection::RemoveLanding(uint64_t id) {
  bool is_direct = false;
  worker_->Run([&] { is_direct = RemoveLandingOnThread(id); });
  if (!is_direct) return;
  const bool confirmed = WaitForLandingClosed(id);
  if (!confirmed) {
    worker_->Run(
        [&] { Fail(Unavailable("the peer did not confirm in time that a landing is closed")); });
  }
  WaitForEndpointGone();
  // Removed last: data still in flight would have failed the connection.
  worker_->Run([&] { local_landings_.erase(id); });
}

bool UcxConnection::RemoveLandingOnThread(uint64_t id) {
  const auto found = local_landings_.find(id);
  if (found == local_landings_.end()) return false;
  if (!found->second.is_direct()) {
    local_landings_.erase(found);
    return false;
  }
  {
    MutexLock lock(mutex_);
    landings_ending_.insert(id);
  }
  SendControl(UcxKind::kCloseLanding, id, found->second.serial(), {});
  return true;
}

bool UcxConnection::WaitForLandingClosed(uint64_t id) {
  const TimePoint deadline = SystemClock().Now() + options_.peer_timeout;
  MutexLock lock(mutex_);
  while (phase_ == Phase::kOpen && landings_ending_.contains(id)) {
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) break;
    changed_.WaitFor(mutex_, left);
  }
  return landings_ending_.erase(id) == 0;
}

void UcxConnection::WaitForEndpointGone() {
  MutexLock lock(mutex_);
  while (phase_ == Phase::kClosed && !endpoint_gone_) changed_.Wait(mutex_);
}

Status UcxConnection::OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) {
  Status status;
  worker_->Run([&] { status = OpenLandingOnThread(id, key, bytes); });
  return status;
}

Status UcxConnection::OpenLandingOnThread(uint64_t id, std::string_view encoded, uint64_t bytes) {
  if (closed_) return Unavailable("the connection is over");
  if (encoded.empty() && !wants_keys_) return OkStatus();  // The client places the payload itself.
  QUIRE_ASSIGN_OR_RETURN(const UcxLandingKey key, DecodeUcxLandingKey(encoded, secret_));
  if (key.landing != id || bytes > key.bytes) {
    return InvalidArgument("the key of landing ", key.landing, " with ", key.bytes,
                           " bytes does not open landing ", id, " with ", bytes);
  }
  if (!used_serials_.Take(key.serial) || opened_landings_.contains(id)) {
    return InvalidArgument("the key of landing ", id, " was used before");
  }
  ReportLanes();
  // Otherwise the client places the payload of messages.
  if (key.remote_key.empty() || !WritesLandings()) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(auto remote, UcxRemoteLanding::Open(*endpoint_, key));
  opened_landings_[id].remote = std::move(remote);
  return OkStatus();
}

void UcxConnection::CloseLanding(uint64_t id) {
  const auto closed = std::make_shared<Notification>();
  worker_->Run([&] { CloseLandingOnThread(id, [closed] { closed->Notify(); }); });
  if (worker_->OnThread() || closed->Await(options_.peer_timeout)) return;
  worker_->Run([this] {
    Fail(Unavailable("what was written to a landing did not arrive in time at the client"));
  });
  worker_->Run([] {});  // Runs after the tasks that Fail posted, which have ended the landing.
}

void UcxConnection::CloseLandingOnThread(uint64_t id, std::function<void()> closed) {
  const auto found = opened_landings_.find(id);
  if (found == opened_landings_.end()) return closed();
  found->second.when_idle.push_back(std::move(closed));
  ++found->second.frames_under_way;
  FrameLanded(id);
}

void UcxConnection::FrameLanded(uint64_t id) {
  const auto found = opened_landings_.find(id);
  if (found == opened_landings_.end() || --found->second.frames_under_way > 0) return;
  if (found->second.when_idle.empty()) return;
  const OpenedLanding ended = std::move(found->second);
  opened_landings_.erase(found);
  for (const auto& closed : ended.when_idle) closed();
}

}  // namespace quire
