// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/page_strip_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace quire::cli {
namespace {

size_t Columns(const std::string& line) {
  return static_cast<size_t>(
      std::ranges::count_if(line, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

TEST(PageStripTextTest, HigherWhereAPageWasUsedMore) {
  const PageUses pages{.page_tokens = 16, .uses = {0, 1, 8, 4, 0}};
  EXPECT_EQ(PageStripText(pages, 80, /*coloured=*/false),
            "3 of 5 pages used (16 tokens each), the hottest 8 times\n0 ·▁█▄·\n");
  const std::string coloured = PageStripText(pages, 80, /*coloured=*/true);
  EXPECT_NE(coloured.find("\x1b[38;5;160m█\x1b[0m"), std::string::npos) << coloured;
}

TEST(PageStripTextTest, LongDocumentsFitTheWidth) {
  PageUses pages{.page_tokens = 32, .uses = std::vector<uint32_t>(32768)};
  pages.uses[20000] = 4294967295;
  for (const size_t width : {20, 80, 200}) {
    std::istringstream lines(PageStripText(pages, width, /*coloured=*/false));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "1 of 32,768 pages used (32 tokens each), the hottest 4,294,967,295 times");
    size_t rows = 0, hot = 0;
    for (; std::getline(lines, line); ++rows) {
      EXPECT_EQ(Columns(line), width);
      hot += line.find("█") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(rows, 4u);
    EXPECT_EQ(hot, 1u) << "no used page is lost between the others";
  }
}

TEST(PageStripTextTest, UnusedDocumentsAreWords) {
  for (const size_t pages : {0, 3}) {
    EXPECT_EQ(PageStripText({.page_tokens = 16, .uses = std::vector<uint32_t>(pages)}, 80, true),
              "no recall has used a page since the server started\n");
  }
}

}  // namespace
}  // namespace quire::cli
