// SPDX-License-Identifier: Apache-2.0
//
// A receiver that keeps what arrives, and payloads, for the tests of pipes and connections. Product
// code does not include this.
#ifndef QUIRE_TRANSPORT_TESTING_FRAME_RECORDER_H_
#define QUIRE_TRANSPORT_TESTING_FRAME_RECORDER_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "tests/kit/look_again.h"
#include "tests/kit/random_bytes.h"
#include "transport/frame_pipe.h"

namespace quire::testing {

/// Keeps what arrives. After Stall, the next OnFrame waits for Resume.
class FrameRecorder final : public FrameReceiver {
 public:
  ~FrameRecorder() override { Resume(); }

  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    inside_ = true;
    changed_.NotifyAll();
    while (stalled_) changed_.Wait(mutex_);
    inside_ = false;
    EXPECT_FALSE(closed_) << "a frame came after the end";
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
  }
  void OnClosed(const Status& why) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(closed_) << "the end came twice";
    closed_ = why;
    changed_.NotifyAll();
  }

  void Stall() {
    MutexLock lock(mutex_);
    stalled_ = true;
  }
  void Resume() {
    MutexLock lock(mutex_);
    stalled_ = false;
    changed_.NotifyAll();
  }
  /// Waits until a frame is stalled inside.
  void AwaitStalled() {
    MutexLock lock(mutex_);
    while (!inside_) changed_.Wait(mutex_);
  }
  /// Waits for `count` frames and returns them.
  std::vector<Frame> Take(size_t count) {
    MutexLock lock(mutex_);
    while (frames_.size() < count && !closed_) changed_.Wait(mutex_);
    EXPECT_GE(frames_.size(), count) << "the connection ended first";
    return std::exchange(frames_, {});
  }
  /// Drops the frames that were not taken.
  void Forget() {
    std::vector<Frame> forgotten;  // Destroyed outside the lock.
    MutexLock lock(mutex_);
    forgotten.swap(frames_);
  }
  Status AwaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
    return *closed_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);
  bool stalled_ QUIRE_GUARDED_BY(mutex_) = false;
  bool inside_ QUIRE_GUARDED_BY(mutex_) = false;
};

inline std::vector<std::byte> BytesOf(const Payload& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  return bytes;
}
/// Slices of these sizes, each with an owner.
inline Payload PayloadOfSizes(const std::vector<size_t>& sizes, uint64_t seed) {
  Payload payload;
  for (const size_t size : sizes) payload.Append(RandomBytes(size, seed++));
  return payload;
}
/// A payload of one slice, and a witness of its owner.
inline Payload WatchedPayload(size_t bytes, std::weak_ptr<const void>* witness) {
  auto owner = std::make_shared<const std::vector<std::byte>>(bytes, std::byte{9});
  *witness = owner;
  Payload payload;
  const std::span<const std::byte> span(*owner);
  payload.Append(Slice{span, std::move(owner)});
  return payload;
}
/// Waits up to a minute until the owner has expired; threads of the pipe drop it.
inline bool Expires(const std::weak_ptr<const void>& witness) {
  const TimePoint limit = SystemClock().Now() + std::chrono::minutes(1);
  while (!witness.expired() && SystemClock().Now() < limit) WaitToLookAgain();
  return witness.expired();
}

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_FRAME_RECORDER_H_
