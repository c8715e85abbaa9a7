// SPDX-License-Identifier: Apache-2.0
//
// The peer process for tests that kill it. `shm_test_peer hold PATH` connects, and receives and
// keeps frames without end. `shm_test_peer serve PATH` listens, and answers each frame with units
// in its shared memory, all bytes 'q'. Both report their actions on standard output.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "transport/shm/shm_listener.h"
#include "transport/shm/shm_pipe.h"

namespace {

using namespace quire;

constexpr uint64_t kUnits = 16, kUnitBytes = 4096;

class Holder final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override {
    frames_.push_back(std::move(frame));
    std::cout << "holds " << frames_.size() << std::endl;
  }
  void OnClosed(const Status& why) override { std::cout << why << std::endl; }

 private:
  std::vector<Frame> frames_;
};

class Answerer final : public FrameReceiver {
 public:
  Answerer(std::unique_ptr<FramePipe> pipe, SharedMemory* memory)
      : memory_(memory), pipe_(std::move(pipe)) {}
  void Start() { pipe_->Start(this); }
  void OnFrame(Frame frame) override {
    Frame answer{.head = std::move(frame.head), .payload = {}};
    for (uint64_t i = 0; i < kUnits; ++i) {
      answer.payload.Append(
          Slice{memory_->bytes().subspan(i * kUnitBytes, kUnitBytes), std::make_shared<int>()});
    }
    (void)pipe_->Send(std::move(answer));
  }
  void OnClosed(const Status& why) override { std::cout << why << std::endl; }

 private:
  SharedMemory* const memory_;
  const std::unique_ptr<FramePipe> pipe_;
};

[[noreturn]] void WaitToBeKilled() {
  while (true) pause();
}

int Hold(const std::string& path) {
  auto pipe = ConnectShm(path, {});
  if (!pipe.ok()) {
    std::cerr << pipe.status() << std::endl;
    return 1;
  }
  Holder holder;
  (*pipe)->Start(&holder);
  WaitToBeKilled();
}

int Serve(const std::string& path) {
  const auto memory = SharedMemory::Create("quire-test", kUnits * kUnitBytes).value();
  std::ranges::fill(memory->bytes(), std::byte{'q'});
  std::vector<std::unique_ptr<Answerer>> answerers;
  const auto listener = ShmListener::Listen(
      {.path = path, .memory = {memory->view()}, .share_memory = true},
      [&](std::unique_ptr<FramePipe> pipe) {
        answerers.push_back(std::make_unique<Answerer>(std::move(pipe), memory.get()));
        answerers.back()->Start();
      });
  std::cout << listener.status() << std::endl;
  WaitToBeKilled();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role == "hold") return Hold(argv[2]);
  if (role == "serve") return Serve(argv[2]);
  std::cerr << "usage: shm_test_peer hold|serve PATH\n";
  return 2;
}
