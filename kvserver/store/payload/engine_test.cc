// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/payload/location.h"
#include "kvserver/store/payload/plain_engine.h"
#include "kvserver/store/payload/testing/engine_conformance.h"
#include "kvserver/store/payload/testing/fault_engine.h"

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
/// One request at a time, and a ring for one thread: the others take the way around.
std::unique_ptr<IoEngine> MakeShallowUring() { return MakeUring(1, 1); }

class FaultEngineOverPlain final : public IoEngine {
 public:
  std::string_view name() const override { return faults_.name(); }
  void Run(std::span<IoRequest> requests) override { faults_.Run(requests); }
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

class FaultEngineTest : public ::testing::Test {
 protected:
  FaultEngineTest() { Write(bytes_); }
  ~FaultEngineTest() override { close(fd_); }
  IoRequest Write(std::span<const std::byte> bytes) {
    IoRequest write = IoRequest::Write(fd_, 0, bytes);
    faults_.Run({&write, 1});
    return write;
  }
  std::vector<std::byte> Read() {
    std::vector<std::byte> bytes(bytes_.size());
    IoRequest read = IoRequest::Read(fd_, 0, bytes);
    faults_.Run({&read, 1});
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
