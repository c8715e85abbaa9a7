// SPDX-License-Identifier: Apache-2.0
//
// A process at one end of a UCX pipe is killed while bytes move, or stops answering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "tests/integration/ucx_lane.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;
using ::testing::HasSubstr;

/// Less than the default peer timeout of UcxOptions, which the tests replace.
constexpr Duration kSoon = std::chrono::seconds(8);

/// Keeps the first frame and the reason of the end.
class Watcher final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    if (!first_) first_ = std::move(frame);
    changed_.NotifyAll();
  }
  void OnClosed(const Status& why) override {
    MutexLock lock(mutex_);
    closed_ = why;
    changed_.NotifyAll();
  }
  /// Empty if the connection ended without a frame.
  Frame WaitFirst() {
    MutexLock lock(mutex_);
    while (!first_ && !closed_) changed_.Wait(mutex_);
    return first_.value_or(Frame());
  }
  Status WaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
    return *closed_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<Frame> first_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);
};

class UcxProcessTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  }
  ChildProcess Peer(std::vector<std::string> args) {
    return {QUIRE_BINARY_DIR "/bin/ucx_peer", std::move(args), directory_ / "stderr"};
  }
  /// Zeroed memory for landing 1 of `pipe`.
  static OwnedMemory LandingMemory(FramePipe& pipe) {
    const auto memory = testing::UcxLandingMemory(pipe, GetParam());
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.value_or(OwnedMemory());
  }

  const UcxOptions options_ = testing::UcxLaneOptions(GetParam());
  const testing::TempDir directory_;
};

INSTANTIATE_TEST_SUITE_P(Lanes, UcxProcessTest, ::testing::Values("tcp", "shm", "direct"),
                         [](const auto& lane) { return std::string(lane.param); });

TEST_P(UcxProcessTest, AKilledServerIsToldAndItsLandingIsFree) {
  ChildProcess server = Peer({"serve", GetParam()});
  std::string address;
  ASSERT_TRUE(server.ReadLine(&address)) << server.Stderr();
  auto pipe = ConnectUcx(address, options_);
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  Watcher watcher;
  (*pipe)->Start(&watcher);
  const OwnedMemory memory = LandingMemory(**pipe);
  const auto key = (*pipe)->AddLanding(1, memory.bytes);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE((*pipe)->Send({.head = *key, .payload = {}}).ok());
  const Frame first = watcher.WaitFirst();
  EXPECT_EQ(first.head, "units");
  EXPECT_EQ(testing::HowItCame(first), testing::HowTheyComeOver(GetParam()));
  server.Signal(SIGKILL);
  EXPECT_EQ(watcher.WaitClosed().code(), StatusCode::kUnavailable);
  (*pipe)->RemoveLanding(1);
  EXPECT_EQ((*pipe)->Send({.head = "x", .payload = {}}).code(), StatusCode::kUnavailable);
  // Landed bytes are valid and usable after the server's death too.
  EXPECT_EQ(testing::CheckUcxUnits(first, memory.bytes), OkStatus());
  std::ranges::fill(memory.bytes, std::byte{1});
  EXPECT_EQ(std::ranges::count(memory.bytes, std::byte{1}),
            static_cast<ptrdiff_t>(memory.bytes.size()));
}

TEST_P(UcxProcessTest, AStoppedServerIsNotWaitedForLongerThanTheTimeout) {
  ChildProcess server = Peer({"serve", GetParam()});
  std::string address;
  ASSERT_TRUE(server.ReadLine(&address)) << server.Stderr();
  server.Stop();
  UcxOptions hurried = options_;
  hurried.connect_timeout = std::chrono::milliseconds(300);
  const TimePoint start = SystemClock().Now();
  const Status refused = ConnectUcx(address, hurried).status();
  EXPECT_LT(SystemClock().Now() - start, hurried.connect_timeout + kSoon);
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no answer in time"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(address));

  // Continues, and finds the old client gone and the next one there.
  server.Signal(SIGCONT);
  const auto pipe = ConnectUcx(address, options_);
  EXPECT_TRUE(pipe.ok()) << pipe.status();
}

TEST_P(UcxProcessTest, ALandingEndsWithoutTheServerThatDoesNotAnswer) {
  if (!options_.direct_landings) GTEST_SKIP() << "the server writes nowhere: no wait";
  ChildProcess server = Peer({"serve", GetParam()});
  std::string address;
  ASSERT_TRUE(server.ReadLine(&address)) << server.Stderr();
  UcxOptions hurried = options_;
  hurried.peer_timeout = std::chrono::milliseconds(300);
  const auto pipe = ConnectUcx(address, hurried);
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  Watcher watcher;
  (*pipe)->Start(&watcher);
  const OwnedMemory memory = LandingMemory(**pipe);
  const auto key = (*pipe)->AddLanding(1, memory.bytes);
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_TRUE((*pipe)->Send({.head = *key, .payload = {}}).ok());
  const Frame first = watcher.WaitFirst();
  EXPECT_EQ(first.head, "units");
  EXPECT_EQ(testing::HowItCame(first), testing::HowTheyComeOver(GetParam()));
  server.Stop();
  const TimePoint start = SystemClock().Now();
  (*pipe)->RemoveLanding(1);
  EXPECT_LT(SystemClock().Now() - start, hurried.peer_timeout + kSoon);
  const Status why = watcher.WaitClosed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable) << why;
  EXPECT_THAT(std::string(why.message()), HasSubstr("did not confirm in time"));
  EXPECT_EQ((*pipe)->Send({.head = "x", .payload = {}}).code(), StatusCode::kUnavailable);
}

TEST_P(UcxProcessTest, AKilledClientIsToldAndTheNextOneIsServed) {
  Mutex mutex;
  CondVar accepted;
  std::unique_ptr<FramePipe> incoming;
  const auto listener = ListenUcx("127.0.0.1:0", options_, [&](std::unique_ptr<FramePipe> pipe) {
    MutexLock lock(mutex);
    incoming = std::move(pipe);
    accepted.NotifyAll();
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (int round = 0; round < 2; ++round) {
    ChildProcess client = Peer({"pull", GetParam(), (*listener)->address()});
    std::unique_ptr<FramePipe> pipe;
    {
      MutexLock lock(mutex);
      while (incoming == nullptr) accepted.Wait(mutex);
      pipe = std::move(incoming);
    }
    Watcher watcher;
    pipe->Start(&watcher);
    ASSERT_TRUE(pipe->OpenLanding(1, watcher.WaitFirst().head, testing::kUcxLandingBytes).ok());
    ASSERT_TRUE(pipe->Send(testing::UcxUnits()).ok());
    std::string line;
    ASSERT_TRUE(client.ReadLine(&line)) << client.Stderr();
    EXPECT_EQ(line, testing::HowTheyComeOver(GetParam()));
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(pipe->Send(testing::UcxUnits()).ok());
    client.Signal(SIGKILL);
    Status status;
    while (status.ok()) status = pipe->Send(testing::UcxUnits());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_EQ(watcher.WaitClosed().code(), StatusCode::kUnavailable);
    pipe->CloseLanding(1);
  }
}

}  // namespace
}  // namespace quire
