// SPDX-License-Identifier: Apache-2.0
//
// A listener with memory to share, and connections to it.
#ifndef QUIRE_TRANSPORT_TESTING_SHM_FIXTURE_H_
#define QUIRE_TRANSPORT_TESTING_SHM_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "common/base/memory/shared_memory.h"
#include "common/base/threads/mutex.h"
#include "tests/kit/same_bytes.h"
#include "tests/kit/temp_dir.h"
#include "transport/shm/shm_listener.h"
#include "transport/shm/shm_pipe.h"
#include "transport/testing/frame_collector.h"

namespace quire::testing {

/// A started pipe and its receiver. The pipe is destroyed first.
struct ShmEnd {
  std::unique_ptr<FrameCollector> frames = std::make_unique<FrameCollector>();
  std::unique_ptr<FramePipe> pipe;

  explicit ShmEnd(std::unique_ptr<FramePipe> made) : pipe(std::move(made)) {
    pipe->Start(frames.get());
  }
};

class ShmTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kArenaBytes = 4 << 20;

  ShmTest() {
    options_.path = directory_ / "socket";
    options_.memory = {arena_->view()};
    options_.share_memory = true;
    uint64_t word = 0;
    for (std::byte& byte : arena_->bytes()) byte = static_cast<std::byte>(word++ * 31 >> 3);
  }

  void Listen() {
    listener_ = ShmListener::Listen(options_, [this](std::unique_ptr<FramePipe> pipe) {
                  MutexLock lock(mutex_);
                  accepted_.push_back(std::move(pipe));
                  came_.NotifyAll();
                }).value();
  }
  ShmEnd Connect() {
    ShmConnectOptions options;
    options.stall_timeout = options_.stall_timeout;
    return ShmEnd(ConnectShm(options_.path, options).value());
  }
  /// The server end of the oldest connection not yet taken.
  std::unique_ptr<FramePipe> AcceptedPipe() {
    MutexLock lock(mutex_);
    while (accepted_.empty()) came_.Wait(mutex_);
    std::unique_ptr<FramePipe> pipe = std::move(accepted_.front());
    accepted_.pop_front();
    return pipe;
  }
  ShmEnd Accepted() { return ShmEnd(AcceptedPipe()); }

  std::span<const std::byte> Arena(uint64_t offset, uint64_t bytes) const {
    return arena_->view().bytes.subspan(offset, bytes);
  }
  /// A frame of `count` units of `bytes` each from the arena; its owner sets `gone`.
  Frame UnitsInArena(uint64_t count, uint64_t bytes, const std::shared_ptr<Event>& gone) const {
    Frame frame{.head = "units", .payload = {}};
    const std::shared_ptr<const void> owner = TrackedOwner(gone);
    for (uint64_t i = 0; i < count; ++i) {
      frame.payload.Append(Slice{Arena((i * 2 * bytes) % (kArenaBytes - bytes), bytes), owner});
    }
    return frame;
  }
  static bool SamePayload(const Payload& a, const Payload& b) {
    const Slice left = a.Flatten(), right = b.Flatten();
    return SameBytes(left.bytes, right.bytes);
  }

  TempDir directory_;
  std::unique_ptr<SharedMemory> arena_ = SharedMemory::Create("quire-test", kArenaBytes).value();
  ShmListener::Options options_;
  Mutex mutex_;
  CondVar came_;
  std::deque<std::unique_ptr<FramePipe>> accepted_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<ShmListener> listener_;
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_SHM_FIXTURE_H_
