// SPDX-License-Identifier: Apache-2.0
//
// What every IoEngine must do. An engine passes when its factory is instantiated and the suite is
// green; a factory returns null where the machine cannot run the engine.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_ENGINE_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_ENGINE_CONFORMANCE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/payload/io_engine.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

using MakeEngine = std::unique_ptr<IoEngine> (*)();

inline std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

class EngineConformanceTest : public ::testing::TestWithParam<MakeEngine> {
 protected:
  void SetUp() override {
    if (engine_ == nullptr) GTEST_SKIP() << "this machine cannot run the engine";
    fd_ = open((dir_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
  }
  void RunOne(IoRequest& request) { engine_->Run({&request, 1}); }
  void Write(uint64_t offset, const std::vector<std::byte>& bytes) {
    IoRequest write = IoRequest::Write(fd_, offset, bytes);
    RunOne(write);
    ASSERT_TRUE(write.complete()) << write.error;
  }

  const quire::testing::TempDir dir_;
  const std::unique_ptr<IoEngine> engine_ = GetParam()();
  int fd_ = -1;
};

TEST_P(EngineConformanceTest, HasAName) { EXPECT_FALSE(engine_->name().empty()); }

TEST_P(EngineConformanceTest, ReadsBackWhatWasWritten) {
  for (const size_t size : {1, 511, 512, 4095, 4096, 4097, (1 << 20) + 3}) {
    for (const uint64_t offset : {0, 1, 4096, 123457}) {
      const auto bytes = RandomBytes(size, size + offset);
      Write(offset, bytes);
      std::vector<std::byte> read(size);
      IoRequest request = IoRequest::Read(fd_, offset, read);
      RunOne(request);
      EXPECT_TRUE(request.complete()) << request.error;
      EXPECT_EQ(read, bytes);
    }
  }
}

TEST_P(EngineConformanceTest, RunsBatchesLargerThanAnyQueue) {
  constexpr size_t kRequests = 700, kBytes = 512;
  const auto bytes = RandomBytes(kRequests * kBytes, 1);
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < kRequests; ++i) {
    const auto part = std::span(bytes).subspan(i * kBytes, kBytes);
    requests.push_back(IoRequest::Write(fd_, i * kBytes, part));
  }
  engine_->Run(requests);
  for (const IoRequest& request : requests) ASSERT_TRUE(request.complete()) << request.error;
  std::vector<std::byte> read(bytes.size());
  requests.clear();
  for (size_t i = kRequests; i-- > 0;) {
    requests.push_back(
        IoRequest::Read(fd_, i * kBytes, std::span(read).subspan(i * kBytes, kBytes)));
  }
  engine_->Run(requests);
  for (const IoRequest& request : requests) ASSERT_TRUE(request.complete()) << request.error;
  EXPECT_EQ(read, bytes);
}

TEST_P(EngineConformanceTest, NothingToDoIsDone) {
  engine_->Run({});
  IoRequest none = IoRequest::Read(fd_, 0, {});
  RunOne(none);
  EXPECT_TRUE(none.complete());
}

TEST_P(EngineConformanceTest, AReadStopsWhereTheFileEndsWithoutAnError) {
  for (const size_t size : {0, 100, 512, 4096, 5000}) {
    ASSERT_EQ(ftruncate(fd_, 0), 0);
    const auto bytes = RandomBytes(size, size);
    if (size > 0) Write(0, bytes);
    std::vector<std::byte> read(8192);
    IoRequest request = IoRequest::Read(fd_, 0, read);
    RunOne(request);
    EXPECT_EQ(request.error, 0);
    EXPECT_EQ(request.done, size);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), read.begin()));
    IoRequest past = IoRequest::Read(fd_, 1 << 20, read);
    RunOne(past);
    EXPECT_EQ(past.error, 0);
    EXPECT_EQ(past.done, 0u);
  }
}

TEST_P(EngineConformanceTest, AFailureIsItsOwnRequestsOnly) {
  Write(0, RandomBytes(4096, 1));
  std::vector<std::byte> a(4096), b(4096), c(4096);
  std::vector<IoRequest> requests = {IoRequest::Read(fd_, 0, a), IoRequest::Read(-1, 0, b),
                                     IoRequest::Read(fd_, 0, c)};
  engine_->Run(requests);
  EXPECT_TRUE(requests[0].complete());
  EXPECT_EQ(requests[1].error, EBADF);
  EXPECT_TRUE(requests[2].complete());
  EXPECT_EQ(a, c);
}

TEST_P(EngineConformanceTest, AWriteThatDoesNotFitSaysHowFarItCame) {
  // A file size limit makes a real short write: up to the limit, then EFBIG.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limited = {6000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  const auto bytes = RandomBytes(8192, 1);
  IoRequest request = IoRequest::Write(fd_, 0, bytes);
  RunOne(request);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(request.error, EFBIG);
  EXPECT_EQ(request.done, 6000u);
}

TEST_P(EngineConformanceTest, SyncReportsWhatTheSystemSays) {
  Write(0, RandomBytes(4096, 1));
  EXPECT_EQ(engine_->Sync(fd_), 0);
  EXPECT_EQ(engine_->Sync(-1), EBADF);
}

TEST_P(EngineConformanceTest, CallersOnManyThreadsDoNotMixTheirBytes) {
  constexpr size_t kThreads = 8, kRounds = 20, kRequests = 20, kBytes = 1000;
  std::atomic<size_t> wrong{0};
  const auto work = [&](size_t thread) {
    const uint64_t base = thread * kRequests * kBytes;
    for (size_t round = 0; round < kRounds; ++round) {
      const auto bytes = RandomBytes(kRequests * kBytes, thread * 1000 + round);
      std::vector<std::byte> read(bytes.size());
      std::vector<IoRequest> writes, reads;
      for (size_t i = 0; i < kRequests; ++i) {
        const uint64_t at = i * kBytes;
        writes.push_back(IoRequest::Write(fd_, base + at, std::span(bytes).subspan(at, kBytes)));
        reads.push_back(IoRequest::Read(fd_, base + at, std::span(read).subspan(at, kBytes)));
      }
      engine_->Run(writes);
      engine_->Run(reads);
      if (read != bytes) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

TEST_P(EngineConformanceTest, SignalsDoNotDisturb) {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};  // Without SA_RESTART: system calls return EINTR.
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t reader = pthread_self();
  std::atomic<bool> stop{false};
  std::thread disturber([&] {
    while (!stop) pthread_kill(reader, SIGUSR1);
  });
  const auto bytes = RandomBytes(256 << 10, 1);
  for (int round = 0; round < 20; ++round) {
    Write(0, bytes);
    std::vector<std::byte> read(bytes.size());
    IoRequest request = IoRequest::Read(fd_, 0, read);
    RunOne(request);
    EXPECT_TRUE(request.complete()) << request.error;
    EXPECT_EQ(engine_->Sync(fd_), 0);
    EXPECT_EQ(read, bytes);
  }
  stop = true;
  disturber.join();
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_ENGINE_CONFORMANCE_H_
