// SPDX-License-Identifier: Apache-2.0
#include "common/base/net_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(NetAddressTest, ReadsBackWhatItWrites) {
  for (const char* const text :
       {"127.0.0.1:7410", "0.0.0.0:1", "[::1]:7410", "[fe80::1%eth0]:65535", "localhost:7410",
        "a-b.example.org:7410", "a_b:80", "example.org.:80", "10.example:80", "unix:/run/q.sock",
        "unix:relative", "unix:/a b%20?#", "dns:7410", "https:443"}) {
    const auto address = NetAddress::ParseServer(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->Text(), text);
  }
  EXPECT_EQ(NetAddress::ParseServer("unix:///run/q")->Text(), "unix:/run/q");
}

TEST(NetAddressTest, SaysWhatItConsistsOf) {
  const auto six = NetAddress::ParseListen("[::1]:0");
  ASSERT_TRUE(six.ok()) << six.status();
  EXPECT_EQ(six->host(), "::1");
  EXPECT_EQ(six->port(), 0);
  EXPECT_EQ(six->WithPort(443).Text(), "[::1]:443");
  const auto path = NetAddress::ParseListen("unix:/run/q.sock");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_TRUE(path->is_unix());
  EXPECT_EQ(path->path(), "/run/q.sock");
  EXPECT_EQ(path->WithPort(443).Text(), "unix:/run/q.sock");
}

// Refuses an address that a library would complete, shorten or look up: a server listens exactly
// where it is told.
TEST(NetAddressTest, RefusesWhatItDoesNotMean) {
  const std::string long_path = "unix:/" + std::string(107, 'x');
  const std::string long_host = std::string(64, 'x') + ":80";
  for (const std::string& text : {std::string(""),
                                  std::string("127.0.0.1"),
                                  std::string("localhost"),
                                  std::string(":7410"),
                                  std::string(":99999"),
                                  std::string("[::1]"),
                                  std::string("::1"),
                                  std::string("::1:7410"),
                                  std::string("::"),
                                  std::string("[]:80"),
                                  std::string("[127.0.0.1]:80"),
                                  std::string("[::1"),
                                  std::string("[fe80::1%]:80"),
                                  std::string("127.0.0.1:"),
                                  std::string("127.0.0.1:x"),
                                  std::string("127.0.0.1:-1"),
                                  std::string("127.0.0.1:+1"),
                                  std::string("127.0.0.1: 1"),
                                  std::string("127.0.0.1:65536"),
                                  std::string("127.0.0.1:99999"),
                                  std::string("127.0.0.1:1:"),
                                  std::string("127.0.0.1:1:1"),
                                  std::string("127.0.0.1:https"),
                                  std::string("127.1:80"),
                                  std::string("300.0.0.1:80"),
                                  std::string("1.2.3.4.5:80"),
                                  std::string("2130706433:80"),
                                  std::string("*:80"),
                                  std::string("a b:80"),
                                  std::string(" localhost:80"),
                                  std::string("http://localhost:80"),
                                  std::string("dns:///localhost:80"),
                                  std::string("ipv4:127.0.0.1:80"),
                                  std::string("user@host:80"),
                                  std::string("a..b:80"),
                                  std::string("-a:80"),
                                  std::string(".:80"),
                                  std::string("unix:"),
                                  std::string("unix://host/path"),
                                  std::string("unix://"),
                                  std::string("unix:/a\0b", 9),
                                  std::string("a\0b:80", 6),
                                  long_path,
                                  long_host}) {
    const auto address = NetAddress::ParseListen(text);
    ASSERT_FALSE(address.ok()) << text << " is read as " << address->Text();
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(Message(address.status())), HasSubstr("write host:port")) << text;
  }
}

TEST(NetAddressTest, OnlyAListenerMayLeaveThePortOpen) {
  EXPECT_TRUE(NetAddress::ParseListen("127.0.0.1:0").ok());
  EXPECT_FALSE(NetAddress::ParseServer("127.0.0.1:0").ok());
  EXPECT_TRUE(NetAddress::ParseServer("unix:/run/q").ok());
}

TEST(NetAddressTest, LoopbackAndUnixSocketsStayOnThisHost) {
  for (const char* const text : {"127.0.0.1:7410", "127.1.2.3:0", "[::1]:7410", "localhost:7410",
                                 "unix:/run/quire.sock", "unix:relative"}) {
    EXPECT_TRUE(NetAddress::ParseListen(text)->StaysOnThisHost()) << text;
  }
}

TEST(NetAddressTest, EverythingElseMayBeReachedFromElsewhere) {
  for (const char* const text :
       {"0.0.0.0:7410", "[::]:7410", "10.0.0.1:7410", "[fe80::1]:7410", "128.0.0.1:1",
        "127.example.org:7410", "localhost.example.org:1", "127.0.0.1.example.org:1"}) {
    EXPECT_FALSE(NetAddress::ParseListen(text)->StaysOnThisHost()) << text;
  }
}

TEST(NetAddressTest, TwoAddressesStandForAllOfAHost) {
  EXPECT_TRUE(NetAddress::ParseListen("0.0.0.0:1")->IsEveryAddress());
  EXPECT_TRUE(NetAddress::ParseListen("[::]:1")->IsEveryAddress());
  EXPECT_TRUE(NetAddress::ParseListen("[0::0]:1")->IsEveryAddress());
  EXPECT_FALSE(NetAddress::ParseListen("[::1]:1")->IsEveryAddress());
  EXPECT_FALSE(NetAddress::ParseListen("unix:/0.0.0.0")->IsEveryAddress());
}

}  // namespace
}  // namespace quire
