// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/mutex.h"
#include "transport/grpc/grpc_pipe.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/frame_pipe_conformance.h"
#include "transport/testing/no_calls.h"

namespace quire::testing {
namespace {

constexpr uint64_t kMaxMessageBytes = 8 << 20;

/// Uses a separate server for each pair.
class GrpcPipes final : public PipesUnderTest {
 public:
  GrpcPipes() {
    auto server = GrpcServer::Start({.max_message_bytes = kMaxMessageBytes,
                                     .accept_pipe = [this](auto pipe) { Accept(std::move(pipe)); },
                                     .max_streams = 1},
                                    &no_calls_);
    EXPECT_TRUE(server.ok()) << server.status();
    grpc_ = *std::move(server);
    auto client =
        ConnectGrpcPipe({.address = grpc_->address(), .max_message_bytes = kMaxMessageBytes});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    MutexLock lock(mutex_);
    while (server_ == nullptr) accepted_.Wait(mutex_);
  }
  ~GrpcPipes() override {
    client_.reset();
    server().Close();
    grpc_->Shutdown(Duration::zero());
  }

  FramePipe& client() override { return *client_; }
  FramePipe& server() override {
    MutexLock lock(mutex_);
    return *server_;
  }
  void KillClient() override { client_->Close(); }
  void KillServer() override { grpc_->Shutdown(Duration::zero()); }

 private:
  void Accept(std::unique_ptr<FramePipe> pipe) {
    MutexLock lock(mutex_);
    server_ = std::move(pipe);
    accepted_.NotifyAll();
  }

  NoCalls no_calls_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<FramePipe> client_;
  Mutex mutex_;
  CondVar accepted_;
  std::unique_ptr<FramePipe> server_ QUIRE_GUARDED_BY(mutex_);
};

std::unique_ptr<PipesUnderTest> MakeGrpcPipes() { return std::make_unique<GrpcPipes>(); }

INSTANTIATE_TEST_SUITE_P(Grpc, FramePipeConformance, ::testing::Values(&MakeGrpcPipes));

}  // namespace
}  // namespace quire::testing
