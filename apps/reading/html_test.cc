// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::cli {
namespace {

using ::testing::HasSubstr;

std::string Text(std::string_view html) {
  const auto text = HtmlToText(html);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(HtmlTest, BlocksBreakLinesAndWhiteSpaceCollapses) {
  EXPECT_EQ(Text("<h1>Pumps</h1><p>One  <b>two</b>\n three</p><p>four<br>five"),
            "Pumps\n\nOne two three\n\nfour\nfive\n");
  EXPECT_EQ(Text("<div>a</div><div>b</div>c"), "a\nb\nc\n");
  EXPECT_EQ(Text("<ul><li>one</li><li>two</li></ul>"), "- one\n- two\n");
  EXPECT_EQ(Text("<table><tr><th>name<th>age<tr><td>Ann<td>7</table>"), "name\tage\nAnn\t7\n");
}

TEST(HtmlTest, EntitiesAreDecodedAndPreformattedTextKeepsItsLines) {
  EXPECT_EQ(Text("a &lt; b &amp;&nbsp;&eacute; &#x1F600;"),
            "a < b &\xC2\xA0\xC3\xA9 \xF0\x9F\x98\x80\n");
  EXPECT_EQ(Text("x<pre>\n  a\n    b\n</pre>y"), "x\n\n  a\n    b\n\n\ny\n");
}

TEST(HtmlTest, ScriptsStylesHeadAndCommentsAreDropped) {
  EXPECT_EQ(Text("<!doctype html><html><head><title>t</title><style>p{}</style></head><body>"
                 "<script>alert('x')</script><!-- note -->seen<noscript>no</noscript>"),
            "seen\n");
}

TEST(HtmlTest, AnotherDeclaredEncodingIsRefusedWithItsOffset) {
  const std::string page = "<html><head><meta charset=ISO-8859-1></head><body>caf";
  EXPECT_EQ(Text(page + "e"), "cafe\n");
  const auto refused = HtmlToText(page + "\xC3\xA9");
  EXPECT_THAT(std::string(Message(refused.status())), HasSubstr("ISO-8859-1 at byte 12"));
  EXPECT_EQ(Text("<meta http-equiv=Content-Type content='text/html; charset=UTF-8'>\xC3\xA9"),
            "\xC3\xA9\n");
  EXPECT_FALSE(
      HtmlToText("<meta http-equiv=Content-Type content='text/html; Charset=koi8-r'>\xC3\xA9")
          .ok());
}

TEST(HtmlTest, DeepPagesTakeNoStack) {
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "<span>";
  EXPECT_EQ(Text(deep + "bottom"), "bottom\n");
}

}  // namespace
}  // namespace quire::cli
