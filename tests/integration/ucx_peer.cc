// SPDX-License-Identifier: Apache-2.0
//
// One end of a UCX pipe as a process of its own, for tests that kill it.
//   ucx_peer serve tcp|shm         prints its address; sends frames into landing 1 of its client,
//                                  whose key is the client's first frame
//   ucx_peer pull tcp|shm ADDRESS  sends such a key; prints "receiving" after the first frame
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "tests/integration/ucx_lane.h"

namespace {

using namespace quire;

/// Passes the first frame on, then waits for the end of the connection.
class First final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    if (!has_first_) first_ = std::move(frame);
    has_first_ = true;
    changed_.NotifyAll();
  }
  void OnClosed(const Status&) override {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  /// The first frame's head; nullopt when the connection was over before there was one.
  std::optional<std::string> WaitHead() {
    MutexLock lock(mutex_);
    while (!has_first_ && !closed_) changed_.Wait(mutex_);
    return has_first_ ? std::optional(first_.head) : std::nullopt;
  }
  void WaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  Frame first_ QUIRE_GUARDED_BY(mutex_);
  bool has_first_ QUIRE_GUARDED_BY(mutex_) = false;
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
};

/// Serves the first client that has a landing, until it goes.
int Serve(const UcxOptions& options) {
  Mutex mutex;
  CondVar accepted;
  std::deque<std::unique_ptr<FramePipe>> pipes;
  const auto listener = ListenUcx("127.0.0.1:0", options, [&](std::unique_ptr<FramePipe> incoming) {
    MutexLock lock(mutex);
    pipes.push_back(std::move(incoming));
    accepted.NotifyAll();
  });
  if (!listener.ok()) return 1;
  std::cout << (*listener)->address() << std::endl;
  for (;;) {
    First receiver;  // Outlives the pipe.
    std::unique_ptr<FramePipe> pipe;
    {
      MutexLock lock(mutex);
      while (pipes.empty()) accepted.Wait(mutex);
      pipe = std::move(pipes.front());
      pipes.pop_front();
    }
    pipe->Start(&receiver);
    const std::optional<std::string> key = receiver.WaitHead();
    if (!key) continue;
    if (!pipe->OpenLanding(1, *key, testing::kUcxLandingBytes).ok()) return 1;
    while (pipe->Send(testing::UcxUnits()).ok()) {
    }
    return 0;
  }
}

int Pull(const UcxOptions& options, const std::string& address) {
  const auto pipe = ConnectUcx(address, options);
  if (!pipe.ok()) return 1;
  First receiver;
  (*pipe)->Start(&receiver);
  std::vector<std::byte> memory(testing::kUcxLandingBytes);
  const auto key = (*pipe)->AddLanding(1, memory);
  if (!key.ok() || !(*pipe)->Send({.head = *key, .payload = {}}).ok()) return 1;
  (void)receiver.WaitHead();
  std::cout << "receiving" << std::endl;
  receiver.WaitClosed();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (argc == 3 && args[1] == "serve") return Serve(testing::UcxLaneOptions(args[2]));
  if (argc == 4 && args[1] == "pull") return Pull(testing::UcxLaneOptions(args[2]), args[3]);
  std::cerr << "usage: ucx_peer serve LANE | pull LANE ADDRESS\n";
  return 2;
}
