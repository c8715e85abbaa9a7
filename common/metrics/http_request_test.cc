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

TEST(HttpRequestTest, HeadersThatSayWhoAsksAreRead) {
  const auto request = ParseHttpRequest(
      "GET /documents?q=a%20b+c&after= HTTP/1.1\r\nhost:  a:1 \r\nX: y\r\nOrigin: http://b\r\n"
      "Sec-Fetch-Site: cross-site\r\n\r\nHost: not a header any more\r\n");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->host, "a:1");
  EXPECT_EQ(request->origin, "http://b");
  EXPECT_EQ(request->fetch_site, "cross-site");
  EXPECT_EQ(QueryValue(request->query, "q"), "a b c");
  EXPECT_EQ(QueryValue(request->query, "after"), "");
  EXPECT_EQ(QueryValue(request->query, "before"), std::nullopt);
  EXPECT_FALSE(ParseHttpRequest("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n").has_value());
}

TEST(HttpRequestTest, BrokenEscapesAreNoValues) {
  EXPECT_EQ(QueryValue("q=%3Cb%3e&%q=1", "q"), "<b>");
  for (const char* const query : {"q=%", "q=%4", "q=%4g", "q=%-1", "q=a%"}) {
    EXPECT_EQ(QueryValue(query, "q"), std::nullopt) << query;
  }
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
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: "
            "close\r\n\r\nno\n");
}

}  // namespace
}  // namespace quire
