// SPDX-License-Identifier: Apache-2.0
//
// One end of a UCX pipe as a separate process, for tests that kill it.
//   ucx_peer serve LANE         prints its address; sends frames into landing 1 of its client,
//                               whose key is the client's first frame
//   ucx_peer pull LANE ADDRESS  sends such a key; prints how the first units arrived (HowItCame)
// LANE: tcp, shm or direct (UcxLaneOptions).
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "tests/integration/ucx_lane.h"

namespace {

using namespace quire;

/// Passes the frames on until the connection ends.
class Frames final : public FrameReceiver {
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
  /// Null when the connection has ended and no frames are left.
  std::optional<Frame> Next() {
    MutexLock lock(mutex_);
    while (frames_.empty() && !closed_) changed_.Wait(mutex_);
    if (frames_.empty()) return std::nullopt;
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);
};

/// Accepts clients, and prints its address.
class Listening {
 public:
  Status Start(const UcxOptions& options) {
    QUIRE_ASSIGN_OR_RETURN(
        listener_, ListenUcx("127.0.0.1:0", options, [this](std::unique_ptr<FramePipe> pipe) {
          MutexLock lock(mutex_);
          pipes_.push_back(std::move(pipe));
          accepted_.NotifyAll();
        }));
    std::cout << listener_->address() << std::endl;
    return OkStatus();
  }
  std::unique_ptr<FramePipe> Take() {
    MutexLock lock(mutex_);
    while (pipes_.empty()) accepted_.Wait(mutex_);
    auto pipe = std::move(pipes_.front());
    pipes_.pop_front();
    return pipe;
  }

 private:
  Mutex mutex_;
  CondVar accepted_;
  std::deque<std::unique_ptr<FramePipe>> pipes_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<PipeListener> listener_;  // Destroyed before the members that it uses.
};

/// Serves the first client with a landing, until it disconnects.
int Serve(const UcxOptions& options) {
  Listening listening;
  if (!listening.Start(options).ok()) return 1;
  for (;;) {
    Frames frames;  // Outlives the pipe.
    const std::unique_ptr<FramePipe> pipe = listening.Take();
    pipe->Start(&frames);
    const std::optional<Frame> key = frames.Next();
    if (!key) continue;
    if (!pipe->OpenLanding(1, key->head, testing::kUcxLandingBytes).ok()) return 1;
    while (pipe->Send(testing::UcxUnits()).ok()) {
    }
    return 0;
  }
}

Status Pull(const std::string& lane, const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(const auto pipe, ConnectUcx(address, testing::UcxLaneOptions(lane)));
  Frames frames;
  pipe->Start(&frames);
  QUIRE_ASSIGN_OR_RETURN(const OwnedMemory memory, testing::UcxLandingMemory(*pipe, lane));
  QUIRE_ASSIGN_OR_RETURN(const std::string key, pipe->AddLanding(1, memory.bytes));
  QUIRE_RETURN_IF_ERROR(pipe->Send({.head = key, .payload = {}}));
  const std::optional<Frame> units = frames.Next();
  if (!units) return Unavailable("the connection was over before the units came");
  QUIRE_RETURN_IF_ERROR(testing::CheckUcxUnits(*units, memory.bytes));
  std::cout << testing::HowItCame(*units) << std::endl;
  while (frames.Next()) {
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (argc == 3 && args[1] == "serve") return Serve(testing::UcxLaneOptions(args[2]));
  if (argc == 4 && args[1] == "pull") {
    const Status status = Pull(args[2], args[3]);
    std::cerr << status << "\n";
    return status.ok() ? 0 : 1;
  }
  std::cerr << "usage: ucx_peer serve LANE | pull LANE ADDRESS\n";
  return 2;
}
