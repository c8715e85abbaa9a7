// SPDX-License-Identifier: Apache-2.0
//
// FrameCollector: a receiver for tests that keeps frames and lets a test wait for them.
#ifndef QUIRE_TRANSPORT_TESTING_FRAME_COLLECTOR_H_
#define QUIRE_TRANSPORT_TESTING_FRAME_COLLECTOR_H_

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/threads/mutex.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire::testing {

inline constexpr Duration kPatience = std::chrono::seconds(60);

/// Something that happens once.
class Event {
 public:
  void Set() {
    MutexLock lock(mutex_);
    set_ = true;
    changed_.NotifyAll();
  }
  /// Returns false on timeout.
  bool Wait() {
    const TimePoint deadline = SystemClock().Now() + kPatience;
    MutexLock lock(mutex_);
    while (!set_ && SystemClock().Now() < deadline) changed_.WaitFor(mutex_, kPatience);
    return set_;
  }
  bool IsSet() {
    MutexLock lock(mutex_);
    return set_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ QUIRE_GUARDED_BY(mutex_) = false;
};

/// An owner for slices; sets `gone` when its last copy is dropped.
inline std::shared_ptr<const void> TrackedOwner(const std::shared_ptr<Event>& gone) {
  return std::shared_ptr<const void>(gone.get(), [gone](const void*) { gone->Set(); });
}

class FrameCollector final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
  }
  void OnClosed(const Status& why) override {
    MutexLock lock(mutex_);
    closed_ = why;
    changed_.NotifyAll();
  }

  /// The next frame; nullopt when the connection ended first, or on timeout.
  std::optional<Frame> Next() {
    const TimePoint deadline = SystemClock().Now() + kPatience;
    MutexLock lock(mutex_);
    while (frames_.empty() && !closed_ && SystemClock().Now() < deadline) {
      changed_.WaitFor(mutex_, kPatience);
    }
    if (frames_.empty()) return std::nullopt;
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  /// Why the connection ended; OK on timeout.
  Status Closed() {
    const TimePoint deadline = SystemClock().Now() + kPatience;
    MutexLock lock(mutex_);
    while (!closed_ && SystemClock().Now() < deadline) changed_.WaitFor(mutex_, kPatience);
    return closed_.value_or(OkStatus());
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_FRAME_COLLECTOR_H_
