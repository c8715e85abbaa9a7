// SPDX-License-Identifier: Apache-2.0
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/engine/plain_engine.h"
#include "kvserver/store/payload/testing/engine_conformance.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver::testing {
namespace {

std::unique_ptr<IoEngine> MakePlain() { return std::make_unique<PlainEngine>(); }

std::unique_ptr<IoEngine> MakeUring(uint32_t depth, uint32_t rings) {
  auto engine = UringEngine::Create({.queue_depth = depth, .max_rings = rings});
  if (engine.ok()) return *std::move(engine);
  EXPECT_EQ(engine.status().code(), StatusCode::kUnavailable) << engine.status();
  return nullptr;
}

std::unique_ptr<IoEngine> MakeDeepUring() { return MakeUring(64, 64); }
/// One request at a time, and a ring for one thread: the others fall back.
std::unique_ptr<IoEngine> MakeShallowUring() { return MakeUring(1, 1); }

class FaultEngineOverPlain final : public IoEngine {
 public:
  std::string_view name() const override { return faults_.name(); }
  void Run(IoStream& stream) override { faults_.Run(stream); }
  int Sync(int fd) override { return faults_.Sync(fd); }

 private:
  PlainEngine plain_;
  FaultEngine faults_{&plain_};
};
std::unique_ptr<IoEngine> MakeFaults() { return std::make_unique<FaultEngineOverPlain>(); }

INSTANTIATE_TEST_SUITE_P(Plain, EngineConformanceTest, ::testing::Values(MakePlain));
INSTANTIATE_TEST_SUITE_P(Uring, EngineConformanceTest, ::testing::Values(MakeDeepUring));
INSTANTIATE_TEST_SUITE_P(ShallowUring, EngineConformanceTest, ::testing::Values(MakeShallowUring));
INSTANTIATE_TEST_SUITE_P(NoFaults, EngineConformanceTest, ::testing::Values(MakeFaults));

TEST(EngineChoiceTest, PlainCanAlwaysBeChosen) {
  const auto choice = ChooseEngine(EngineKind::kPlain, {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->engine->name(), "pread");
}

TEST(EngineChoiceTest, AutoTakesWhatThereIsAndSaysWhyItFellBack) {
  const auto choice = ChooseEngine(EngineKind::kAuto, {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->reason.empty(), choice->engine->name() == "io_uring");
}

TEST(EngineChoiceTest, OptionsOutOfRangeAreRefused) {
  for (const UringEngine::Options& options :
       {UringEngine::Options{.queue_depth = 0, .max_rings = 1},
        UringEngine::Options{.queue_depth = 5000, .max_rings = 1},
        UringEngine::Options{.queue_depth = 1, .max_rings = 0}}) {
    for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kUring}) {
      EXPECT_EQ(ChooseEngine(kind, options).status().code(), StatusCode::kInvalidArgument);
    }
  }
}

/// Makes a system call fail with EPERM in this process for good, like a container's filter.
void Forbid(uint32_t system_call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, system_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::perror("cannot install a filter");
    std::exit(1);
  }
}

/// Exits with the name and the reason of kAuto's choice.
[[noreturn]] void ChooseWithoutUring() {
  Forbid(SYS_io_uring_setup);
  const auto choice = ChooseEngine(EngineKind::kAuto, {});
  const auto demanded = ChooseEngine(EngineKind::kUring, {});
  std::fprintf(stderr, "%s; %s; %s\n", std::string(choice->engine->name()).c_str(),
               choice->reason.c_str(), demanded.status().ToString().c_str());
  std::exit(0);
}

TEST(EngineChoiceDeathTest, WhereUringIsForbiddenAutoTakesPreadAndSaysWhy) {
  EXPECT_EXIT(ChooseWithoutUring(), ::testing::ExitedWithCode(0),
              "pread; io_uring cannot be set up: Operation not permitted; UNAVAILABLE");
}

/// Exits with the result of writing and reading a batch while the ring stops working.
[[noreturn]] void RunWithABrokenRing() {
  const quire::testing::TempDir dir;
  const int fd = open((dir / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const auto engine = UringEngine::Create({.queue_depth = 4, .max_rings = 2});
  Forbid(SYS_io_uring_enter);
  const auto bytes = RandomBytes(10 * 4096, 1);
  std::vector<std::byte> read(bytes.size());
  std::vector<IoRequest> writes, reads;
  for (size_t at = 0; at < bytes.size(); at += 4096) {
    writes.push_back(IoRequest::Write(fd, at, std::span(bytes).subspan(at, 4096)));
    reads.push_back(IoRequest::Read(fd, at, std::span(read).subspan(at, 4096)));
  }
  (*engine)->RunAll(writes);
  (*engine)->RunAll(reads);
  std::filesystem::remove_all(dir.path());
  std::exit(read == bytes && reads.back().complete() ? 0 : 1);
}

TEST(UringEngineDeathTest, RequestsOfARingThatStopsWorkingAreFinishedAnotherWay) {
  if (MakeDeepUring() == nullptr) GTEST_SKIP() << "this machine cannot run the engine";
  EXPECT_EXIT(RunWithABrokenRing(), ::testing::ExitedWithCode(0), "");
}

/// A read of a pipe, which ends with a write to it, and one of a file.
class PipeAndFile final : public IoStream {
 public:
  PipeAndFile(int pipe, int writer, int file)
      : writer_(writer),
        requests_{IoRequest::Read(pipe, 0, of_pipe_), IoRequest::Read(file, 0, of_file_)} {}
  IoRequest* Next() override { return next_ < 2 ? &requests_[next_++] : nullptr; }
  void Ended(IoRequest& request) override {
    order_.push_back(&request - requests_.data());
    if (&request == &requests_[1]) wrote_ = write(writer_, "x", 1) == 1;
  }
  const std::vector<int64_t>& order() const { return order_; }
  bool wrote() const { return wrote_; }

 private:
  const int writer_;
  std::array<std::byte, 1> of_pipe_{};
  std::array<std::byte, 4096> of_file_{};
  std::array<IoRequest, 2> requests_;
  size_t next_ = 0;
  std::vector<int64_t> order_;
  bool wrote_ = false;
};

TEST(UringEngineTest, TellsWhatHasEndedWhileOthersAreInFlight) {
  const auto engine = MakeDeepUring();
  if (engine == nullptr) GTEST_SKIP() << "this machine cannot run the engine";
  const quire::testing::TempDir dir;
  const int file = open((dir / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  // An engine that reports only at the end waits for ever.
  PipeAndFile stream(ends[0], ends[1], file);
  engine->Run(stream);
  EXPECT_TRUE(stream.wrote());
  EXPECT_EQ(stream.order(), (std::vector<int64_t>{1, 0}));
  for (const int fd : {ends[0], ends[1], file}) close(fd);
}

class FaultEngineTest : public ::testing::Test {
 protected:
  FaultEngineTest() { Write(bytes_); }
  ~FaultEngineTest() override { close(fd_); }
  IoRequest Write(std::span<const std::byte> bytes) {
    IoRequest write = IoRequest::Write(fd_, 0, bytes);
    faults_.RunAll({&write, 1});
    return write;
  }
  std::vector<std::byte> Read() {
    std::vector<std::byte> bytes(bytes_.size());
    IoRequest read = IoRequest::Read(fd_, 0, bytes);
    faults_.RunAll({&read, 1});
    EXPECT_TRUE(read.complete());
    return bytes;
  }

  const quire::testing::TempDir dir_;
  const int fd_ = open((dir_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  PlainEngine plain_;
  FaultEngine faults_{&plain_};
  const std::vector<std::byte> bytes_ = RandomBytes(4 * kBlockBytes, 1);
  const std::vector<std::byte> other_ = RandomBytes(4 * kBlockBytes, 2);
};

TEST_F(FaultEngineTest, ErrorsMoveNothing) {
  faults_.Inject(IoRequest::Kind::kWrite, IoFault::kIoError);
  faults_.Inject(IoRequest::Kind::kWrite, IoFault::kNoSpace);
  EXPECT_EQ(Write(other_).error, EIO);
  EXPECT_EQ(Write(other_).error, ENOSPC);
  EXPECT_EQ(Read(), bytes_);
}

TEST_F(FaultEngineTest, HalfWritesLeaveTheFirstHalf) {
  for (const IoFault fault : {IoFault::kShortWrite, IoFault::kTornWrite}) {
    Write(bytes_);
    faults_.Inject(IoRequest::Kind::kWrite, fault);
    EXPECT_EQ(Write(other_).complete(), fault == IoFault::kTornWrite);
    const auto after = Read();
    const size_t half = after.size() / 2;
    EXPECT_TRUE(std::equal(after.begin(), after.begin() + half, other_.begin()));
    EXPECT_TRUE(std::equal(after.begin() + half, after.end(), bytes_.begin() + half));
  }
}

TEST_F(FaultEngineTest, ABitFlipIsInTheBufferOnly) {
  faults_.Inject(IoRequest::Kind::kRead, IoFault::kBitFlip);
  EXPECT_NE(Read(), bytes_);
  EXPECT_EQ(Read(), bytes_);
}

TEST_F(FaultEngineTest, PowerLossTakesBackUnsyncedWritesOnly) {
  ASSERT_EQ(faults_.Sync(fd_), 0);
  faults_.LosePower(1);
  EXPECT_EQ(Read(), bytes_);
  Write(other_);
  faults_.LosePower(1);
  EXPECT_NE(Read(), other_);
}

}  // namespace
}  // namespace quire::kvserver::testing
