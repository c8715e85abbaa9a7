// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame_client.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "transport/frames/frame_parts.h"
#include "transport/frames/message_limit.h"
#include "transport/part_pieces.h"
#include "transport/single_reply.h"

namespace quire {
namespace {

/// A caller that has received this much of a reply sleeps while it waits for more. Spinning would
/// take processor time from the threads that send and receive the rest.
constexpr uint64_t kMostSpunBytes = uint64_t{2} << 20;
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

TimePoint After(Duration timeout) {
  return SystemClock().Now() + std::min<Duration>(timeout, kLongestTimeout);
}

Status Check(const FrameClient::Options& options) {
  if (options.window_bytes < 1) return InvalidArgument("window_bytes is 0: must be at least 1");
  if (options.max_message_bytes < 1 || options.max_message_bytes > wire::kLargestMaxMessageBytes) {
    return InvalidArgument("max_message_bytes is ", options.max_message_bytes, ": must be 1..",
                           wire::kLargestMaxMessageBytes);
  }
  return OkStatus();
}

}  // namespace

/// A call and what has arrived for it. The connection's mutex guards all but the constants.
struct FrameClient::Arrivals {
  uint64_t id = 0;
  TimePoint deadline;
  Landing* landing = nullptr;
  bool in_pieces = false;  ///< True if the caller takes pieces of parts as they arrive.
  CondVar changed;
  std::atomic<uint32_t> changes = 0;  ///< Number of times that `changed` was notified.
  std::deque<CallMessage> parts;
  uint64_t arrived_bytes = 0;  ///< Bytes of payload that have arrived in all.
  uint64_t queued_bytes = 0;   ///< Bytes of payload in `parts` and `arriving`.
  uint64_t taken_bytes = 0;    ///< Bytes taken by the caller and not yet returned as credit.
  /// A part with missing pieces; unused for a caller that takes pieces.
  CallMessage arriving;
  uint64_t bytes_to_come = 0;      ///< Missing payload of the latest part.
  std::optional<Status> end;       ///< Final status, from the server or the connection.
  std::optional<Status> given_up;  ///< Why the caller stopped waiting.

  /// Call it with the connection's mutex held.
  void Notify() {
    ++changes;
    changed.NotifyAll();
  }
};

class FrameClient::OwnLanding final : public Landing {
 public:
  OwnLanding(std::shared_ptr<FrameClient> connection, uint64_t id, std::span<std::byte> bytes)
      : connection_(std::move(connection)), id_(id), bytes_(bytes) {}
  ~OwnLanding() override {
    if (withdraw_ != nullptr) withdraw_(connection_->connection_id(), id_);
    connection_->pipe_->RemoveLanding(id_);
  }
  /// Announces the landing to the server; the destructor withdraws it.
  Status Announce(const std::string& key) {
    const Options& options = connection_->options_;
    if (key.empty() || options.announce == nullptr) return OkStatus();
    QUIRE_RETURN_IF_ERROR(options.announce(connection_->connection_id(), id_, bytes_.size(), key));
    withdraw_ = options.withdraw;
    return OkStatus();
  }

  std::span<std::byte> bytes() const override { return bytes_; }
  const FrameClient* connection() const { return connection_.get(); }
  uint64_t id() const { return id_; }

 private:
  const std::shared_ptr<FrameClient> connection_;
  const uint64_t id_;
  const std::span<std::byte> bytes_;
  WithdrawLanding withdraw_;
};

class FrameClient::OwnCall final : public PendingCall {
 public:
  OwnCall(std::shared_ptr<FrameClient> connection, ArrivalsPtr call)
      : connection_(std::move(connection)), call_(std::move(call)) {}
  ~OwnCall() override {
    Cancel();
    connection_->AwaitQuiet(*call_);
  }
  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    return connection_->Next(*call_, deadline);
  }
  void Cancel() override {
    connection_->GiveUp(*call_, Status(StatusCode::kCancelled, "the caller cancelled the call"));
  }
  bool IsQuiet() const override { return connection_->IsQuiet(*call_); }

 private:
  const std::shared_ptr<FrameClient> connection_;
  const ArrivalsPtr call_;
};

FrameClient::FrameClient(std::unique_ptr<FramePipe> pipe, const Options& options)
    : options_(options),
      pipe_(std::move(pipe)),
      direct_landing_(pipe_->capabilities().direct_landing),
      takes_at_once_(pipe_->capabilities().takes_at_once),
      max_message_bytes_(MessageLimitOf(*pipe_, options.max_message_bytes)) {}

StatusOr<std::shared_ptr<FrameClient>> FrameClient::Connect(std::unique_ptr<FramePipe> pipe,
                                                            const Options& options) {
  QUIRE_RETURN_IF_ERROR(Check(options));
  std::shared_ptr<FrameClient> self(new FrameClient(std::move(pipe), options));
  QUIRE_RETURN_IF_ERROR(self->Greet());
  return self;
}

Status FrameClient::Greet() {
  pipe_->Start(this);
  FrameHead hello{.kind = FrameKind::kHello};
  hello.amount = options_.window_bytes;
  hello.name = options_.tenant;
  hello.text = options_.ticket;
  // If the connection has already ended, the pipe reports why.
  if (const Status sent = SendHead(hello); !sent.ok() && !IsUnavailable(sent)) return sent;
  const TimePoint limit = After(options_.hello_timeout);
  MutexLock lock(mutex_);
  for (TimePoint now = SystemClock().Now(); connection_id_ == 0 && !closed_;
       now = SystemClock().Now()) {
    if (now >= limit) return DeadlineExceeded("the server did not answer the connection's hello");
    (void)changed_.WaitFor(mutex_, limit - now);
  }
  return closed_ ? *closed_ : OkStatus();
}

TransportCapabilities FrameClient::capabilities() const {
  const PipeCapabilities pipe = pipe_->capabilities();
  return {.name = pipe.name,
          .max_message_bytes = max_message_bytes_,
          .same_process = false,
          .in_place = pipe.in_place,
          .direct_landing = pipe.direct_landing,
          .detail = pipe.detail};
}

uint64_t FrameClient::connection_id() const {
  MutexLock lock(mutex_);
  return connection_id_;
}

// Landings.

StatusOr<uint64_t> FrameClient::LandingId(const Landing* landing) const {
  if (landing == nullptr) return 0;
  const auto* const own = dynamic_cast<const OwnLanding*>(landing);
  if (own != nullptr && own->connection() == this) return own->id();
  return InvalidArgument("the landing was made by another transport: use AddLanding of this one");
}

StatusOr<std::unique_ptr<Landing>> FrameClient::AddLanding(std::span<std::byte> memory) {
  if (memory.empty() || memory.size() > wire::kMaxLandingBytes) {
    return InvalidArgument("the landing has ", memory.size(), " bytes: must be 1..",
                           wire::kMaxLandingBytes);
  }
  const uint64_t id = next_landing_++;
  QUIRE_ASSIGN_OR_RETURN(const std::string key, pipe_->AddLanding(id, memory));
  auto landing = std::make_unique<OwnLanding>(shared_from_this(), id, memory);
  QUIRE_RETURN_IF_ERROR(landing->Announce(key));
  return landing;
}

StatusOr<OwnedMemory> FrameClient::AllocateLandingMemory(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(OwnedMemory memory, pipe_->AllocateLandingMemory(bytes));
  if (memory.owner == nullptr) return Transport::AllocateLandingMemory(bytes);
  return memory;
}

// Calls.

StatusOr<std::unique_ptr<PendingCall>> FrameClient::Start(std::string_view method,
                                                          CallMessage request,
                                                          const CallOptions& options) {
  return StartParts(method, std::move(request), options, UINT32_MAX);
}

Status FrameClient::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                         const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto call, StartParts(method, request, options, 1));
  return TakeSingleReply(*call, reply);
}

StatusOr<std::unique_ptr<PendingCall>> FrameClient::StartParts(std::string_view method,
                                                               CallMessage request,
                                                               const CallOptions& options,
                                                               uint32_t max_parts) {
  if (options.tenant != options_.tenant) {
    return InvalidArgument("the connection is of tenant ", options_.tenant, ", not of ",
                           options.tenant, ": connect one for each tenant");
  }
  if (method.empty() || method.size() > kMaxFrameNameBytes) {
    return InvalidArgument("the method's name has ", method.size(), " bytes: must be 1..",
                           kMaxFrameNameBytes);
  }
  FrameHead head{.kind = FrameKind::kRequest, .priority = options.priority};
  QUIRE_ASSIGN_OR_RETURN(head.landing, LandingId(options.landing));
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, max_message_bytes_, "request"));
  const auto call = std::make_shared<Arrivals>();
  call->deadline = After(options.timeout);
  call->landing = options.landing;
  call->in_pieces = options.piece_bytes > 0;
  head.amount = static_cast<uint64_t>(
      std::clamp<int64_t>(options.timeout.count(), 1, kLongestTimeout.count()));
  head.landing_bytes = options.landing != nullptr ? options.landing->bytes().size() : 0;
  head.max_parts = max_parts;
  head.piece_bytes = options.piece_bytes;
  head.name = method;
  head.text = std::move(request.control);
  if (options_.sends_traces) head.trace = options.trace;
  {
    MutexLock lock(mutex_);
    if (closed_) return *closed_;
    head.id = call->id = next_id_++;
    calls_[call->id] = call;
  }
  Payload payload =
      takes_at_once_ ? std::move(request.payload) : WithOwners(std::move(request.payload));
  const Status sent = pipe_->Send({.head = EncodeFrameHead(head), .payload = std::move(payload)});
  if (sent.ok()) return std::make_unique<OwnCall>(shared_from_this(), call);
  MutexLock lock(mutex_);
  calls_.erase(call->id);
  return sent;
}

void FrameClient::SpinUntil(Arrivals& call, TimePoint until) {
  const uint32_t seen = call.changes;
  mutex_.Unlock();
  while (call.changes == seen && SystemClock().Now() < until) std::this_thread::yield();
  mutex_.Lock();
}

FrameClient::Event FrameClient::Await(Arrivals& call, TimePoint deadline) {
  bool may_spin = options_.spin > Duration::zero() && call.arrived_bytes < kMostSpunBytes;
  for (;;) {
    if (call.given_up) return Event::kGivenUp;
    if (!call.parts.empty()) return Event::kPart;
    if (call.end) return Event::kEnd;
    const TimePoint now = SystemClock().Now();
    if (now >= call.deadline) return Event::kTimedOut;
    if (now >= deadline) return Event::kNotYet;
    if (std::exchange(may_spin, false) && !spinner_active_) {
      spinner_active_ = true;
      SpinUntil(call, std::min({call.deadline, deadline, now + options_.spin}));
      spinner_active_ = false;
      continue;
    }
    const Duration wait = std::min(call.deadline, deadline) - now;
    (void)call.changed.WaitFor(mutex_, std::min<Duration>(wait, kLongestWait));
  }
}

StatusOr<std::optional<CallMessage>> FrameClient::Next(Arrivals& call, TimePoint deadline) {
  Event event;
  Status status;
  {
    MutexLock lock(mutex_);
    event = Await(call, deadline);
    if (event == Event::kGivenUp) status = *call.given_up;
    if (event == Event::kEnd) status = *call.end;
  }
  switch (event) {
    case Event::kPart:
      return TakePart(call);
    case Event::kNotYet:
      return DeadlineExceeded("no part of the reply has arrived yet; the call goes on");
    case Event::kTimedOut:
      status = DeadlineExceeded("the call's timeout passed before its reply was complete");
      GiveUp(call, status);
      break;
    case Event::kEnd:
    case Event::kGivenUp:
      break;
  }
  AwaitQuiet(call);
  QUIRE_RETURN_IF_ERROR(status);
  return std::nullopt;
}

StatusOr<std::optional<CallMessage>> FrameClient::TakePart(Arrivals& call) {
  CallMessage part;
  uint64_t credit = 0;
  {
    MutexLock lock(mutex_);
    if (call.parts.empty()) return Status(StatusCode::kCancelled, "the call was cancelled");
    part = std::move(call.parts.front());
    call.parts.pop_front();
    const uint64_t bytes = part.payload.size_bytes() + part.landed_bytes;
    call.queued_bytes -= bytes;
    call.taken_bytes += bytes;
    credit = CreditDue(call);
  }
  if (const Status fits = CheckMessageBytes(part, max_message_bytes_, "reply"); !fits.ok()) {
    GiveUp(call, fits);
    AwaitQuiet(call);
    return fits;
  }
  if (credit > 0) {
    FrameHead head{.kind = FrameKind::kCredit};
    head.id = call.id;
    head.amount = credit;
    (void)SendHead(head);  // If the connection has ended, the receiver reports it.
  }
  return part;
}

uint64_t FrameClient::CreditDue(Arrivals& call) {
  if (call.end || closed_ || call.taken_bytes < CreditStep(window_bytes_)) return 0;
  return std::exchange(call.taken_bytes, 0);
}

void FrameClient::GiveUp(Arrivals& call, const Status& why) {
  std::deque<CallMessage> dropped;  // Owners are destroyed outside the lock.
  bool tell = false;
  {
    MutexLock lock(mutex_);
    if (call.given_up) return;
    call.given_up = why;
    dropped.swap(call.parts);
    dropped.push_back(std::exchange(call.arriving, {}));
    call.queued_bytes = 0;
    tell = !call.end;
    if (!(direct_landing_ && call.landing != nullptr)) calls_.erase(call.id);
    call.Notify();
  }
  if (!tell) return;
  FrameHead head{.kind = FrameKind::kCancel};
  head.id = call.id;
  (void)SendHead(head);  // If the connection has ended, the server needs no cancel.
}

void FrameClient::AwaitQuiet(Arrivals& call) {
  if (!direct_landing_ || call.landing == nullptr) return;
  const TimePoint limit = After(options_.cancel_timeout);
  {
    MutexLock lock(mutex_);
    while (!call.end && !pipe_quiet_) {
      const TimePoint now = SystemClock().Now();
      if (now >= limit) break;
      (void)call.changed.WaitFor(mutex_, limit - now);
    }
    // An end made by the connection says nothing about the server's device.
    if (pipe_quiet_ || (call.end && !closed_)) return;
  }
  Close();
}

bool FrameClient::IsQuiet(const Arrivals& call) const {
  MutexLock lock(mutex_);
  if (!direct_landing_ || call.landing == nullptr || pipe_quiet_) return true;
  return call.end && !closed_;  // As in AwaitQuiet.
}

// The end of the connection.

void FrameClient::Close() {
  pipe_->Close();
  {
    MutexLock lock(mutex_);
    pipe_quiet_ = true;
  }
  Fail(Unavailable("the connection has been closed"));
}

void FrameClient::Fail(const Status& why) {
  MutexLock lock(mutex_);
  EndCalls(why, why);
}

void FrameClient::Break(std::string_view what) {
  MutexLock lock(mutex_);
  EndCalls(Unavailable("the server broke the protocol: ", what),
           Internal("the server broke the protocol: ", what,
                    "; check that client and server are of the same version"));
}

void FrameClient::EndCalls(const Status& over, const Status& end) {
  const Status& why = closed_ ? *closed_ : end;
  for (auto& [id, call] : calls_) {
    if (!call->end) call->end = why;
    call->Notify();
  }
  if (!closed_) closed_ = over;
  calls_.clear();
  changed_.NotifyAll();
}

// Deliveries of the pipe.

void FrameClient::OnClosed(const Status& why) {
  {
    MutexLock lock(mutex_);
    pipe_quiet_ = true;
  }
  // Pipes report malformed bytes as INVALID_ARGUMENT.
  if (IsInvalidArgument(why)) return Break(Message(why));
  Fail(Unavailable("the connection to the server is over: ", Message(why)));
}

void FrameClient::OnFrame(Frame frame) {
  const auto head = DecodeFrameHead(frame.head);
  if (!head.ok()) return Break(Message(head.status()));
  switch (head->kind) {
    case FrameKind::kHelloReply:
      return OnHelloReply(*head);
    case FrameKind::kPart:
    case FrameKind::kPiece:
      return OnPart(*head, std::move(frame));
    case FrameKind::kEnd:
      return OnEnd(*head);
    default:
      return Break("it sent what only clients send");
  }
}

void FrameClient::OnHelloReply(const FrameHead& head) {
  if (head.code != StatusCode::kOk) return Fail(FrameStatus(head));
  if (head.id == 0 || head.name != options_.tenant || head.amount > options_.window_bytes) {
    return Break("its hello is not for this connection");
  }
  MutexLock lock(mutex_);
  connection_id_ = head.id;
  window_bytes_ = head.amount;
  changed_.NotifyAll();
}

void FrameClient::OnPart(const FrameHead& head, Frame frame) {
  auto piece = PartOf(head, std::move(frame));
  Status status = piece.status();
  if (status.ok()) {
    MutexLock lock(mutex_);
    const auto it = calls_.find(head.id);
    if (it == calls_.end() || it->second->given_up) return;
    status = Arrive(*it->second, head, *std::move(piece));
  }
  if (!status.ok()) Break(Message(status));
}

Status FrameClient::Arrive(Arrivals& call, const FrameHead& head, CallMessage piece) {
  const uint64_t bytes = piece.payload.size_bytes() + piece.landed_bytes;
  if (piece.landed_bytes > 0 && call.landing == nullptr) {
    return InvalidArgument("a part of a call without a landing has landed");
  }
  const bool is_first = head.kind == FrameKind::kPart;
  if (is_first != (call.bytes_to_come == 0) ||
      (!is_first && (bytes == 0 || bytes + piece.bytes_to_come != call.bytes_to_come))) {
    return InvalidArgument("the pieces of a part do not sum up to it");
  }
  call.bytes_to_come = piece.bytes_to_come;
  call.arrived_bytes += bytes;
  call.queued_bytes += bytes;
  if (call.queued_bytes > window_bytes_ + max_message_bytes_) {
    return InvalidArgument("it sent more than it has credit for");
  }
  if (!call.in_pieces) {
    QUIRE_RETURN_IF_ERROR(AddPiece(std::move(piece), &call.arriving));
    if (call.bytes_to_come > 0) return OkStatus();
    piece = std::exchange(call.arriving, {});
  }
  call.parts.push_back(std::move(piece));
  call.Notify();
  return OkStatus();
}

void FrameClient::OnEnd(const FrameHead& head) {
  MutexLock lock(mutex_);
  const auto it = calls_.find(head.id);
  if (it == calls_.end()) return;
  it->second->end = FrameStatus(head);
  it->second->Notify();
  calls_.erase(it);
}

}  // namespace quire
