// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_stream.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr size_t kPartsAtOnce = 256;
constexpr size_t kDescriptorsAtOnce = 8;
/// Untaken descriptors of a peer that are kept: those of a server's regions, and a client's one.
constexpr size_t kMostDescriptors = 64;
constexpr size_t kMostClientDescriptors = 1;
/// Overhead of a queued packet in bytes.
constexpr uint64_t kPacketBytes = 256;
constexpr uint32_t kReadEvents = EPOLLIN;

Status Over(std::string_view what) { return Unavailable("shared-memory connection: ", what); }

int PollMillis(Duration left) {
  const Duration within = std::clamp<Duration>(left, Duration::zero(), std::chrono::hours(1));
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(within).count());
}

std::span<const std::byte> Part(const ShmOutgoing& packet, size_t part) {
  return part == 0 ? std::span<const std::byte>(packet.bytes)
                   : packet.payload.slices()[part - 1].bytes;
}

/// Room for one descriptor with a message, in the system's alignment.
union ControlOfOne {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> room;
};

void Attach(int fd, ControlOfOne* control, msghdr* message) {
  message->msg_control = control->room.data();
  message->msg_controllen = control->room.size();
  cmsghdr* const header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

}  // namespace

ShmStream::ShmStream(UniqueFd socket, const Options& options, ShmLoop* loop, Receiver* receiver)
    : options_(options),
      loop_(loop),
      receiver_(receiver),
      reader_(options.limits),
      socket_(std::move(socket)) {}

void ShmStream::Start() {
  Status failed;
  {
    MutexLock lock(mutex_);
    StatusOr<ShmLoop::Token> token = loop_->Add(socket_.get(), kReadEvents, shared_from_this());
    if (token.ok()) {
      token_ = *token;
      if (loop_bytes_ > 0) WatchQueue();
      return;
    }
    over_ = token.status();
    told_ = true;
    failed = over_;
  }
  receiver_->OnEnd(failed);
}

uint64_t ShmStream::AddPrelude(ShmOutgoing packet) {
  MutexLock lock(mutex_);
  preludes_.push_back({.packet = std::move(packet)});
  return uint64_t{1} << (preludes_.size() - 1);
}

Status ShmStream::Send(ShmOutgoing packet) {
  MutexLock lock(mutex_);
  const bool may_wait = !loop_->InLoopThread();
  if (!may_wait && loop_bytes_ > options_.max_queued_bytes) {
    EndLater(Over("the peer lets its answers pile up"));
  }
  if (!over_.ok()) return over_;
  SendNeeded(packet.needs);
  Take(std::move(packet));
  if (may_wait) AwaitWritten(queued_);
  return over_;
}

void ShmStream::SendNeeded(uint64_t needs) {
  for (size_t i = 0; needs != 0; ++i, needs >>= 1) {
    if ((needs & 1) == 0 || std::exchange(preludes_[i].sent, true)) continue;
    Take(std::move(preludes_[i].packet));
  }
}

void ShmStream::Take(ShmOutgoing packet) {
  Writing writing{.packet = std::move(packet)};
  if (queue_.empty()) {
    switch (Write(&writing)) {
      case Progress::kDone:
        return;
      case Progress::kBlocked:
        last_progress_ = SystemClock().Now();
        break;
      case Progress::kFailed:
        return EndLater(Over("the peer has closed it or died"));
    }
  }
  writing.from_loop = loop_->InLoopThread();
  if (writing.from_loop) loop_bytes_ += writing.packet.size_bytes() + kPacketBytes;
  queue_.push_back(std::move(writing));
  ++queued_;
  if (token_ != 0 && loop_bytes_ > 0) WatchQueue();
}

void ShmStream::WatchQueue() {
  if (std::exchange(watching_, true)) return;
  loop_->SetEvents(token_, kReadEvents | EPOLLOUT);
  loop_->SetDeadline(token_, last_progress_ + options_.stall_timeout);
}

/// Writes the queue, including packets of others, since the loop may be busy.
void ShmStream::AwaitWritten(uint64_t packet) {
  while (over_.ok() && written_ < packet) {
    const Duration left = last_progress_ + options_.stall_timeout - SystemClock().Now();
    pollfd room = {.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    mutex_.Unlock();
    (void)poll(&room, 1, PollMillis(left));
    mutex_.Lock();
    Flush();
    EndStalled(SystemClock().Now());
  }
}

void ShmStream::EndStalled(TimePoint now) {
  if (queue_.empty() || now < last_progress_ + options_.stall_timeout) return;
  EndLater(Over("the peer has taken no bytes for too long"));
}

ShmStream::Progress ShmStream::Write(Writing* writing) {
  const ShmOutgoing& packet = writing->packet;
  const size_t parts = 1 + packet.payload.slices().size();
  while (writing->part < parts) {
    std::array<iovec, kPartsAtOnce> vectors;
    size_t count = 0;
    for (size_t part = writing->part; part < parts && count < kPartsAtOnce; ++part, ++count) {
      std::span<const std::byte> bytes = Part(packet, part);
      if (count == 0) bytes = bytes.subspan(writing->offset);
      vectors[count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    }
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    ControlOfOne control = {};
    if (packet.fd >= 0 && writing->part == 0 && writing->offset == 0) {
      Attach(packet.fd, &control, &message);
    }
    ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN ? Progress::kBlocked : Progress::kFailed;
    for (auto left = static_cast<size_t>(sent); left > 0;) {
      const size_t rest = Part(packet, writing->part).size() - writing->offset;
      const size_t step = std::min(left, rest);
      left -= step;
      writing->offset = step == rest ? 0 : writing->offset + step;
      if (step == rest) ++writing->part;
    }
  }
  return Progress::kDone;
}

void ShmStream::Flush() {
  while (!queue_.empty() && over_.ok()) {
    Writing& first = queue_.front();
    const std::pair before(first.part, first.offset);
    const Progress progress = Write(&first);
    if (std::pair(first.part, first.offset) != before) last_progress_ = SystemClock().Now();
    if (progress == Progress::kBlocked) return;
    if (progress == Progress::kFailed) return EndLater(Over("the peer has closed it or died"));
    if (first.from_loop) loop_bytes_ -= first.packet.size_bytes() + kPacketBytes;
    queue_.pop_front();
    ++written_;
  }
  if (!queue_.empty() || !std::exchange(watching_, false)) return;
  loop_->SetEvents(token_, kReadEvents);
  loop_->SetDeadline(token_, ShmLoop::kNever);
}

/// Shuts the socket down, so that the loop ends the connection.
void ShmStream::EndLater(const Status& why) {
  if (!over_.ok()) return;
  over_ = why;
  (void)shutdown(socket_.get(), SHUT_RDWR);
}

void ShmStream::Fail(const Status& why) {
  MutexLock lock(mutex_);
  EndLater(why);
}

void ShmStream::OnReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    MutexLock lock(mutex_);
    Flush();
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) ReadOnce();
}

void ShmStream::OnDeadline(TimePoint now) {
  MutexLock lock(mutex_);
  EndStalled(now);
  if (!queue_.empty() && over_.ok()) {
    loop_->SetDeadline(token_, last_progress_ + options_.stall_timeout);
  }
}

void ShmStream::ReadOnce() {
  std::array<iovec, 2> vectors;
  msghdr message = {};
  message.msg_iov = vectors.data();
  for (const std::span<std::byte> room : reader_.Room()) {
    if (!room.empty()) vectors[message.msg_iovlen++] = {room.data(), room.size()};
  }
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsAtOnce * sizeof(int))> control;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return End(Over("the peer has closed it or died"));
  KeepDescriptors(message);
  if (const Status status = reader_.Take(static_cast<size_t>(got), *this); !status.ok()) {
    End(status);
  }
}

void ShmStream::KeepDescriptors(const msghdr& message) {
  const size_t most = options_.limits.from_server ? kMostDescriptors : kMostClientDescriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (descriptors_.size() < most) descriptors_.push_back(std::move(owned));
    }
  }
}

StatusOr<UniqueFd> ShmStream::TakeDescriptor() {
  if (descriptors_.empty()) {
    return InvalidArgument("shared-memory connection: the peer's descriptor is missing");
  }
  UniqueFd fd = std::move(descriptors_.front());
  descriptors_.pop_front();
  return fd;
}

Status ShmStream::OnPacket(ShmPacket& packet) { return receiver_->OnPacket(packet); }

void ShmStream::End(const Status& why) {
  std::deque<Writing> unsent;  // Destroyed outside the lock.
  Status reason;
  {
    MutexLock lock(mutex_);
    EndLater(why);
    if (std::exchange(told_, true)) return;
    reason = over_;
    unsent.swap(queue_);
    loop_->Remove(token_);  // Does not wait on the loop's own thread.
  }
  receiver_->OnEnd(reason);
}

void ShmStream::Close() {
  ShmLoop::Token token = 0;
  {
    MutexLock lock(mutex_);
    EndLater(Over("it was closed here"));
    told_ = true;
    token = token_;
  }
  if (token != 0) loop_->Remove(token);
  std::deque<Writing> unsent;
  std::deque<UniqueFd> untaken;
  UniqueFd socket;
  MutexLock lock(mutex_);
  unsent.swap(queue_);
  untaken.swap(descriptors_);
  std::swap(socket, socket_);
}

}  // namespace quire
