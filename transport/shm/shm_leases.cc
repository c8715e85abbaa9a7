// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_leases.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "transport/shm/shm_wire.h"

namespace quire {
namespace {

constexpr size_t kWordsAtOnce = 512;
/// Most messages handled before other connections have their turn.
constexpr int kMessagesAtOnce = 64;

}  // namespace

StatusOr<std::shared_ptr<ShmLeases>> ShmLeases::Open(ShmLoop* loop, const Limits& limits,
                                                     std::shared_ptr<ShmUse> use,
                                                     OnBroken on_broken, UniqueFd* client_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ResourceExhausted("cannot make a lease channel: ", std::strerror(errno));
  }
  UniqueFd channel(ends[0]);
  *client_end = UniqueFd(ends[1]);
  const int fd = channel.get();
  std::shared_ptr<ShmLeases> leases(
      new ShmLeases(loop, limits, std::move(use), std::move(on_broken), std::move(channel)));
  MutexLock lock(leases->mutex_);
  QUIRE_ASSIGN_OR_RETURN(leases->token_, loop->Add(fd, EPOLLIN, leases));
  return leases;
}

ShmLeases::ShmLeases(ShmLoop* loop, const Limits& limits, std::shared_ptr<ShmUse> use,
                     OnBroken on_broken, UniqueFd channel)
    : loop_(loop),
      limits_(limits),
      use_(std::move(use)),
      on_broken_(std::move(on_broken)),
      channel_(std::move(channel)) {}

ShmLeases::~ShmLeases() {
  (void)shutdown(channel_.get(), SHUT_RDWR);  // Notifies the client before the memory is released.
  MutexLock lock(mutex_);
  use_->leased_bytes -= bytes_;
}

uint64_t ShmLeases::Reserve(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (ended_ || orphaned_ || bytes > limits_.max_bytes - bytes_) return 0;
  const TimePoint now = SystemClock().Now();
  const uint64_t number = next_number_++;
  held_.emplace(number, Held{.lease = {}, .bytes = bytes, .since = now});
  bytes_ += bytes;
  use_->leased_bytes += bytes;
  if (!std::exchange(deadline_set_, true)) loop_->SetDeadline(token_, now + limits_.max_age);
  return number;
}

void ShmLeases::Fill(uint64_t number, Lease lease) {
  MutexLock lock(mutex_);
  const auto it = held_.find(number);  // Absent if the client or its end released it first.
  if (it != held_.end()) std::swap(it->second.lease, lease);
}

bool ShmLeases::Take(std::span<const uint64_t> words) {
  std::vector<uint64_t> given_back;
  given_back.reserve(words.size());
  for (const uint64_t word : words) {
    if (Says(word, ShmLeaseWord::kGivenBack)) {
      given_back.push_back(word);
    } else if (!Says(word, ShmLeaseWord::kRenew) || !Renew(word & kShmLeaseNumberMask)) {
      return false;
    }
  }
  return Release(given_back);
}

bool ShmLeases::Release(std::span<const uint64_t> numbers) {
  std::vector<Table::node_type> over;  // Destroyed outside the lock: owners may do anything.
  over.reserve(numbers.size());
  ShmLoop::Token finished = 0;
  {
    MutexLock lock(mutex_);
    for (const uint64_t number : numbers) {
      const auto it = held_.find(number);
      if (it == held_.end() && ended_early_.erase(number) > 0) continue;
      if (it == held_.end()) return false;
      bytes_ -= it->second.bytes;
      use_->leased_bytes -= it->second.bytes;
      over.push_back(held_.extract(it));
    }
    if (orphaned_ && held_.empty() && !std::exchange(ended_, true)) finished = token_;
  }
  if (finished != 0) loop_->Remove(finished);
  return true;
}

bool ShmLeases::Renew(uint64_t number) {
  ShmLeaseWord answer = ShmLeaseWord::kRefused;
  {
    MutexLock lock(mutex_);
    const auto it = held_.find(number);
    if (it == held_.end() && !ended_early_.contains(number)) return false;
    if (it != held_.end() && !orphaned_) {
      it->second.since = SystemClock().Now();
      answer = ShmLeaseWord::kRenewed;
    }
  }
  const uint64_t word = ShmWordOf(number, answer);
  (void)SendWords({&word, 1});  // A client that reads nothing does not learn of the renewal.
  return true;
}

bool ShmLeases::SendWords(std::span<const uint64_t> words) const {
  while (!words.empty()) {
    const auto some = words.first(std::min(words.size(), kWordsAtOnce));
    const ssize_t sent =
        send(channel_.get(), some.data(), some.size_bytes(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    words = words.subspan(some.size());
  }
  return true;
}

void ShmLeases::Drop(uint64_t number) { (void)Release(std::span(&number, 1)); }

void ShmLeases::Orphan() {
  ShmLoop::Token finished = 0;
  {
    MutexLock lock(mutex_);
    orphaned_ = true;
    if (held_.empty() && !std::exchange(ended_, true)) finished = token_;
  }
  if (finished != 0) loop_->Remove(finished);
}

void ShmLeases::EndAll() {
  Table over;
  ShmLoop::Token token = 0;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    over = std::move(held_);
    held_.clear();
    use_->leased_bytes -= std::exchange(bytes_, 0);
    token = token_;
  }
  loop_->Remove(token);
  (void)shutdown(channel_.get(), SHUT_RDWR);  // Notifies the client, if there is one.
}

void ShmLeases::OnReady(uint32_t events) {
  (void)events;
  std::array<uint64_t, kWordsAtOnce> numbers;
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const ssize_t got =
        recv(channel_.get(), numbers.data(), sizeof numbers, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return EndAll();
    const auto bytes = static_cast<size_t>(got);
    if (bytes % sizeof numbers[0] != 0 || bytes > sizeof numbers ||
        !Take(std::span(numbers).first(bytes / sizeof numbers[0]))) {
      EndAll();
      return on_broken_(
          InvalidArgument("shared-memory connection: the client gave back what it does not hold"));
    }
  }
}

TimePoint ShmLeases::TakeExpired(TimePoint now, Table* over, std::vector<uint64_t>* words) {
  TimePoint next = ShmLoop::kNever;
  for (auto it = held_.begin(); it != held_.end();) {
    const auto lease = it++;
    const TimePoint end = lease->second.since + limits_.max_age;
    if (end > now) {
      next = std::min(next, end);
      continue;
    }
    bytes_ -= lease->second.bytes;
    use_->leased_bytes -= lease->second.bytes;
    words->push_back(ShmWordOf(lease->first, ShmLeaseWord::kEnded));
    ended_early_.insert(lease->first);
    over->insert(held_.extract(lease));
  }
  deadline_set_ = !held_.empty();
  return next;
}

void ShmLeases::OnDeadline(TimePoint now) {
  Table over;  // Released after the client has been notified.
  std::vector<uint64_t> words;
  {
    MutexLock lock(mutex_);
    loop_->SetDeadline(token_, TakeExpired(now, &over, &words));
  }
  if (words.empty()) return;
  if (!SendWords(words)) EndAll();
  Orphan();
  on_broken_(
      Unavailable("shared-memory connection: the client has held payload for longer than ",
                  std::chrono::duration_cast<std::chrono::milliseconds>(limits_.max_age).count(),
                  " ms; copy what is needed for longer, or renew its lease"));
}

}  // namespace quire
