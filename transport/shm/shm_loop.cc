// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace quire {
namespace {

constexpr int kEventsAtOnce = 64;
constexpr Duration kLongestSleep = std::chrono::hours(1);

epoll_event EventFor(uint64_t token, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = token;
  return event;
}

}  // namespace

StatusOr<std::shared_ptr<ShmLoop>> ShmLoop::Start(Duration spin) {
  std::shared_ptr<ShmLoop> loop(new ShmLoop(spin), &Dispose);
  loop->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event = EventFor(kWakeToken, EPOLLIN);
  if (!loop->epoll_.valid() || !loop->wake_.valid() ||
      epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0) {
    return ResourceExhausted("cannot wait for sockets: ", std::strerror(errno));
  }
  loop->thread_ = std::thread([loop = loop.get()] {
    loop->Run();
    if (loop->delete_at_end_) delete loop;
  });
  return loop;
}

/// Detaches if the last owner is a handler: a thread cannot join itself.
void ShmLoop::Dispose(ShmLoop* loop) {
  if (!loop->InLoopThread()) {
    delete loop;
    return;
  }
  loop->thread_.detach();
  loop->delete_at_end_ = true;
  loop->stopping_.store(true, std::memory_order_relaxed);
}

ShmLoop::~ShmLoop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  Wake();
  thread_.join();
}

void ShmLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);  // Fails only if it is set already.
}

StatusOr<ShmLoop::Token> ShmLoop::Add(int fd, uint32_t events, std::shared_ptr<Handler> handler) {
  MutexLock lock(mutex_);
  const Token token = next_token_++;
  epoll_event event = EventFor(token, events);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ResourceExhausted("cannot wait for a socket: ", std::strerror(errno));
  }
  entries_.emplace(token, Entry{.fd = fd, .handler = std::move(handler)});
  return token;
}

void ShmLoop::SetEvents(Token token, uint32_t events) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(token);
  if (it == entries_.end()) return;
  epoll_event event = EventFor(token, events);
  // Cannot fail: the descriptor is registered.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, it->second.fd, &event);
}

void ShmLoop::SetDeadline(Token token, TimePoint deadline) {
  bool too_late = false;
  {
    MutexLock lock(mutex_);
    const auto it = entries_.find(token);
    if (it == entries_.end()) return;
    it->second.deadline = deadline;
    too_late = deadline < wakes_at_;
    wakes_at_ = std::min(wakes_at_, deadline);
  }
  if (too_late && !InLoopThread()) Wake();
}

void ShmLoop::Remove(Token token) {
  std::shared_ptr<Handler> removed;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  if (const auto it = entries_.find(token); it != entries_.end()) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
    removed = std::move(it->second.handler);
    entries_.erase(it);
  }
  if (InLoopThread()) return;
  while (running_ == token) left_.Wait(mutex_);
}

void ShmLoop::Run() {
  std::array<epoll_event, kEventsAtOnce> events;
  TimePoint spin_until = SystemClock().Now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const bool spinning = spin_ > Duration::zero() && SystemClock().Now() < spin_until;
    const int count =
        epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, spinning ? 0 : SleepMillis());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 != kWakeToken) {
        Call(event.data.u64, event.events);
        continue;
      }
      uint64_t wakes;
      (void)!read(wake_.get(), &wakes, sizeof wakes);
    }
    CallDeadlines();
    if (count > 0 && spin_ > Duration::zero()) spin_until = SystemClock().Now() + spin_;
  }
}

int ShmLoop::SleepMillis() {
  MutexLock lock(mutex_);
  wakes_at_ = kNever;
  for (const auto& [token, entry] : entries_) wakes_at_ = std::min(wakes_at_, entry.deadline);
  if (wakes_at_ == kNever) return -1;
  const Duration sleep =
      std::clamp<Duration>(wakes_at_ - SystemClock().Now(), Duration::zero(), kLongestSleep);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(sleep).count());
}

void ShmLoop::CallDeadlines() {
  std::vector<Token> passed;
  const TimePoint now = SystemClock().Now();
  {
    MutexLock lock(mutex_);
    if (now < wakes_at_) return;
    for (auto& [token, entry] : entries_) {
      if (entry.deadline > now) continue;
      entry.deadline = kNever;
      passed.push_back(token);
    }
  }
  for (const Token token : passed) {
    if (const std::shared_ptr<Handler> handler = Enter(token)) {
      handler->OnDeadline(now);
      Leave();
    }
  }
}

void ShmLoop::Call(Token token, uint32_t events) {
  if (const std::shared_ptr<Handler> handler = Enter(token)) {
    handler->OnReady(events);
    Leave();
  }
}

std::shared_ptr<ShmLoop::Handler> ShmLoop::Enter(Token token) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(token);
  if (it == entries_.end()) return nullptr;
  running_ = token;
  return it->second.handler;
}

void ShmLoop::Leave() {
  MutexLock lock(mutex_);
  running_ = kNone;
  left_.NotifyAll();
}

}  // namespace quire
