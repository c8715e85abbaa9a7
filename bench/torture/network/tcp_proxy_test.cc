// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "common/base/net_address.h"

namespace quire::torture {
namespace {

using std::chrono::milliseconds;

sockaddr_in At(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

class TcpProxyTest : public ::testing::Test {
 protected:
  TcpProxyTest() : listener_(socket(AF_INET, SOCK_STREAM, 0)), proxy_(TcpProxy::Start({}).value()) {
    sockaddr_in address = At(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    proxy_->SetTarget(ntohs(address.sin_port));
  }
  UniqueFd Connect() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in to = At(NetAddress::ParseServer(proxy_->address())->port());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  UniqueFd Accept() { return UniqueFd(accept(listener_.get(), nullptr, nullptr)); }
  static void Send(const UniqueFd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  /// Bytes that come within the time; empty for none, and at the end.
  static std::string Receive(const UniqueFd& fd, size_t bytes, Duration patience) {
    std::string text;
    const TimePoint end = SystemClock().Now() + patience;
    while (text.size() < bytes && SystemClock().Now() < end) {
      char c = 0;
      pollfd polled{.fd = fd.get(), .events = POLLIN, .revents = 0};
      if (poll(&polled, 1, 5) == 1 && recv(fd.get(), &c, 1, 0) <= 0) break;
      if ((polled.revents & POLLIN) != 0) text += c;
    }
    return text;
  }

  static constexpr Duration kPatience = milliseconds(10'000);

  const UniqueFd listener_;
  const std::unique_ptr<TcpProxy> proxy_;
};

TEST_F(TcpProxyTest, BytesGoBothWaysAndAnEndToo) {
  const UniqueFd client = Connect();
  UniqueFd server = Accept();
  Send(client, "there");
  EXPECT_EQ(Receive(server, 5, kPatience), "there");
  Send(server, "back");
  EXPECT_EQ(Receive(client, 4, kPatience), "back");
  server.Reset();
  char c = 0;
  EXPECT_EQ(recv(client.get(), &c, 1, 0), 0);
}

TEST_F(TcpProxyTest, WhatIsHeldComesAfterwards) {
  const UniqueFd client = Connect();
  const UniqueFd server = Accept();
  proxy_->Set({.holds = true});
  SystemClock().Sleep(milliseconds(50));  // The thread sees it at its next turn.
  Send(client, "late");
  EXPECT_EQ(Receive(server, 4, milliseconds(100)), "");
  proxy_->Set({});
  EXPECT_EQ(Receive(server, 4, kPatience), "late");
}

TEST_F(TcpProxyTest, DelaysAndLimitsTakeTime) {
  const UniqueFd client = Connect();
  const UniqueFd server = Accept();
  proxy_->Set({.delay = milliseconds(200)});
  SystemClock().Sleep(milliseconds(50));
  TimePoint start = SystemClock().Now();
  Send(client, "x");
  EXPECT_EQ(Receive(server, 1, kPatience), "x");
  EXPECT_GE(SystemClock().Now() - start, milliseconds(200));

  proxy_->Set({.bytes_per_second = 1000});
  SystemClock().Sleep(milliseconds(50));
  start = SystemClock().Now();
  const std::string text(300, 'y');
  Send(client, text);
  EXPECT_EQ(Receive(server, text.size(), kPatience), text);
  EXPECT_GE(SystemClock().Now() - start, milliseconds(200));
}

TEST_F(TcpProxyTest, WhatIsLostComesLaterAndInOrder) {
  const UniqueFd client = Connect();
  const UniqueFd server = Accept();
  Send(client, "0");
  EXPECT_EQ(Receive(server, 1, kPatience), "0");
  proxy_->Set({.loss = 0.9});
  SystemClock().Sleep(milliseconds(50));
  const TimePoint start = SystemClock().Now();
  Send(client, "1");
  SystemClock().Sleep(milliseconds(30));  // The next one is a packet of its own.
  proxy_->Set({});
  SystemClock().Sleep(milliseconds(50));
  Send(client, "2");
  EXPECT_EQ(Receive(server, 2, kPatience), "12");
  EXPECT_GE(SystemClock().Now() - start, milliseconds(200));
}

TEST_F(TcpProxyTest, AnAddressOfAnotherHostIsRefused) {
  EXPECT_EQ(TcpProxy::Start({.listen = "203.0.113.1"}).status().code(), StatusCode::kUnavailable);
}

TEST_F(TcpProxyTest, CutConnectionsEnd) {
  const UniqueFd client = Connect();
  const UniqueFd server = Accept();
  proxy_->Set({.cuts = true});
  char c = 0;
  EXPECT_LE(recv(server.get(), &c, 1, 0), 0);
  EXPECT_LE(recv(client.get(), &c, 1, 0), 0);
  const UniqueFd again = Connect();
  EXPECT_LE(recv(again.get(), &c, 1, 0), 0);
}

}  // namespace
}  // namespace quire::torture
