// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/sockets/ucx_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <string>

#include "common/base/unique_fd.h"
#include "transport/testing/tcp_pair.h"
#include "transport/testing/ucx_test_peer.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using testing::CongestionControl;
using testing::PacedOrReno;
using testing::SetCongestionControl;
using testing::TcpPair;
using ::testing::UnorderedElementsAre;

UniqueFd Epoll(std::initializer_list<int> waited_for) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  for (const int descriptor : waited_for) {
    epoll_event event = {.events = EPOLLIN, .data = {}};
    EXPECT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event), 0);
  }
  return epoll;
}

int ReceiveBytes(int descriptor) {
  int value = 0;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &value, &bytes), 0);
  return value;
}

TEST(UcxSocketsTest, DescriptorsAreFoundBehindNestedOnes) {
  const UniqueFd one(eventfd(0, EFD_CLOEXEC)), two(eventfd(0, EFD_CLOEXEC));
  const UniqueFd inner = Epoll({two.get()});
  const UniqueFd outer = Epoll({one.get(), inner.get()});
  EXPECT_THAT(DescriptorsBehind(outer.get()), UnorderedElementsAre(one.get(), two.get()));
  EXPECT_THAT(DescriptorsBehind(one.get()), UnorderedElementsAre());
  EXPECT_THAT(DescriptorsBehind(-1), UnorderedElementsAre());
}

TEST(UcxSocketsTest, OnlyLocalConnectionsBehindTheDescriptorChange) {
  const TcpPair tcp;
  const UniqueFd unconnected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const std::string other = PacedOrReno(tcp);
  ASSERT_TRUE(SetCongestionControl(unconnected.get(), other)) << other;
  const UniqueFd inner = Epoll({tcp.server.get(), unconnected.get(), event.get()});
  TuneLocalConnections(Epoll({inner.get()}).get());
  EXPECT_THAT(CongestionControl(tcp.server.get()), AnyOf("cubic", "reno"));
  EXPECT_LE(ReceiveBytes(tcp.server.get()), 2 << 20);  // The kernel doubles the requested size.
  EXPECT_NE(ReceiveBytes(tcp.server.get()), ReceiveBytes(tcp.client.get()));
  EXPECT_EQ(CongestionControl(tcp.client.get()), other);
  EXPECT_EQ(CongestionControl(unconnected.get()), other);
}

TEST(UcxSocketsTest, ConnectionsOverLoopbackAreNotPaced) {
  const testing::Connected peers{UcxOptions{}};
  // Both ends of the connection with the frames are in this process. The connections that set it up
  // are unchanged.
  int unpaced = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    sockaddr_in peer = {};
    socklen_t bytes = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    const std::string name = CongestionControl(descriptor);
    unpaced += name == "cubic" || name == "reno" ? 1 : 0;
  }
  EXPECT_GE(unpaced, 2);
}

}  // namespace
}  // namespace quire
