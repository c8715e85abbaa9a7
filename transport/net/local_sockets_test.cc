// SPDX-License-Identifier: Apache-2.0
#include "transport/net/local_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <string>

#include "common/base/unique_fd.h"
#include "transport/testing/tcp_pair.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using testing::CongestionControl;
using testing::PacedOrReno;
using testing::TcpPair;

TEST(LocalSocketsTest, PortsAreReadFromAddressesAndPeers) {
  EXPECT_EQ(PortOf("127.0.0.1:80"), 80);
  EXPECT_EQ(PortOf("ipv4:127.0.0.1:65535"), 65535);
  EXPECT_EQ(PortOf("ipv6:[::1]:443"), 443);
  EXPECT_EQ(PortOf("ipv6:%5B::1%5D:443"), 443);
  EXPECT_EQ(PortOf("unix:/tmp/socket"), 0);
  EXPECT_EQ(PortOf("host:65536"), 0);
  EXPECT_EQ(PortOf("host:80x"), 0);
  EXPECT_EQ(PortOf("host"), 0);
  EXPECT_EQ(PortOf(""), 0);
}

TEST(LocalSocketsTest, ConnectedSocketsOfOneHostAreLocal) {
  const TcpPair tcp;
  const UniqueFd unconnected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  EXPECT_TRUE(IsLocalConnection(tcp.client.get()));
  EXPECT_TRUE(IsLocalConnection(tcp.server.get()));
  EXPECT_FALSE(IsLocalConnection(unconnected.get()));
  EXPECT_FALSE(IsLocalConnection(event.get()));
  EXPECT_FALSE(IsLocalConnection(-1));
}

TEST(LocalSocketsTest, OnlyConnectionsToThatPortChange) {
  const TcpPair tcp;
  const TcpPair other;
  const std::string before = PacedOrReno(tcp);
  ASSERT_EQ(PacedOrReno(other), before);
  DoNotPaceLocalConnectionsTo(tcp.listening_port);
  // With only reno available it stays, if cubic is not permitted.
  EXPECT_THAT(CongestionControl(tcp.client.get()), AnyOf("cubic", "reno"));
  EXPECT_EQ(CongestionControl(tcp.server.get()), before);
  EXPECT_EQ(CongestionControl(other.client.get()), before);
  DoNotPaceLocalConnectionsTo(0);
  EXPECT_EQ(CongestionControl(other.client.get()), before);
}

}  // namespace
}  // namespace quire
