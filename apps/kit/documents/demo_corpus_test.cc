// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/demo_corpus.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire::cli {
namespace {

using quire::testing::TempDir;

constexpr char kText[] =
    "The old mill stands beside the river. The keeper of the mill is called Anna. "
    "Every year in May the people of the village paint the gate green. Short one. "
    "The old mill stands beside the river again today without any change.";

TEST(MakeRecallQuestionsTest, AsksForTheLastWordOfASentenceThatOccursOnce) {
  const auto questions = MakeRecallQuestions(kText, 10);
  ASSERT_EQ(questions.size(), 3u)
      << "the first sentence's beginning occurs twice, 'Short one' is too short";
  EXPECT_EQ(questions[0].prompt, "\nThe keeper of the mill is called");
  EXPECT_EQ(questions[0].answer, " Anna");
  EXPECT_EQ(questions[1].answer, " green");
}

TEST(MakeRecallQuestionsTest, SpreadsAFewOverTheText) {
  const auto questions = MakeRecallQuestions(kText, 1);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_TRUE(MakeRecallQuestions("", 5).empty());
}

TEST(LoadDemoCorpusTest, ReadsTextsAndQuestions) {
  TempDir dir;
  std::ofstream(dir / "b.txt") << kText;
  std::ofstream(dir / "a.md") << "Something else.";
  std::ofstream(dir / "ignored.bin") << "x";
  std::ofstream(dir / "questions.jsonl") << R"({"document":"b.txt","question":"q","answer":" r"})"
                                         << "\n";
  const auto corpus = LoadDemoCorpus(dir.path());
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  ASSERT_EQ(corpus->documents.size(), 2u);
  EXPECT_EQ(corpus->documents[0].name, "a.md");
  ASSERT_EQ(corpus->questions.size(), 1u);
  EXPECT_EQ(corpus->questions[0].document, 1u);
  EXPECT_EQ(corpus->questions[0].answer, " r");
  EXPECT_NE(Message(LoadDemoCorpus(dir.path(), 5).status()).find("--questions-per-document is for"),
            std::string_view::npos)
      << "the number would not be read";
}

TEST(LoadDemoCorpusTest, NamesTheFileAndLineThatIsWrong) {
  TempDir dir;
  EXPECT_EQ(LoadDemoCorpus(dir.path(), 5).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(LoadDemoCorpus(dir / "missing", 5).status().code(), StatusCode::kNotFound);
  std::ofstream(dir / "b.txt") << kText;
  std::ofstream(dir / "questions.jsonl") << "\n\n";
  EXPECT_EQ(LoadDemoCorpus(dir.path()).status().code(), StatusCode::kInvalidArgument);
  std::ofstream(dir / "questions.jsonl") << "\n{\"document\":\"b.txt\"}\n";
  const Status status = LoadDemoCorpus(dir.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("questions.jsonl:2"), std::string_view::npos);
}

TEST(LoadDemoCorpusTest, WithNothingToReadOrToAskForThereIsNoDemo) {
  TempDir dir;
  std::ofstream(dir / "empty.txt").flush();
  const Status empty = LoadDemoCorpus(dir.path(), 5).status();
  EXPECT_EQ(empty.code(), StatusCode::kNotFound);
  EXPECT_NE(Message(empty).find("file with text in it"), std::string_view::npos);
  std::ofstream(dir / "short.txt") << "Short.\n";
  const Status unasked = LoadDemoCorpus(dir.path(), 5).status();
  EXPECT_EQ(unasked.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(unasked).find("put a questions.jsonl beside"), std::string_view::npos);
}

}  // namespace
}  // namespace quire::cli
