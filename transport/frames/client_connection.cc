// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/client_connection.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "transport/frames/frame_parts.h"
#include "transport/frames/message_limit.h"
#include "transport/plain_landing.h"

namespace quire {
namespace {

/// How long a caller looks for what it waits for before it sleeps: where CPUs are virtual, to be
/// woken takes 40 to 80 us, and who wakes it is held up by as much. One caller of a connection does
/// at a time, and gives way to whoever else wants the CPU.
constexpr Duration kLookTime = std::chrono::microseconds(300);
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

TimePoint After(Duration timeout) {
  return SystemClock().Now() + std::min<Duration>(timeout, kLongestTimeout);
}

bool IsLent(const Payload& payload) {
  return std::ranges::any_of(payload.slices(),
                             [](const Slice& slice) { return slice.owner == nullptr; });
}

/// Takes lent payload over: into the landing, when there is one that the processor writes to and
/// the part has places. Payload that has landed is read while the cache holds it.
/// What is for memory behind an access is kept for the thread that takes the part: this one is the
/// pipe's, and must not wait for a device.
Status Keep(const FrameHead& head, const Landing* landing, CallMessage* part) {
  if (part->landed_bytes > 0) {
    if (landing == nullptr) return InvalidArgument("a part of a call without a landing has landed");
    return ChecksumLanded(landing->memory(), head.places, part);
  }
  if (landing != nullptr && !part->places.empty() && landing->memory().is_host()) {
    return Land(landing->memory(), part);
  }
  part->payload = WithOwners(std::move(part->payload));
  return OkStatus();
}

}  // namespace

ClientConnection::ClientConnection(std::unique_ptr<FramePipe> pipe, const Options& options)
    : options_(options),
      pipe_(std::move(pipe)),
      direct_landing_(pipe_->capabilities().direct_landing),
      max_message_bytes_(MessageLimitOf(*pipe_, options.max_message_bytes)) {}

Status ClientConnection::Connect() {
  pipe_->Start(this);
  FrameHead hello{.kind = FrameKind::kHello};
  hello.amount = options_.window_bytes;
  hello.name = options_.tenant;
  hello.text = options_.ticket;
  // When the connection is over already, the pipe tells why.
  if (const Status sent = SendHead(hello); !sent.ok() && !IsUnavailable(sent)) return sent;
  const TimePoint limit = After(options_.hello_timeout);
  MutexLock lock(mutex_);
  for (TimePoint now = SystemClock().Now(); connection_id_ == 0 && !over_;
       now = SystemClock().Now()) {
    if (now >= limit) return DeadlineExceeded("the server did not answer the connection's hello");
    (void)changed_.WaitFor(mutex_, limit - now);
  }
  return over_ ? *over_ : OkStatus();
}

uint64_t ClientConnection::id() const {
  MutexLock lock(mutex_);
  return connection_id_;
}

StatusOr<ClientConnection::CallPtr> ClientConnection::Start(std::string_view method,
                                                            CallMessage request,
                                                            const CallOptions& options,
                                                            uint64_t landing_id,
                                                            uint32_t max_parts) {
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(request, max_message_bytes_, "request"));
  const auto call = std::make_shared<Call>();
  call->deadline = After(options.timeout);
  call->landing = options.landing;
  FrameHead head{.kind = FrameKind::kRequest, .priority = options.priority};
  head.amount = static_cast<uint64_t>(
      std::clamp<int64_t>(options.timeout.count(), 1, kLongestTimeout.count()));
  head.landing = landing_id;
  head.landing_bytes = options.landing != nullptr ? options.landing->bytes().size() : 0;
  head.max_parts = max_parts;
  head.name = method;
  head.text = std::move(request.control);
  {
    MutexLock lock(mutex_);
    if (over_) return *over_;
    head.id = call->id = next_id_++;
    calls_[call->id] = call;
  }
  const Status sent = pipe_->Send(
      {.head = EncodeFrameHead(head), .payload = WithOwners(std::move(request.payload))});
  if (sent.ok()) return call;
  MutexLock lock(mutex_);
  calls_.erase(call->id);
  return sent;
}

void ClientConnection::LookUntil(Call& call, TimePoint until) {
  const uint32_t seen = call.changes;
  mutex_.Unlock();
  while (call.changes == seen && SystemClock().Now() < until) std::this_thread::yield();
  mutex_.Lock();
}

ClientConnection::Event ClientConnection::Await(Call& call, TimePoint deadline) {
  bool looked = false;
  for (;;) {
    if (call.given_up) return Event::kGivenUp;
    if (!call.parts.empty()) return Event::kPart;
    if (call.end) return Event::kEnd;
    const TimePoint now = SystemClock().Now();
    if (now >= call.deadline) return Event::kTimedOut;
    if (now >= deadline) return Event::kNotYet;
    if (!std::exchange(looked, true) && !somebody_looks_) {
      somebody_looks_ = true;
      LookUntil(call, std::min({call.deadline, deadline, now + kLookTime}));
      somebody_looks_ = false;
      continue;
    }
    const Duration wait = std::min(call.deadline, deadline) - now;
    (void)call.changed.WaitFor(mutex_, std::min<Duration>(wait, kLongestWait));
  }
}

StatusOr<std::optional<CallMessage>> ClientConnection::Next(Call& call, TimePoint deadline) {
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

StatusOr<std::optional<CallMessage>> ClientConnection::TakePart(Call& call) {
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
  Status status = CheckMessageBytes(part, max_message_bytes_, "reply");
  if (status.ok() && call.landing != nullptr && part.landed_bytes == 0) {
    status = Land(call.landing->memory(), &part);
  }
  if (!status.ok()) {
    GiveUp(call, status);
    AwaitQuiet(call);
    MutexLock lock(mutex_);
    call.landed_untaken = true;
    return status;
  }
  if (credit > 0) {
    FrameHead head{.kind = FrameKind::kCredit};
    head.id = call.id;
    head.amount = credit;
    (void)SendHead(head);  // When the connection is over, the receiver tells.
  }
  return part;
}

uint64_t ClientConnection::CreditDue(Call& call) {
  if (call.end || over_ || call.taken_bytes < CreditStep(window_bytes_)) return 0;
  return std::exchange(call.taken_bytes, 0);
}

void ClientConnection::GiveUp(Call& call, const Status& why) {
  std::deque<CallMessage> let_go;  // Owners go outside the lock.
  bool tell = false;
  {
    MutexLock lock(mutex_);
    if (call.given_up) return;
    call.given_up = why;
    let_go.swap(call.parts);
    let_go.push_back(std::exchange(call.arriving, {}));
    call.landed_untaken =
        std::ranges::any_of(let_go, [](const CallMessage& part) { return part.landed_bytes > 0; });
    call.queued_bytes = 0;
    tell = !call.end;
    if (!(direct_landing_ && call.landing != nullptr)) calls_.erase(call.id);
    call.Tell();
  }
  if (!tell) return;
  FrameHead head{.kind = FrameKind::kCancel};
  head.id = call.id;
  (void)SendHead(head);  // When the connection is over, nobody needs to be told.
}

void ClientConnection::AwaitQuiet(Call& call) {
  {
    MutexLock lock(mutex_);
    while (call.is_landing) call.changed.Wait(mutex_);
  }
  if (!direct_landing_ || call.landing == nullptr) return;
  const TimePoint limit = After(options_.cancel_timeout);
  {
    MutexLock lock(mutex_);
    while (!call.end && !pipe_quiet_) {
      const TimePoint now = SystemClock().Now();
      if (now >= limit) break;
      (void)call.changed.WaitFor(mutex_, limit - now);
    }
    // An end that the connection made up says nothing about the server's device.
    if (pipe_quiet_ || (call.end && !over_)) return;
  }
  Close();
}

bool ClientConnection::MayHaveLanded(const Call& call) const {
  MutexLock lock(mutex_);
  if (call.landing == nullptr) return false;
  return direct_landing_ || call.landed_untaken || call.arriving.landed_bytes > 0;
}

bool ClientConnection::IsQuiet(const Call& call) const {
  MutexLock lock(mutex_);
  if (call.is_landing) return false;
  if (!direct_landing_ || call.landing == nullptr || pipe_quiet_) return true;
  return call.end && !over_;  // As in AwaitQuiet.
}

void ClientConnection::Close() {
  pipe_->Close();
  {
    MutexLock lock(mutex_);
    pipe_quiet_ = true;
  }
  Fail(Unavailable("the connection has been closed"));
}

void ClientConnection::Fail(const Status& why) {
  MutexLock lock(mutex_);
  EndCalls(why, why);
}

void ClientConnection::Break(std::string_view what) {
  MutexLock lock(mutex_);
  EndCalls(Unavailable("the server broke the protocol: ", what),
           Internal("the server broke the protocol: ", what,
                    "; check that client and server are of the same version"));
}

void ClientConnection::EndCalls(const Status& over, const Status& end) {
  const Status& why = over_ ? *over_ : end;
  for (auto& [id, call] : calls_) {
    if (!call->end) call->end = why;
    call->Tell();
  }
  if (!over_) over_ = over;
  calls_.clear();
  changed_.NotifyAll();
}

void ClientConnection::OnClosed(const Status& why) {
  {
    MutexLock lock(mutex_);
    pipe_quiet_ = true;
  }
  // Pipes report malformed bytes as INVALID_ARGUMENT.
  if (IsInvalidArgument(why)) return Break(Message(why));
  Fail(Unavailable("the connection to the server is over: ", Message(why)));
}

void ClientConnection::OnFrame(Frame frame) {
  const auto head = DecodeFrameHead(frame.head);
  if (!head.ok()) return Break(Message(head.status()));
  switch (head->kind) {
    case FrameKind::kHelloReply:
      return OnHelloReply(*head);
    case FrameKind::kPiece:
    case FrameKind::kPart:
      return OnPart(*head, std::move(frame));
    case FrameKind::kEnd:
      return OnEnd(*head);
    default:
      return Break("it sent what only clients send");
  }
}

void ClientConnection::OnHelloReply(const FrameHead& head) {
  if (head.code != StatusCode::kOk) return Fail(FrameStatus(head));
  if (head.id == 0 || head.name != options_.tenant || head.amount > options_.window_bytes) {
    return Break("its hello is not for this connection");
  }
  MutexLock lock(mutex_);
  connection_id_ = head.id;
  window_bytes_ = head.amount;
  changed_.NotifyAll();
}

void ClientConnection::OnPart(const FrameHead& head, Frame frame) {
  const CallPtr call = BeginPart(head.id);
  if (call == nullptr) return;  // The bytes are let go.
  const bool lent = IsLent(frame.payload);
  auto piece = PartOf(head, std::move(frame));
  if (piece.ok() && (lent || piece->landed_bytes > 0)) {
    if (const Status kept = Keep(head, call->landing, &*piece); !kept.ok()) piece = kept;
  }
  const Status status = EndPart(*call, std::move(piece), head.kind == FrameKind::kPart);
  if (!status.ok()) Break(Message(status));
}

ClientConnection::CallPtr ClientConnection::BeginPart(uint64_t id) {
  MutexLock lock(mutex_);
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second->given_up) return nullptr;
  it->second->is_landing = true;
  return it->second;
}

Status ClientConnection::EndPart(Call& call, StatusOr<CallMessage> piece, bool is_last) {
  MutexLock lock(mutex_);
  call.is_landing = false;
  // Most pieces are nothing that anybody waits for.
  if (is_last || !piece.ok() || call.given_up || call.end) call.Tell();
  QUIRE_RETURN_IF_ERROR(piece.status());
  if (call.given_up || call.end) {
    call.landed_untaken |= piece->landed_bytes > 0;
    return OkStatus();
  }
  call.queued_bytes += piece->payload.size_bytes() + piece->landed_bytes;
  if (call.queued_bytes > window_bytes_ + max_message_bytes_) {
    return InvalidArgument("it sent more than it has credit for");
  }
  QUIRE_RETURN_IF_ERROR(AddPiece(*std::move(piece), &call.arriving));
  if (is_last) call.parts.push_back(std::exchange(call.arriving, {}));
  return OkStatus();
}

void ClientConnection::OnEnd(const FrameHead& head) {
  MutexLock lock(mutex_);
  const auto it = calls_.find(head.id);
  if (it == calls_.end()) return;
  it->second->end = FrameStatus(head);
  it->second->Tell();
  calls_.erase(it);
}

}  // namespace quire
