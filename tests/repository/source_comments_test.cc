// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/source_comments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Every folder with sources.
constexpr const char* kCommentedFolders[] = {
    "apps",    "bench",    "client", "cluster", "common", "gpuworker", "include",
    "kernels", "kvserver", "proto",  "python",  "tests",  "tools",     "transport"};

std::vector<std::string> Texts(const std::vector<std::string>& lines) {
  std::vector<std::string> texts;
  for (const CommentParagraph& paragraph : CommentParagraphs(lines)) {
    texts.push_back(paragraph.text);
  }
  return texts;
}

TEST(SourceCommentsTest, TheCommentsOfTheTreeKeepTheRules) {
  size_t paragraphs = 0;
  for (const char* folder : kCommentedFolders) {
    for (const std::string& file : FilesUnder(folder, {".h", ".cc", ".cu", ".cuh", ".proto"})) {
      const std::vector<std::string> lines = ReadLines(file);
      paragraphs += CommentParagraphs(lines).size();
      EXPECT_THAT(CommentFaults(file, lines), IsEmpty())
          << "begin with a noun or an imperative verb; one idea a sentence";
    }
  }
  EXPECT_GT(paragraphs, 4000u) << "the comments were not recognised";
}

TEST(SourceCommentsTest, JoinsTheLinesOfAParagraph) {
  EXPECT_THAT(
      Texts({
          "// SPDX-License-Identifier: Apache-2.0",
          "//",
          "// One paragraph",
          "// on two lines.",
          "//   an example",
          "// - First item.",
          "// - Second item.",
          "int a = 0;  ///< A field",
          "            ///< on two lines.",
          "int b = 0;  ///< Another field.",
          "/// A function.",
          "// Another comment.",
      }),
      ElementsAre("One paragraph on two lines.", "First item.", "Second item.",
                  "A field on two lines.", "Another field.", "A function.", "Another comment."));
}

TEST(SourceCommentsTest, LiteralsAndBlockCommentsAreNoComments) {
  EXPECT_THAT(Texts({
                  R"(Get("http://host", '"', '/');  // First.)",
                  R"(Set("\"// of a string", 1'000, 'x');  // Second.)",
                  R"x(const char kRaw[] = R"("// of a raw string)x",
                  R"x(// of the same one)";  // Third.)x",
                  "Call(/*first=*/1);  // Fourth.",
                  "/* // of a block",
                  "   // of the same one */  // Fifth.",
              }),
              ElementsAre("First.", "Second.", "Third.", "Fourth.", "Fifth."));
}

TEST(SourceCommentsTest, SplitsSentences) {
  EXPECT_THAT(Sentences("One: 1.5 of a.h. Two? `Three` is code. (Four.) Five"),
              ElementsAre("One: 1.5 of a.h. ", "Two? ", "`Three` is code. ", "(Four.) ", "Five"));
}

TEST(SourceCommentsTest, NamesTheBrokenRules) {
  std::string words = "// ";
  for (size_t i = 0; i <= kMostWords; ++i) words += "word ";
  EXPECT_THAT(CommentFaults("x.h",
                            {
                                "// Bytes sent. That is all.",
                                "int a = 0;  ///< of the lanes",
                                "int b = 0;  ///< num_lanes entries. `of` is a name. Often none.",
                                "// Pooled as in spec A.1.",
                                "// A spec that A has.",
                                "int c = 0;",
                                words,
                            }),
              ElementsAre("x.h:1: first word: That is all.",  //
                          "x.h:2: lower case: of the lanes",  //
                          "x.h:2: first word: of the lanes",  //
                          "x.h:4: citation: Pooled as in spec A.1. A spec that A has.",
                          "x.h:7: too long: " + words.substr(3)));
}

}  // namespace
}  // namespace quire::repository
