// SPDX-License-Identifier: Apache-2.0
#include "common/transport/listen_address.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ListenAddressTest, LoopbackAndUnixSocketsStayOnThisHost) {
  for (const char* const address : {"127.0.0.1:7410", "127.1.2.3:0", "[::1]:7410", "localhost:7410",
                                    "unix:/run/quire.sock", "unix:relative"}) {
    EXPECT_TRUE(StaysOnThisHost(address)) << address;
  }
}

TEST(ListenAddressTest, EverythingElseMayBeReachedFromElsewhere) {
  for (const char* const address :
       {"0.0.0.0:7410", "[::]:7410", "*:7410", "10.0.0.1:7410", "[fe80::1]:7410", "128.0.0.1:1",
        "127.example.org:7410", "localhost.example.org:1", "127.0.0.1.example.org:1", ":7410",
        ""}) {
    EXPECT_FALSE(StaysOnThisHost(address)) << address;
  }
}

}  // namespace
}  // namespace quire
