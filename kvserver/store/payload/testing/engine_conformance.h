// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of IoEngine. Instantiate it with an engine's factory, which returns null where
// the machine cannot run the engine.
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
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "tests/kit/random_bytes.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

using MakeEngine = std::unique_ptr<IoEngine> (*)();

using quire::testing::RandomBytes;

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
  void RunOne(IoRequest& request) { engine_->RunAll({&request, 1}); }
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
  engine_->RunAll(requests);
  for (const IoRequest& request : requests) ASSERT_TRUE(request.complete()) << request.error;
  std::vector<std::byte> read(bytes.size());
  requests.clear();
  for (size_t i = kRequests; i-- > 0;) {
    requests.push_back(
        IoRequest::Read(fd_, i * kBytes, std::span(read).subspan(i * kBytes, kBytes)));
  }
  engine_->RunAll(requests);
  for (const IoRequest& request : requests) ASSERT_TRUE(request.complete()) << request.error;
  EXPECT_EQ(read, bytes);
}

/// Reads blocks, with a bounded number in flight.
class BoundedReads final : public IoStream {
 public:
  BoundedReads(int fd, size_t blocks, size_t most, size_t block_bytes)
      : fd_(fd), most_(most), block_bytes_(block_bytes), read_(blocks * block_bytes) {
    requests_.reserve(blocks);
  }
  IoRequest* Next() override {
    if (out_ == most_ || requests_.size() == requests_.capacity()) return nullptr;
    const uint64_t at = requests_.size() * block_bytes_;
    ++out_;
    requests_.push_back(IoRequest::Read(fd_, at, std::span(read_).subspan(at, block_bytes_)));
    return &requests_.back();
  }
  void Ended(IoRequest& request) override {
    --out_;
    complete_ += request.complete() ? 1 : 0;
    // Complete when it is reported: it may be read while others are in flight.
    seen_.emplace_back(request.buffer, request.buffer + request.length);
  }
  size_t complete() const { return complete_; }
  size_t out() const { return out_; }
  const std::vector<std::byte>& read() const { return read_; }
  const std::vector<std::vector<std::byte>>& seen() const { return seen_; }

 private:
  const int fd_;
  const size_t most_, block_bytes_;
  std::vector<IoRequest> requests_;
  std::vector<std::byte> read_;
  std::vector<std::vector<std::byte>> seen_;
  size_t out_ = 0, complete_ = 0;
};

TEST_P(EngineConformanceTest, AsksForMoreOnceSomethingHasEnded) {
  constexpr size_t kBlocks = 200, kBlockBytes = 512;
  const auto bytes = RandomBytes(kBlocks * kBlockBytes, 3);
  Write(0, bytes);
  for (const size_t most : {1, 3, 150}) {
    BoundedReads reads(fd_, kBlocks, most, kBlockBytes);
    engine_->Run(reads);
    EXPECT_EQ(reads.complete(), kBlocks) << most;
    EXPECT_EQ(reads.out(), 0u);
    EXPECT_EQ(reads.read(), bytes);
    std::set<std::vector<std::byte>> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      const auto block = bytes.begin() + static_cast<std::ptrdiff_t>(i * kBlockBytes);
      blocks.emplace(block, block + kBlockBytes);
    }
    for (const auto& block : reads.seen()) EXPECT_EQ(blocks.count(block), 1u);
  }
}

TEST_P(EngineConformanceTest, NothingToDoIsDone) {
  engine_->RunAll({});
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
  engine_->RunAll(requests);
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
      engine_->RunAll(writes);
      engine_->RunAll(reads);
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
