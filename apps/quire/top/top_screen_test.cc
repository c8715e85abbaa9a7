// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

TopView SomeView() {
  TopView view{.server = "127.0.0.1:7410", .answered = true};
  view.stats.version = "0.1.0";
  view.numbers.dram = {512, 1024};
  view.numbers.hit_ratio = 0.5;
  for (const char* const name : {"team-a", "team-b", "team-c", "team-d", "team-e", "team-f"}) {
    view.numbers.tenants.push_back({.name = name});
  }
  for (int i = 0; i < 20; ++i) view.numbers.methods.push_back({.name = "Store/Method"});
  for (int i = 0; i < 100; ++i) {
    view.slow.push_back({.method = "quire.v1.Session/Recall",
                         .time = milliseconds(200),
                         .queue = milliseconds(20),
                         .ssd = milliseconds(150)});
  }
  for (int i = 0; i < 300; ++i) view.trends.Add(view.numbers);
  return view;
}

std::string TextOf(const std::vector<ScreenLine>& lines) {
  std::string text;
  for (const ScreenLine& line : lines) text += line.plain() + "\n";
  return text;
}

TEST(TopScreenTest, FitsEveryScreen) {
  for (const size_t height : {1, 2, 5, 10, 12, 24, 60}) {
    for (const size_t width : {1, 20, 80, 200}) {
      for (const bool answered : {true, false}) {
        TopView view = SomeView();
        view.answered = answered;
        const auto lines = DrawTop(view, width, height);
        EXPECT_EQ(lines.size(), height);
        for (const ScreenLine& line : lines) EXPECT_LE(line.columns(), width);
      }
    }
  }
}

TEST(TopScreenTest, AnOrdinaryTerminalHasAllParts) {
  const std::string text = TextOf(DrawTop(SomeView(), 80, 24));
  EXPECT_THAT(text, HasSubstr("██████████░░░░░░░░░░"));
  EXPECT_THAT(text, HasSubstr("50.0 %"));
  EXPECT_THAT(text, HasSubstr("team-a"));
  EXPECT_THAT(text, HasSubstr("Store/Method"));
  EXPECT_THAT(text, HasSubstr("SSD 150 ms, queue 20 ms"));
  EXPECT_THAT(text, HasSubstr("sound"));
}

TEST(TopScreenTest, SaysWhatIsWrong) {
  TopView view = SomeView();
  view.stats.degradations = {{.reason = "disk_full", .detail = "delete documents"}};
  EXPECT_THAT(TextOf(DrawTop(view, 80, 24)), HasSubstr("disk_full: delete documents"));
  EXPECT_THAT(TopRow(view), HasSubstr("disk_full"));
  view.failure = "no answer";
  EXPECT_THAT(TextOf(DrawTop(view, 80, 24)), HasSubstr("since "));
  EXPECT_THAT(TextOf(DrawTop(view, 80, 24)), HasSubstr("team-a")) << "what was known stays";
}

TEST(TopScreenTest, LinesStandBelowTheirTitles) {
  const std::string row = TopRow(SomeView());
  EXPECT_EQ(TopTitles().find("HITS") + 4, row.find("50.0 %") + 6);
  EXPECT_THAT(row, Not(HasSubstr("\n")));
  const Json json = TopJson(SomeView());
  EXPECT_EQ(json["hit_ratio"], 0.5);
  EXPECT_TRUE(json["moved_ratio"].is_null());
  EXPECT_EQ(json["slow"].size(), 100u);
}

}  // namespace
}  // namespace quire::cli
