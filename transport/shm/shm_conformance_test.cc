// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "tests/kit/temp_dir.h"
#include "transport/shm/shm_listener.h"
#include "transport/shm/shm_pipe.h"
#include "transport/testing/frame_pipe_conformance.h"
#include "transport/testing/lent_memory.h"

namespace quire::testing {
namespace {

/// A connection with little or no memory for copies, or one whose server lends payload while `lent`
/// has room. Closing a descriptor has the effect of a process's death on the peer. Real processes
/// die in shm_faults_test.
class ShmUnderTest final : public PipesUnderTest {
 public:
  ShmUnderTest(uint64_t copy_out_bytes, Duration spin) { Connect({}, copy_out_bytes, spin); }
  explicit ShmUnderTest(const std::shared_ptr<LentMemory>& lent) : PipesUnderTest(lent) {
    Connect({lent->view()}, kCopyOutBytes, Duration::zero());
    lent->SentBy(*listener_);
  }
  FramePipe& client() override { return *client_; }
  FramePipe& server() override { return *server_; }
  void KillClient() override { client_->Close(); }
  void KillServer() override { server_->Close(); }

  static constexpr uint64_t kCopyOutBytes = 8 << 20;

 private:
  static constexpr Duration kPatience = std::chrono::minutes(5);

  void Connect(std::vector<SharedMemoryView> memory, uint64_t copy_out_bytes, Duration spin) {
    ShmListener::Options options{.path = directory_ / "socket"};
    options.memory = std::move(memory);
    options.share_memory = !options.memory.empty();
    options.copy_out_bytes = copy_out_bytes;
    options.stall_timeout = kPatience;
    options.spin = spin;
    listener_ = ShmListener::Listen(options, [this](std::unique_ptr<FramePipe> pipe) {
                  MutexLock lock(mutex_);
                  accepted_ = std::move(pipe);
                  came_.NotifyAll();
                }).value();
    client_ =
        ConnectShm(options.path, {.stall_timeout = options.stall_timeout, .spin = spin}).value();
    MutexLock lock(mutex_);
    while (accepted_ == nullptr) came_.Wait(mutex_);
    server_ = std::move(accepted_);
  }

  TempDir directory_;
  Mutex mutex_;
  CondVar came_;
  std::unique_ptr<FramePipe> accepted_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<ShmListener> listener_;
  std::unique_ptr<FramePipe> client_, server_;
};

std::unique_ptr<PipesUnderTest> MakeCopied() {
  return std::make_unique<ShmUnderTest>(ShmUnderTest::kCopyOutBytes, Duration::zero());
}
std::unique_ptr<PipesUnderTest> MakeInline() {
  return std::make_unique<ShmUnderTest>(0, std::chrono::microseconds(20));
}

/// Has room for at most half of what the suite sends at once.
std::unique_ptr<PipesUnderTest> MakeLent() {
  return std::make_unique<ShmUnderTest>(std::make_shared<LentMemory>(32 << 20));
}

INSTANTIATE_TEST_SUITE_P(ShmLent, FramePipeConformance, ::testing::Values(&MakeLent));
INSTANTIATE_TEST_SUITE_P(ShmCopied, FramePipeConformance, ::testing::Values(&MakeCopied));
INSTANTIATE_TEST_SUITE_P(ShmInline, FramePipeConformance, ::testing::Values(&MakeInline));

}  // namespace
}  // namespace quire::testing
