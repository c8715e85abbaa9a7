// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/listeners.h"

#include <gmock/gmock.h>

#include "common/base/utf8.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/testing/service_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class ListenerOfShm final : public PipeListener {
 public:
  std::string_view kind() const override { return "shm"; }
  std::string address() const override { return "/here"; }
};

StatusOr<std::unique_ptr<PipeListener>> Listens(const ListenerContext&, PipeListener::Accept) {
  return std::make_unique<ListenerOfShm>();
}
StatusOr<std::unique_ptr<PipeListener>> CannotListen(const ListenerContext&, PipeListener::Accept) {
  return Unavailable("no device");
}

class ListenersTest : public ServiceFixture {
 protected:
  StatusOr<std::vector<LeftOut>> StartThem(const std::vector<std::string>& transports) {
    const std::vector<ListenerKind> kinds = {{"shm", &Listens}, {"ucx", &CannotListen}};
    const ListenerOptions options{.transports = transports};
    const ServerOptions server_options;
    return StartListeners({*server_, server_options, options}, kinds);
  }
  size_t NumWays() { return server_->data_plane().ways().size(); }
};

TEST_F(ListenersTest, WithoutNamesWhatCannotListenIsLeftOut) {
  const auto left_out = StartThem({});
  ASSERT_TRUE(left_out.ok()) << left_out.status();
  ASSERT_EQ(left_out->size(), 1u);
  EXPECT_EQ((*left_out)[0].first, "ucx");
  EXPECT_THAT(std::string(Message((*left_out)[0].second)), HasSubstr("no device"));
  EXPECT_EQ(NumWays(), 1u);
}

TEST_F(ListenersTest, WhatIsNamedMustListen) {
  const auto failed = StartThem({"ucx"});
  EXPECT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(failed.status())), HasSubstr("--transports ucx"));
  EXPECT_TRUE(StartThem({"shm"}).ok());
  EXPECT_TRUE(StartThem({"grpc"}).ok());
  EXPECT_EQ(NumWays(), 1u);
}

TEST_F(ListenersTest, UnknownAndAbsentTransportsAreNamed) {
  const auto unknown = StartThem({"pigeon"});
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(unknown.status())), HasSubstr("pigeon"));
  const ListenerOptions options{.transports = {"shm"}};
  const ServerOptions server_options;
  const auto absent = StartListeners({*server_, server_options, options}, {});
  EXPECT_EQ(absent.status().code(), StatusCode::kUnimplemented);
  const ListenerOptions nameless{.transports = {"shm"}, .shm_socket = "/tmp/caf\xe9.sock"};
  const auto refused = StartListeners({*server_, server_options, nameless}, ListenerKinds());
  EXPECT_THAT(std::string(Message(refused.status())), HasSubstr("--shm-socket is no UTF-8"));
  EXPECT_THAT(std::string(Message(absent.status())), HasSubstr("built without shm"));
}

TEST(ListenerDefaultsTest, TheSocketLiesInTheDataDirectoryWhereItsPathFits) {
  EXPECT_EQ(DefaultShmSocket("/var/lib/quire"), "/var/lib/quire/quire.sock");
  const std::string deep = "/" + std::string(200, 'd');
  const std::string path = DefaultShmSocket(deep);
  EXPECT_LE(path.size(), 107u);
  EXPECT_EQ(path, DefaultShmSocket(deep));
  EXPECT_NE(path, DefaultShmSocket(deep + "2"));
  EXPECT_EQ(FirstInvalidUtf8(DefaultShmSocket("/var/lib/caf\xe9")), std::nullopt);
}

TEST(ListenerDefaultsTest, UcxListensOnTheHostOfTheControlChannel) {
  EXPECT_EQ(DefaultUcxListen("0.0.0.0:7410"), "0.0.0.0:0");
  EXPECT_EQ(DefaultUcxListen("[::1]:7410"), "[::1]:0");
  EXPECT_EQ(DefaultUcxListen("unix:/run/quire"), "127.0.0.1:0");
}

}  // namespace
}  // namespace quire::kvserver::testing
