// SPDX-License-Identifier: Apache-2.0
//
// The listener's socket: ownership of its path, admission of clients, and its removal.
#include "transport/shm/shm_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/kit/health_lines.h"
#include "transport/testing/shm_fixture.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShmListenerTest : public ShmTest {
 protected:
  Status TryToListen() {
    return ShmListener::Listen(options_, [](std::unique_ptr<FramePipe>) {}).status();
  }
};

TEST_F(ShmListenerTest, OnlyItsUserMayOpenTheSocketAndItIsGoneAfterwards) {
  Listen();
  EXPECT_EQ(listener_->kind(), "shm");
  EXPECT_EQ(listener_->address(), options_.path);
  struct stat file;
  ASSERT_EQ(stat(options_.path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  listener_.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

TEST_F(ShmListenerTest, OthersAreRefusedUnlessTheyAreRootOrAllAreLetIn) {
  EXPECT_TRUE(MayConnect(1000, 1000, true));
  EXPECT_TRUE(MayConnect(0, 1000, true));
  EXPECT_FALSE(MayConnect(1001, 1000, true));
  EXPECT_FALSE(MayConnect(1000, 0, true));
  EXPECT_TRUE(MayConnect(1001, 1000, false));
}

TEST_F(ShmListenerTest, ALiveServersSocketAndOtherFilesAreNotTaken) {
  Listen();
  Status status = TryToListen();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another server listens"));
  EXPECT_TRUE(std::filesystem::exists(options_.path));
  Connect();  // The first server is still there.

  options_.path = directory_ / "file";
  std::ofstream(options_.path) << "data";
  status = TryToListen();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(options_.path), 4u);
}

TEST_F(ShmListenerTest, ASocketThatSomebodyElsePutThereStays) {
  Listen();
  std::filesystem::remove(options_.path);
  std::ofstream(options_.path) << "data";
  listener_.reset();
  EXPECT_TRUE(std::filesystem::exists(options_.path));
}

TEST_F(ShmListenerTest, PathsThatCannotBeSaySo) {
  options_.path = directory_ / std::string(200, 'x');
  Status status = TryToListen();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1..107"));
  EXPECT_EQ(ConnectShm(options_.path, {}).status().code(), StatusCode::kInvalidArgument);
  options_.path = "";
  EXPECT_EQ(TryToListen().code(), StatusCode::kInvalidArgument);
  options_.path = directory_ / "no/such/directory";
  EXPECT_EQ(TryToListen().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ConnectShm(options_.path, {}).status().code(), StatusCode::kUnavailable);
}

TEST_F(ShmListenerTest, OptionsThatMakeNoSenseAreRefused) {
  const ShmListener::Options good = options_;
  const auto expect_refused = [&] {
    EXPECT_EQ(TryToListen().code(), StatusCode::kInvalidArgument);
    options_ = good;
  };
  options_.max_frame_bytes = 0;
  expect_refused();
  options_.max_frame_bytes = uint64_t{1} << 32;
  expect_refused();
  options_.max_lease = Duration::zero();
  expect_refused();
  options_.max_connections = 0;
  expect_refused();
  options_.memory.push_back(arena_->view());
  expect_refused();
  options_.memory = {SharedMemoryView{.bytes = arena_->bytes(), .fd = -1}};
  expect_refused();
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

TEST_F(ShmListenerTest, NoMoreConnectionsThanAllowed) {
  HealthLines health;
  options_.max_connections = 2;
  options_.health = health.board();
  Listen();
  std::vector<ShmEnd> clients, servers;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(Connect());
    servers.push_back(Accepted());
  }
  EXPECT_EQ(listener_->connections(), 2u);
  const Status status = ConnectShm(options_.path, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("full"));
  EXPECT_THAT(health.lines(), ElementsAre(HasSubstr("call_refused: a connection over shm")));
  servers.pop_back();
  clients.pop_back();
  Connect();
  listener_.reset();
}

TEST_F(ShmListenerTest, MemoryIsAnnouncedOnlyToClientsThatAreSentSomeOfIt) {
  Listen();
  ShmEnd client = Connect(), server = Accepted();
  const auto mapped = [&] {
    std::ifstream maps("/proc/self/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), {});
    size_t count = 0;
    for (size_t at = 0; (at = text.find("quire-test", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const size_t before = mapped();
  ASSERT_TRUE(server.pipe->Send({.head = "hello", .payload = {}}).ok());
  ASSERT_TRUE(client.frames->Next());
  EXPECT_EQ(mapped(), before);
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(1, 4096, std::make_shared<Event>())).ok());
  const std::optional<Frame> held = client.frames->Next();
  EXPECT_EQ(mapped(), before + 1);
}

}  // namespace
}  // namespace quire::testing
