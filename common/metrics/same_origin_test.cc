// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/same_origin.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

const std::vector<std::string> kNames = {"node-3.example.org"};

TEST(SameOriginTest, OwnNamesAreAddressesNamesWithoutADotAndThoseThatAreGiven) {
  for (const char* const host : {"127.0.0.1:7411", "10.0.0.3", "[::1]:7411", "localhost:7411",
                                 "node-3", "Node-3.Example.org:7411"}) {
    EXPECT_TRUE(IsOwnName(host, kNames)) << host;
  }
  for (const char* const host : {"", ":7411", "evil.example.org", "127.0.0.1.evil.org:7411",
                                 "node-3.example.org.evil.org", "localhost.", "[::1"}) {
    EXPECT_EQ(IsOwnName(host, kNames), std::string_view(host) == "[::1") << host;
  }
}

TEST(SameOriginTest, PagesOfOthersAreRefused) {
  const auto code = [](const HttpRequest& request) {
    const auto refusal = RefuseForeign(request, kNames);
    return refusal ? refusal->code : 200;
  };
  EXPECT_EQ(code({.host = "127.0.0.1:7411"}), 200) << "a program";
  EXPECT_EQ(code({.host = "127.0.0.1:7411", .fetch_site = "none"}), 200) << "a person";
  EXPECT_EQ(code({.host = "127.0.0.1:7411",
                  .origin = "http://127.0.0.1:7411",
                  .fetch_site = "same-origin"}),
            200);
  EXPECT_EQ(code({.host = "127.0.0.1:7411", .fetch_site = "cross-site"}), 403);
  EXPECT_EQ(code({.host = "127.0.0.1:7411", .fetch_site = "same-site"}), 403) << "another port";
  EXPECT_EQ(code({.host = "127.0.0.1:7411", .origin = "http://127.0.0.1:8000"}), 403);
  EXPECT_EQ(code({.host = "127.0.0.1:7411", .origin = "null"}), 403);
  EXPECT_EQ(code({.host = "evil.example.org:7411"}), 421) << "a name that leads here";
  EXPECT_EQ(code({}), 421);
}

}  // namespace
}  // namespace quire
