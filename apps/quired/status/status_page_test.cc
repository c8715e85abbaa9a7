// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "apps/quired/status/status_answers.h"
#include "tests/kit/paths.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusPageTest, IsTheFileAndMayDoNothingElse) {
  std::ifstream file(QUIRE_SOURCE_DIR "/apps/quired/status/page.html");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const HttpReply reply = StatusPage();
  EXPECT_EQ(reply.body, page);
  EXPECT_TRUE(std::ranges::all_of(page, [](char c) { return (c & 0x80) == 0; })) << "ASCII";
  EXPECT_THAT(reply.headers, HasSubstr("default-src 'none'"));
  EXPECT_THAT(reply.headers, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(reply.headers, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(reply.headers, Not(HasSubstr("unsafe")));
  // Markup from texts would be a door for names.
  for (const char* const door : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                 "eval(", "DOMParser", "srcdoc", " src=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(door)));
  }
}

TEST(StatusPageTest, HasTheAnswersThatItReads) {
  const AdminSite site = StatusSite({});
  EXPECT_EQ(site.pages.size(), 1u);
  for (const std::string& path : site.answers) {
    EXPECT_THAT(StatusPage().body, HasSubstr("getJson('" + path + "?"));
  }
}

}  // namespace
}  // namespace quire::kvserver
