// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/server_connection.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "common/base/memory/unit_copy.h"
#include "common/base/retry_hint.h"
#include "common/wire/limits.h"
#include "transport/frames/frame_parts.h"
#include "transport/frames/message_limit.h"

namespace quire {
namespace {

constexpr std::chrono::milliseconds kRetryCallAfter{10};
/// Urgency of the connection's own frames, above all parts.
constexpr int kMostUrgent = static_cast<int>(Priority::kCorrection) + 1;
/// Pending refusals per permitted call. A client that causes more does not read.
constexpr size_t kRefusalsPerCall = 4;

Status Cancelled() { return Status(StatusCode::kCancelled, "the client has cancelled the call"); }

int UrgencyOf(Priority priority) { return static_cast<int>(priority); }

}  // namespace

class ServerConnection::Writer final : public ReplyWriter {
 public:
  Writer(ServerConnection* connection, Call* call) : connection_(connection), call_(call) {}
  Status Write(CallMessage part) override {
    return connection_->WritePart(*call_, std::move(part));
  }

 private:
  ServerConnection* const connection_;
  Call* const call_;
};

class ServerConnection::AnnouncedLanding final : public CallLanding {
 public:
  AnnouncedLanding(std::weak_ptr<ServerConnection> connection, uint64_t id)
      : connection_(std::move(connection)), id_(id) {}
  bool Claim(const void* owner) override {
    const void* before = nullptr;
    return owner_.compare_exchange_strong(before, owner) || before == owner;
  }
  void Revoke() override {
    if (const auto connection = connection_.lock()) connection->CloseLandingIf(id_, this);
  }

 private:
  const std::weak_ptr<ServerConnection> connection_;
  const uint64_t id_;
  std::atomic<const void*> owner_{nullptr};
};

ServerConnection::ServerConnection(std::unique_ptr<FramePipe> pipe, uint64_t id,
                                   const Limits& limits, const Parts& parts)
    : id_(id),
      limits_(limits),
      parts_(parts),
      pipe_(std::move(pipe)),
      kind_(pipe_->capabilities().name),
      max_message_bytes_(MessageLimitOf(*pipe_, limits.max_message_bytes)),
      piece_bytes_(pipe_->capabilities().piece_bytes),
      hello_limit_(SystemClock().Now() + limits.hello_timeout) {}

ServerConnection::~ServerConnection() {
  Close();
  Join();
}

void ServerConnection::Start() {
  {
    MutexLock lock(join_mutex_);
    thread_ = std::thread([this] { Run(); });
  }
  pipe_->Start(this);
}

void ServerConnection::Kill() {
  MutexLock lock(mutex_);
  over_ = true;
  outbox_.clear();
  for (auto& [id, call] : calls_) call->cancelled.Set();
  turns_.WakeAll();
  changed_.NotifyAll();
}

void ServerConnection::KillIfStuck(TimePoint now) {
  {
    MutexLock lock(mutex_);
    if (!turns_.busy() || now - send_started_ < limits_.stall_timeout) return;
  }
  ReportStalled();
  Close();
}

void ServerConnection::ReportStalled() {
  parts_.counters->stalled.Add();
  std::string tenant;
  {
    MutexLock lock(mutex_);
    tenant = tenant_;
  }
  NoteTo(parts_.health, Trouble::kCallRefused,
         "a client of tenant '" + tenant + "' over " + kind_ + " does not take what it asked for");
}

void ServerConnection::Drain() {
  MutexLock lock(mutex_);
  draining_ = true;
}

void ServerConnection::AwaitIdle(TimePoint limit) {
  MutexLock lock(mutex_);
  for (TimePoint now = SystemClock().Now(); running_ > 0 && now < limit;
       now = SystemClock().Now()) {
    (void)changed_.WaitFor(mutex_, std::min<Duration>(limit - now, kLongestWait));
  }
}

void ServerConnection::Close() {
  Kill();
  pipe_->Close();  // Wakes the sending thread.
}

void ServerConnection::Join() {
  MutexLock lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

bool ServerConnection::IsOpenFor(std::string_view tenant) const {
  MutexLock lock(mutex_);
  return !over_ && state_ == State::kOpen && tenant_ == tenant;
}

bool ServerConnection::IsFinished() const {
  MutexLock lock(mutex_);
  return finished_;
}

void ServerConnection::BecomeOpen(std::string_view tenant) {
  MutexLock lock(mutex_);
  state_ = State::kOpen;
  tenant_ = tenant;
}

Status ServerConnection::OpenLanding(uint64_t landing, std::string_view key, uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    QUIRE_RETURN_IF_ERROR(CheckLanding(landing));
  }
  QUIRE_RETURN_IF_ERROR(pipe_->OpenLanding(landing, key, bytes));
  Status status;
  {
    MutexLock lock(mutex_);
    // Other landings were announced meanwhile, or the connection has ended.
    status = CheckLanding(landing);
    // An open landing stays unchanged.
    if (status.ok() && !landings_.contains(landing)) {
      landings_[landing] = std::make_shared<AnnouncedLanding>(weak_from_this(), landing);
    }
  }
  if (!status.ok()) pipe_->CloseLanding(landing);
  return status;
}

Status ServerConnection::CheckLanding(uint64_t landing) const {
  if (over_) return Unavailable("the connection to the client is over");
  if (landings_.size() < wire::kMaxLandings || landings_.contains(landing)) return OkStatus();
  return ResourceExhausted("the connection has ", landings_.size(),
                           " landings, which is the limit: remove one first");
}

void ServerConnection::CloseLandingIf(uint64_t landing, const AnnouncedLanding* only) {
  {
    MutexLock lock(mutex_);
    const auto it = landings_.find(landing);
    if (it == landings_.end() || (only != nullptr && it->second.get() != only)) return;
    landings_.erase(it);
  }
  pipe_->CloseLanding(landing);
}

void ServerConnection::OnClosed(const Status&) { Kill(); }

void ServerConnection::OnFrame(Frame frame) {
  auto head = DecodeFrameHead(frame.head);
  if (!head.ok()) return Kill();  // The peer does not speak the protocol, so it gets no answer.
  State state;
  {
    MutexLock lock(mutex_);
    if (over_) return;
    state = state_;
  }
  if (state == State::kRefused) return;
  if ((state == State::kAwaitingHello) != (head->kind == FrameKind::kHello)) {
    return Kill();  // A connection begins with one hello.
  }
  switch (head->kind) {
    case FrameKind::kHello:
      return OnHello(*head);
    case FrameKind::kRequest:
      return OnRequest(*std::move(head), std::move(frame.payload));
    case FrameKind::kCancel:
      return OnCancel(head->id);
    case FrameKind::kCredit:
      return OnCredit(head->id, head->amount);
    default:
      return Kill();  // Only servers send these.
  }
}

void ServerConnection::OnHello(const FrameHead& hello) {
  const uint64_t window = std::min(hello.amount, limits_.max_window_bytes);
  {
    MutexLock lock(mutex_);
    window_bytes_ = window;
  }
  const Status status = parts_.admit(*this, hello);
  FrameHead reply{.kind = FrameKind::kHelloReply};
  reply.id = id_;
  if (status.ok()) {
    reply.amount = window;
    reply.name = hello.name;
  } else {
    parts_.counters->hello_refused.Add();
    const bool is_limit = IsResourceExhausted(status);
    NoteTo(parts_.health, is_limit ? Trouble::kCallRefused : Trouble::kCallerUnproven,
           "a connection over " + std::string(kind_) + ": " + std::string(Message(status)));
    SetFrameStatus(status, &reply);
  }
  MutexLock lock(mutex_);
  if (!status.ok()) state_ = State::kRefused;
  outbox_.push_back({.head = EncodeFrameHead(reply)});
  changed_.NotifyAll();
}

void ServerConnection::OnRequest(FrameHead head, Payload payload) {
  parts_.counters->calls.Add();
  const auto call = std::make_shared<Call>();
  call->id = head.id;
  call->method = std::move(head.name);
  call->request = {std::move(head.text), std::move(payload)};
  call->request_bytes = MessageBytes(call->request);
  call->landing = head.landing;
  call->landing_bytes = head.landing_bytes;
  call->piece_bytes =
      head.piece_bytes == 0 ? piece_bytes_ : std::min<uint64_t>(piece_bytes_, head.piece_bytes);
  const bool whole = head.max_parts == 1;
  call->context = {
      .tenant = {},
      .deadline =
          SystemClock().Now() +
          Duration(static_cast<int64_t>(std::min<uint64_t>(
              head.amount, std::chrono::nanoseconds(std::chrono::hours(24 * 365)).count()))),
      .priority = head.priority,
      .max_parts = head.max_parts,
      .part_bytes = whole ? max_message_bytes_ : std::min(limits_.part_bytes, max_message_bytes_),
      .cancelled = &call->cancelled,
      .trace = head.trace};
  Status status = CheckMessageBytes(call->request, max_message_bytes_, "request");
  if (status.ok()) status = EnterCall(call);
  if (status.ok()) {
    status = parts_.threads->Run(
        call->context.tenant, [self = shared_from_this(), call] { self->RunCall(call); },
        call->context.priority);
    if (!status.ok()) LeaveCall(*call);
  }
  if (status.ok()) return;
  parts_.counters->calls_refused.Add();
  if (IsResourceExhausted(status)) {
    NoteTo(parts_.health, Trouble::kCallRefused,
           call->method + ": " + std::string(Message(status)));
  }
  MutexLock lock(mutex_);
  QueueEnd(*call, status);
}

Status ServerConnection::EnterCall(const CallPtr& call) {
  MutexLock lock(mutex_);
  if (draining_) return Unavailable("the server shuts down: connect again, or to another one");
  if (calls_.contains(call->id)) {
    return InvalidArgument("call ", call->id, " is running: every call needs its own number");
  }
  if (calls_.size() >= limits_.max_calls) {
    return WithRetryAfter(ResourceExhausted("the connection has ", calls_.size(),
                                            " calls running, which is the limit; retry later"),
                          kRetryCallAfter);
  }
  if (request_bytes_ + call->request_bytes > limits_.max_request_bytes && request_bytes_ > 0) {
    return WithRetryAfter(
        ResourceExhausted("the requests of the connection's calls have ", request_bytes_,
                          " bytes, the limit is ", limits_.max_request_bytes, "; retry later"),
        kRetryCallAfter);
  }
  call->context.tenant = tenant_;
  if (const auto it = landings_.find(call->landing); it != landings_.end()) {
    call->context.landing = it->second;
  }
  call->credit = static_cast<int64_t>(window_bytes_);
  if (over_) call->cancelled.Set();
  calls_[call->id] = call;
  request_bytes_ += call->request_bytes;
  ++running_;
  return OkStatus();
}

void ServerConnection::LeaveCall(Call& call) {
  MutexLock lock(mutex_);
  calls_.erase(call.id);
  request_bytes_ -= call.request_bytes;
  --running_;
  changed_.NotifyAll();
}

void ServerConnection::OnCancel(uint64_t id) {
  MutexLock lock(mutex_);
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;  // It has just ended.
  Call& call = *it->second;
  if (call.cancelled.IsSet()) return;
  call.cancelled.Set();
  parts_.counters->cancelled.Add();
  if (call.turn != nullptr) call.turn->changed.NotifyAll();
  if (call.sending || call.end_sent) return;  // The sender of a part also sends the end after it.
  call.end_sent = true;
  QueueEnd(call, Cancelled());
}

void ServerConnection::OnCredit(uint64_t id, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = *it->second;
  const auto window = static_cast<int64_t>(window_bytes_);
  // Prevents an overflow by sums that a client invents; honest ones never exceed the window.
  bytes = std::min<uint64_t>(bytes, uint64_t{1} << 60);
  call.credit = std::min(window, call.credit + static_cast<int64_t>(bytes));
  call.credit_gained = std::min(call.credit_step, call.credit_gained + bytes);
  if (call.credit_gained == call.credit_step) {
    call.credit_gained = 0;
    call.waits_since = SystemClock().Now();
  }
  turns_.Grant();
}

Frame ServerConnection::EndFrame(const Call& call, const Status& status) {
  FrameHead head{.kind = FrameKind::kEnd};
  head.id = call.id;
  SetFrameStatus(status, &head);
  return {.head = EncodeFrameHead(head), .priority = call.context.priority};
}

void ServerConnection::QueueEnd(const Call& call, const Status& status) {
  if (over_) return;
  outbox_.push_back(EndFrame(call, status));
  if (outbox_.size() > kRefusalsPerCall * limits_.max_calls) over_ = true;
  changed_.NotifyAll();
}

void ServerConnection::RunCall(const CallPtr& call) {
  Writer writer(this, call.get());
  Status status = call->cancelled.IsSet()
                      ? Cancelled()
                      : parts_.handler->Handle(call->context, call->method, call->request, writer);
  call->request = {};
  {
    MutexLock lock(mutex_);
    if (status.ok() && call->parts == 0) {
      status = Internal(call->method, " was answered without a reply");
    }
  }
  EndCall(*call, status);
}

Status ServerConnection::CheckPart(const Call& call, const CallMessage& part) const {
  QUIRE_RETURN_IF_ERROR(CheckMessageBytes(part, max_message_bytes_, "reply"));
  if (part.places.empty()) return OkStatus();
  return CheckPlaces(part.payload, part.places,
                     call.landing != 0 ? call.landing_bytes : wire::kMaxLandingBytes);
}

Status ServerConnection::WritePart(Call& call, CallMessage part) {
  QUIRE_RETURN_IF_ERROR(CheckPart(call, part));
  {
    MutexLock lock(mutex_);
    if (call.parts >= call.context.max_parts) {
      return Internal("the reply has more than ", call.parts, " parts, all that the caller takes");
    }
  }
  // The client returns credit for whole parts, so the first frame needs the credit of all.
  uint64_t credit = part.payload.size_bytes();
  for (Frame& frame : FramesOfPart(call.id, call.landing, std::move(part), call.piece_bytes)) {
    QUIRE_RETURN_IF_ERROR(WriteFrame(call, std::move(frame), std::exchange(credit, 0)));
  }
  MutexLock lock(mutex_);
  ++call.parts;
  return OkStatus();
}

Status ServerConnection::WriteFrame(Call& call, Frame frame, uint64_t credit) {
  const uint64_t bytes = frame.payload.size_bytes();
  const int urgency = UrgencyOf(call.context.priority);
  SendTurns::Turn turn{.urgency = urgency, .frame_urgency = urgency};
  frame.priority = call.context.priority;
  Status may;
  bool has_stalled = false;
  {
    MutexLock lock(mutex_);
    turn.credit = credit > 0 ? &call.credit : nullptr;
    turn.credit_needed = CreditNeeded(credit, window_bytes_);
    may = AwaitTurn(call, turn);
    has_stalled = std::exchange(call.has_stalled, false);
    if (may.ok()) {
      call.credit -= static_cast<int64_t>(credit);
      call.sending = true;
    }
  }
  if (has_stalled) ReportStalled();
  QUIRE_RETURN_IF_ERROR(may);
  const Status sent = Send(std::move(frame));
  bool end = false;
  {
    MutexLock lock(mutex_);
    call.sending = false;
    end = call.cancelled.IsSet() && !call.end_sent && !over_;
    if (end) call.end_sent = true;
  }
  if (sent.ok()) parts_.counters->bytes_sent.Add(bytes);
  if (end) (void)Send(EndFrame(call, Cancelled()));
  MutexLock lock(mutex_);
  turns_.Finish(turn);
  return sent;
}

Status ServerConnection::AwaitTurn(Call& call, SendTurns::Turn& turn) {
  call.waits_since = SystemClock().Now();
  // Smaller than the step of honest clients, and proportional to what the client owes.
  const int64_t owed = static_cast<int64_t>(turn.credit_needed) - call.credit;
  call.credit_step =
      CreditStep(std::max(window_bytes_, static_cast<uint64_t>(std::max<int64_t>(owed, 0))));
  call.credit_gained = 0;
  turns_.Enter(&turn);
  call.turn = &turn;
  Status why;
  while (!turn.granted) {
    const TimePoint now = SystemClock().Now();
    why = CheckMayProceed(call, turn, now);
    if (!why.ok()) break;
    const Duration wait = WakeAt(call, turn) - now;
    (void)turn.changed.WaitFor(mutex_, std::clamp<Duration>(wait, Duration(1), kLongestWait));
  }
  call.turn = nullptr;
  if (!turn.granted) {
    turns_.Leave(&turn);
    return why;
  }
  // The call may have ended for the client since the grant: nothing follows its end.
  if (why = CheckMayProceed(call, turn, SystemClock().Now()); !why.ok()) {
    turns_.Finish(turn);
    return why;
  }
  send_started_ = SystemClock().Now();
  return OkStatus();
}

Status ServerConnection::CheckMayProceed(Call& call, const SendTurns::Turn& turn, TimePoint now) {
  if (over_) return Unavailable("the connection to the client is over");
  if (call.cancelled.IsSet()) return Cancelled();
  if (now >= call.context.deadline) {
    return DeadlineExceeded("the call's deadline passed while its reply was sent");
  }
  if (!turn.HasCredit() && now - call.waits_since >= limits_.stall_timeout) {
    call.has_stalled = true;
    return DeadlineExceeded("the client has taken next to nothing of the reply for ",
                            std::chrono::duration<double>(limits_.stall_timeout).count(), " s");
  }
  return OkStatus();
}

TimePoint ServerConnection::WakeAt(const Call& call, const SendTurns::Turn& turn) const {
  if (turn.HasCredit()) return call.context.deadline;
  return std::min(call.context.deadline, call.waits_since + limits_.stall_timeout);
}

void ServerConnection::EndCall(Call& call, const Status& status) {
  const int urgency = UrgencyOf(call.context.priority);
  SendTurns::Turn turn{.urgency = urgency, .frame_urgency = urgency};
  bool tell = false;
  {
    MutexLock lock(mutex_);
    calls_.erase(call.id);  // The client may reuse its place as soon as it gets the end.
    request_bytes_ -= call.request_bytes;
    tell = !call.end_sent && AwaitOwnTurn(turn);
    call.end_sent = true;
  }
  if (tell) (void)Send(EndFrame(call, status));
  MutexLock lock(mutex_);
  if (tell) turns_.Finish(turn);
  --running_;
  changed_.NotifyAll();
}

bool ServerConnection::AwaitOwnTurn(SendTurns::Turn& turn) {
  turns_.Enter(&turn);
  while (!turn.granted && !over_) turn.changed.Wait(mutex_);
  if (turn.granted) {
    send_started_ = SystemClock().Now();
  } else {
    turns_.Leave(&turn);
  }
  return turn.granted;
}

Status ServerConnection::Send(Frame frame) {
  const Status status = pipe_->Send(std::move(frame));
  if (IsUnavailable(status)) Kill();
  return status;
}

void ServerConnection::SendOut(Frame frame) {
  SendTurns::Turn turn{.urgency = kMostUrgent, .frame_urgency = UrgencyOf(frame.priority)};
  {
    MutexLock lock(mutex_);
    if (!AwaitOwnTurn(turn)) return;
  }
  (void)Send(std::move(frame));
  MutexLock lock(mutex_);
  turns_.Finish(turn);
}

bool ServerConnection::AwaitOutgoing(Frame* frame) {
  MutexLock lock(mutex_);
  while (!over_ && outbox_.empty()) {
    if (state_ == State::kOpen) {
      changed_.Wait(mutex_);
      continue;
    }
    // A client without a hello, or refused, has a moment to send one, or to read the reason.
    const TimePoint now = SystemClock().Now();
    if (now >= hello_limit_) return false;
    (void)changed_.WaitFor(mutex_, hello_limit_ - now);
  }
  if (over_) return false;
  *frame = std::move(outbox_.front());
  outbox_.pop_front();
  return true;
}

void ServerConnection::Run() {
  for (Frame frame; AwaitOutgoing(&frame);) SendOut(std::exchange(frame, {}));
  Close();
  MutexLock lock(mutex_);
  while (running_ > 0) changed_.Wait(mutex_);
  finished_ = true;
}

}  // namespace quire
