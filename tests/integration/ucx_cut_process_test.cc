// SPDX-License-Identifier: Apache-2.0
//
// A client takes back the shared memory that the server has mapped: of its landing, and of the
// queue by which UCX sends to it. The server is a process of its own, which goes on, as do its
// other clients. The client is stopped first: its own UCX would not outlive what it loses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/transport/ucx_fault_guard.h"
#include "common/transport/ucx_test_peer.h"
#include "tests/integration/ucx_lane.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;
using ::testing::HasSubstr;

/// The files of shared memory that UCX has made in the process.
std::vector<std::string> UcxFilesOf(pid_t process) {
  std::vector<std::string> found;
  const std::string descriptors = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(descriptors)) {
    std::error_code gone;
    const auto file = std::filesystem::read_symlink(entry.path(), gone);
    if (file.filename().string().starts_with(kUcxFileName)) found.push_back(entry.path());
  }
  return found;
}

/// A client of this process that has a landing, and asks the server to send to everybody.
class Honest {
 public:
  Honest(const std::string& address, const std::string& lane) : lane_(lane) {
    pipe_ = ConnectUcx(address, testing::UcxLaneOptions(lane)).value();
    memory_ = testing::UcxLandingMemory(*pipe_, lane).value();
    pipe_->Start(&frames_);
    const std::string key = pipe_->AddLanding(1, memory_.bytes).value();
    EXPECT_TRUE(pipe_->Send({.head = key, .payload = {}}).ok());
  }
  ~Honest() { pipe_->Close(); }

  void AskForAll() {
    std::memset(memory_.bytes.data(), 0, memory_.bytes.size());
    EXPECT_TRUE(pipe_->Send({.head = "all", .payload = {}}).ok());
  }
  /// Waits for units, all of them, and that they are right.
  void TakeUnits() {
    Frame units;
    for (bool whole = false; !whole;) {
      Frame part = frames_.Next();
      ASSERT_EQ(part.head, "units") << "the connection is over";
      whole = testing::JoinUcxUnits(std::move(part), &units);
    }
    EXPECT_EQ(testing::CheckUcxUnits(units, memory_.bytes), OkStatus());
    EXPECT_EQ(testing::HowItCame(units), testing::HowTheyComeOver(lane_));
  }

 private:
  const std::string lane_;
  testing::Collector frames_;
  std::unique_ptr<FramePipe> pipe_;
  OwnedMemory memory_;
};

/// What a client loses: files by their sizes, all of which are there when it has been served.
struct Loss {
  const char* name;
  const char* lane;
  uintmax_t from_bytes, to_bytes;  ///< Files of these sizes lose
  uintmax_t left_bytes;            ///< all behind so many bytes.
  const char* why_closed;          ///< What the server says of it.
};
constexpr uintmax_t kLanding = testing::kUcxLandingBytes;
constexpr uintmax_t kQueueLimit = 64 * 1024;  // UCX's queue is smaller, its buffers are larger.
const Loss kLosses[] = {
    {"Landing", "mapped", kLanding, kLanding, 0, "the shared memory of landing 1"},
    {"EndOfLanding", "mapped", kLanding, kLanding, kLanding / 4, "the shared memory of landing 1"},
    {"Queue", "mapped", 0, kQueueLimit, 0, "UNAVAILABLE"},
    {"EndOfQueue", "mapped", 0, kQueueLimit, 4096, "UNAVAILABLE"},
    {"Buffers", "mapped", kLanding + 1, UINTMAX_MAX, 0, "UNAVAILABLE"},
    {"Everything", "mapped", 0, UINTMAX_MAX, 0, "UNAVAILABLE"},
    {"QueueOfPayload", "shm", 0, kQueueLimit, 0, "UNAVAILABLE"},
    {"EndOfQueueOfPayload", "shm", 0, kQueueLimit, 4096, "UNAVAILABLE"},
    {"BuffersOfPayload", "shm", kQueueLimit, UINTMAX_MAX, 0, "UNAVAILABLE"},
};

class UcxCutProcessTest : public ::testing::TestWithParam<Loss> {
 protected:
  void SetUp() override {
    const std::string why_not = testing::WhyNoLane(
        {.name = "posix", .options = testing::UcxLaneOptions(lane_), .carriers = {"posix/"}});
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ASSERT_TRUE(server_.ReadLine(&address_)) << server_.Stderr();
    honest_.emplace(address_, lane_);
    honest_->TakeUnits();
  }
  /// A client that has been served once and does nothing more.
  std::unique_ptr<ChildProcess> StoppedClient() {
    auto client = std::make_unique<ChildProcess>(
        kPeer, std::vector<std::string>{"pull", lane_, address_}, directory_ / "client");
    std::string line;
    EXPECT_TRUE(client->ReadLine(&line)) << client->Stderr();
    EXPECT_EQ(line, testing::HowTheyComeOver(lane_));
    client->Stop();
    return client;
  }
  static void Cut(pid_t process) {
    size_t cut = 0;
    for (const std::string& path : UcxFilesOf(process)) {
      const uintmax_t bytes = std::filesystem::file_size(path);
      if (bytes < GetParam().from_bytes || bytes > GetParam().to_bytes) continue;
      ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(GetParam().left_bytes)), 0);
      ++cut;
    }
    ASSERT_GT(cut, 0);
  }
  /// The server sends to all of its clients: more often than UCX's queue has room, and less than
  /// the pipe's.
  void ServeAll() {
    for (int i = 0; i < 10 && !HasFatalFailure(); ++i) {
      honest_->AskForAll();
      honest_->TakeUnits();
    }
  }
  /// How the server says that the next connection has ended. UCX writes there too.
  std::string NextEnd() {
    std::string line;
    while (server_.ReadLine(&line)) {
      if (!line.starts_with("[")) return line;
    }
    return "the server has ended: " + server_.Stderr();
  }
  void ExpectThatOthersAreServed() {
    ServeAll();
    Honest(address_, lane_).TakeUnits();
  }

  static constexpr char kPeer[] = QUIRE_BINARY_DIR "/bin/ucx_peer";
  const std::string lane_ = GetParam().lane;
  const testing::TempDir directory_;
  ChildProcess server_{kPeer, {"share", lane_}, directory_ / "server"};
  std::string address_;
  std::optional<Honest> honest_;
};

INSTANTIATE_TEST_SUITE_P(Losses, UcxCutProcessTest, ::testing::ValuesIn(kLosses),
                         [](const auto& loss) { return std::string(loss.param.name); });

TEST_P(UcxCutProcessTest, EndsItsConnectionAndNothingElse) {
  const auto client = StoppedClient();
  Cut(client->pid());
  ServeAll();
  EXPECT_THAT(NextEnd(), HasSubstr(GetParam().why_closed));
  ExpectThatOthersAreServed();
}

/// UCX has kept messages back by then, and tries them whenever it runs. What it does not try before
/// the client takes some, nobody misses until the client is gone.
TEST_P(UcxCutProcessTest, WhileItsQueueIsFullHoldsUpNobody) {
  const auto client = StoppedClient();
  ServeAll();
  Cut(client->pid());
  honest_->AskForAll();
  honest_->TakeUnits();
  client->Signal(SIGKILL);
  EXPECT_THAT(NextEnd(), HasSubstr("UNAVAILABLE"));
  ExpectThatOthersAreServed();
}

}  // namespace
}  // namespace quire
