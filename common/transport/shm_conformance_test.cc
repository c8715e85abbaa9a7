// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "common/transport/frame_pipe_conformance.h"
#include "common/transport/shm_listener.h"
#include "common/transport/shm_pipe.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

/// A connection whose memory for copies takes some of what the suite sends, or nothing. Closing a
/// descriptor is what the death of a process does to the peer; other processes die in
/// shm_faults_test.
class ShmUnderTest final : public PipesUnderTest {
 public:
  explicit ShmUnderTest(uint64_t copy_out_bytes, Duration spin) {
    ShmListener::Options options{.path = directory_ / "socket"};
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
  FramePipe& client() override { return *client_; }
  FramePipe& server() override { return *server_; }
  void KillClient() override { client_->Close(); }
  void KillServer() override { server_->Close(); }

 private:
  static constexpr Duration kPatience = std::chrono::minutes(5);

  TempDir directory_;
  Mutex mutex_;
  CondVar came_;
  std::unique_ptr<FramePipe> accepted_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<ShmListener> listener_;
  std::unique_ptr<FramePipe> client_, server_;
};

std::unique_ptr<PipesUnderTest> MakeCopied() {
  return std::make_unique<ShmUnderTest>(8 << 20, Duration::zero());
}
std::unique_ptr<PipesUnderTest> MakeInline() {
  return std::make_unique<ShmUnderTest>(0, std::chrono::microseconds(20));
}

INSTANTIATE_TEST_SUITE_P(ShmCopied, FramePipeConformance, ::testing::Values(&MakeCopied));
INSTANTIATE_TEST_SUITE_P(ShmInline, FramePipeConformance, ::testing::Values(&MakeInline));

}  // namespace
}  // namespace quire::testing
