// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/http_request.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(HttpRequestTest, TheFirstLineOfAWholeHeadIsRead) {
  EXPECT_FALSE(HasWholeHead("GET / HTTP/1.1\r\nHost: x\r\n"));
  EXPECT_TRUE(HasWholeHead("GET / HTTP/1.1\r\nHost: x\r\n\r\nbody"));
  EXPECT_TRUE(HasWholeHead("GET / HTTP/1.0\n\n"));
  const auto request = ParseHttpRequest("GET /metrics?a=b HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/metrics");
}

TEST(HttpRequestTest, OtherBytesAreNoRequest) {
  for (const char* const head :
       {"", "\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/9\r\n\r\n", " / HTTP/1.1\n\n",
        "GET  HTTP/1.1\n\n", "GET http://x/ HTTP/1.1\n\n", "GET /a b HTTP/1.1\n\n"}) {
    EXPECT_FALSE(ParseHttpRequest(head).has_value()) << head;
  }
}

TEST(HttpRequestTest, AnAnswerSaysHowLongItIs) {
  EXPECT_EQ(HttpAnswer(404, "text/plain", "no\n"),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\nno\n");
}

}  // namespace
}  // namespace quire
