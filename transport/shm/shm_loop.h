// SPDX-License-Identifier: Apache-2.0
//
// ShmLoop: the thread that waits for sockets of shared-memory connections. A server has one for all
// connections, a client one for each. It may spin before it sleeps: waking a thread on another CPU
// costs more than a small frame.
//
// Ownership: handlers are shared until they are removed, and keep plain pointers to the loop. The
// loop ends with its last owner.
// Thread-safety: all methods may be called concurrently, also by handlers.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LOOP_H_
#define QUIRE_TRANSPORT_SHM_SHM_LOOP_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>

#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

class ShmLoop {
 public:
  using Token = uint64_t;
  static constexpr TimePoint kNever = TimePoint::max();

  /// Called by the loop's thread, one call at a time over all handlers. Must not block.
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Some of the requested events are ready; repeats while they are.
    virtual void OnReady(uint32_t events) = 0;
    /// The deadline has passed, and is cleared.
    virtual void OnDeadline(TimePoint now) = 0;
  };

  /// `spin`: how long to poll without sleeping after the last event.
  static StatusOr<std::shared_ptr<ShmLoop>> Start(Duration spin);
  /// Runs on the thread of the last owner.
  ~ShmLoop();
  ShmLoop(const ShmLoop&) = delete;
  ShmLoop& operator=(const ShmLoop&) = delete;

  /// Calls `handler` for `events` (EPOLL*, hang-ups and errors always) of `fd` until Remove.
  [[nodiscard]] StatusOr<Token> Add(int fd, uint32_t events, std::shared_ptr<Handler> handler);
  void SetEvents(Token token, uint32_t events);
  /// On SystemClock(); kNever clears it.
  void SetDeadline(Token token, TimePoint deadline);
  /// Removes a handler. After it returns the handler is not called again, nor is it running, except
  /// for a call from the loop's own thread. Unknown tokens are ignored. Close the descriptor
  /// afterwards.
  void Remove(Token token);

  bool InLoopThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Entry {
    int fd;
    TimePoint deadline = kNever;
    std::shared_ptr<Handler> handler;
  };
  static constexpr Token kWakeToken = 0;
  static constexpr Token kNone = UINT64_MAX;

  explicit ShmLoop(Duration spin) : spin_(spin) {}
  static void Dispose(ShmLoop* loop);
  void Run();
  void Wake();
  /// Milliseconds until the next deadline, as epoll_wait takes them.
  int SleepMillis() QUIRE_EXCLUDES(mutex_);
  void CallDeadlines();
  void Call(Token token, uint32_t events);
  std::shared_ptr<Handler> Enter(Token token) QUIRE_EXCLUDES(mutex_);
  void Leave() QUIRE_EXCLUDES(mutex_);

  const Duration spin_;
  UniqueFd epoll_, wake_;
  std::atomic<bool> stopping_{false};
  bool delete_at_end_ = false;  // Used by the loop's thread only.

  Mutex mutex_;
  CondVar left_;
  std::map<Token, Entry> entries_ QUIRE_GUARDED_BY(mutex_);
  Token next_token_ QUIRE_GUARDED_BY(mutex_) = kWakeToken + 1;
  Token running_ QUIRE_GUARDED_BY(mutex_) = kNone;
  TimePoint wakes_at_ QUIRE_GUARDED_BY(mutex_) = kNever;

  std::thread thread_;  // Set before any handler can run.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LOOP_H_
