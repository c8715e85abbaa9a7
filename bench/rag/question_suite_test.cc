// SPDX-License-Identifier: Apache-2.0
//
// Suites whose answers are found again from the documents alone, by a plain reading of the entries.
#include "bench/rag/question_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

using quire::testing::TempDir;
using ::testing::HasSubstr;

SuiteWords Words() {
  SuiteWords words{.names = {}, .values = {}, .filler = {"the", "old", "road"}};
  for (int i = 0; i < 120; ++i) words.names.push_back("N" + std::to_string(i));
  for (int i = 0; i < 40; ++i) words.values.push_back("V" + std::to_string(i));
  return words;
}

/// Words of a text, full stops apart.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> words;
  std::string spaced;
  for (const char c : text)
    spaced += c == '.' || c == ':' ? std::string(" ") + c : std::string(1, c);
  std::istringstream stream(spaced);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// An entry as a reader finds it.
struct Read {
  std::string word;
  size_t document = 0;
  size_t at = 0;  ///< Words before it in its document.
};

/// Every entry of each name, in the order of the prompt.
std::map<std::string, std::vector<Read>> EntriesOf(const DocumentSet& set) {
  std::map<std::string, std::vector<Read>> entries;
  for (size_t document = 0; document < set.documents.size(); ++document) {
    const std::vector<std::string> words = Split(set.documents[document]);
    for (size_t i = 0; i + 2 < words.size(); ++i) {
      const bool entry = words[i][0] == 'N' && words[i + 2] == ".";
      if (entry) entries[words[i]].push_back({words[i + 1], document, i});
    }
  }
  return entries;
}

/// The names on the way from `name` to its value, and the value.
std::vector<Read> WayOf(const std::map<std::string, std::vector<Read>>& entries,
                        const std::string& name) {
  std::vector<Read> way = {entries.at(name).back()};
  while (way.back().word[0] == 'N') way.push_back(entries.at(way.back().word).back());
  return way;
}

std::vector<DocumentSet> Make(const SuiteOptions& options) {
  auto sets = MakeQuestionSuite(Words(), options);
  EXPECT_TRUE(sets.ok()) << sets.status();
  return sets.ok() ? *std::move(sets) : std::vector<DocumentSet>();
}

std::string NameIn(const SuiteQuestion& question) { return Split(question.prompt).back(); }

class QuestionSuiteTest : public ::testing::TestWithParam<std::string> {};

TEST_P(QuestionSuiteTest, AnswersFollowFromTheDocuments) {
  for (const DocumentSet& set : Make({.suite = GetParam(), .document_words = 80})) {
    const auto entries = EntriesOf(set);
    for (const SuiteQuestion& question : set.questions) {
      EXPECT_EQ(question.answer, " " + WayOf(entries, NameIn(question)).back().word);
    }
  }
}

TEST_P(QuestionSuiteTest, DocumentsHaveTheWantedLength) {
  for (const DocumentSet& set : Make({.suite = GetParam(), .document_words = 80})) {
    for (const std::string& document : set.documents) {
      EXPECT_NEAR(Split(document).size(), 82, 10);
    }
  }
}

TEST_P(QuestionSuiteTest, TheSeedDecides) {
  const SuiteOptions options{.suite = GetParam(), .document_words = 80, .questions = 20};
  SuiteOptions other = options;
  other.seed = 2;
  EXPECT_EQ(Make(options).front().documents, Make(options).front().documents);
  EXPECT_NE(Make(options).front().documents, Make(other).front().documents);
}

TEST_P(QuestionSuiteTest, ThereAreAsManyQuestionsAsWanted) {
  size_t questions = 0;
  for (const DocumentSet& set : Make({.suite = GetParam(), .document_words = 80})) {
    EXPECT_LE(set.questions.size(), 20u);
    questions += set.questions.size();
  }
  EXPECT_GE(questions, 200u);
}

INSTANTIATE_TEST_SUITE_P(Suites, QuestionSuiteTest, ::testing::ValuesIn(SuiteNames()),
                         [](const auto& suite) { return suite.param; });

TEST(QuestionSuiteTasksTest, TasksNeedWhatTheirNamesSay) {
  std::set<std::string> tasks;
  for (const DocumentSet& set : Make({.suite = "anywhere", .document_words = 80})) {
    const auto entries = EntriesOf(set);
    for (const SuiteQuestion& question : set.questions) {
      const std::vector<Read> way = WayOf(entries, NameIn(question));
      const size_t steps = question.task == "chain" ? 3 : question.task == "refer" ? 2 : 1;
      EXPECT_EQ(way.size(), steps) << question.task;
      for (size_t i = 1; i < way.size(); ++i) EXPECT_LT(way[i].document, way[i - 1].document);
      const bool conflict = entries.at(NameIn(question)).size() > 1;
      EXPECT_EQ(conflict, question.task == "conflict");
      tasks.insert(question.task);
    }
  }
  EXPECT_EQ(tasks, (std::set<std::string>{"alone", "refer", "chain", "conflict"}));
}

TEST(QuestionSuiteTasksTest, EdgesAreTheFirstAndTheLastWords) {
  for (const DocumentSet& set : Make({.suite = "edges", .document_words = 80})) {
    for (const auto& [name, reads] : EntriesOf(set)) {
      for (const Read& read : reads) {
        EXPECT_TRUE(read.at < 12 || read.at >= 82 - 16) << name << " at " << read.at;
      }
    }
  }
}

TEST(QuestionSuiteTasksTest, OnlyTheWantedTasksAreAsked) {
  std::set<std::string> tasks;
  for (const DocumentSet& set : Make({.tasks = {"refer"}, .document_words = 80})) {
    for (const SuiteQuestion& question : set.questions) tasks.insert(question.task);
  }
  EXPECT_EQ(tasks, (std::set<std::string>{"alone", "refer"}));
}

TEST(QuestionSuiteTasksTest, AloneHasNoOtherTask) {
  for (const DocumentSet& set : Make({.suite = "alone", .document_words = 80})) {
    for (const SuiteQuestion& question : set.questions) EXPECT_EQ(question.task, "alone");
  }
}

TEST(QuestionSuiteTasksTest, RefusesWhatCannotBeMade) {
  for (const SuiteOptions& options :
       {SuiteOptions{.suite = "other"}, SuiteOptions{.documents = 2}, SuiteOptions{.documents = 64},
        SuiteOptions{.document_words = 20}}) {
    EXPECT_EQ(MakeQuestionSuite(Words(), options).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(SuiteWordsTest, NamesTheFileThatIsWrong) {
  const TempDir directory;
  const std::string path = directory / "words.json";
  std::ofstream(path) << R"({"names": ["A"], "values": []})";
  const auto words = ReadSuiteWords(path);
  EXPECT_EQ(words.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(words.status().message()), HasSubstr("'values'"));
}

}  // namespace
}  // namespace quire::bench
