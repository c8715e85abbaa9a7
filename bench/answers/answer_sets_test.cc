// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/answers/bootstrap.h"
#include "bench/answers/dossier.h"
#include "bench/answers/question_sets.h"

namespace quire::bench {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A token is a word, a line break or a full stop.
size_t CountWords(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool word = text[i] != ' ' && text[i] != '\n' && text[i] != '.';
    const bool starts = i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n';
    count += word ? (starts ? 1 : 0) : (text[i] == ' ' ? 0 : 1);
  }
  return count;
}

/// Makes `facts` facts, each after `between` sentences of seven tokens without one, about people
/// with different names.
Dossier MakeDossier(int facts, int between, const std::string& last_name) {
  std::string text = "Document 1: Notes from Walbury\n";
  for (int i = 0; i < facts; ++i) {
    for (int k = 0; k < between; ++k) text += " The old mill was here today.";
    text += i % 3 == 0 ? "\nThen " : " ";
    const std::string last = last_name + std::to_string(i);
    text += "Alice" + last + " " + last + " has code quick value" + std::to_string(i) + ".";
  }
  return TakeApart(last_name + ".txt", text, CountWords);
}

std::vector<Dossier> ThreeDossiers() {
  return {MakeDossier(36, 15, "Brown"), MakeDossier(36, 15, "Green"), MakeDossier(36, 15, "Gray")};
}

std::vector<AskedDocument> Make(const std::vector<Dossier>& dossiers, const SetOptions& options) {
  auto documents = MakeQuestionSets(dossiers, options);
  EXPECT_TRUE(documents.ok()) << documents.status();
  return documents.ok() ? *std::move(documents) : std::vector<AskedDocument>();
}

std::map<std::string, uint32_t> CountBySet(const std::vector<AskedDocument>& documents) {
  std::map<std::string, uint32_t> counts;
  for (const AskedDocument& document : documents) {
    for (const Conversation& conversation : document.conversations) {
      counts[conversation.set] += static_cast<uint32_t>(conversation.questions.size());
    }
  }
  return counts;
}

/// "AliceBrown1 Brown1 has code quick value1." for the question about it.
std::string FactOf(const Question& question) {
  return question.prompt.substr(std::string("\nQuestion: ").size()) + question.answer;
}

TEST(Bootstrap, AMeanOfEqualValuesIsCertain) {
  const std::vector<double> ones(50, 1.0);
  const Estimate estimate = BootstrapMean(ones, 200, 7);
  EXPECT_EQ(estimate.mean, 1);
  EXPECT_EQ(estimate.low, 1);
  EXPECT_EQ(estimate.high, 1);
  EXPECT_EQ(BootstrapMean({}, 200, 7).mean, 0);
}

TEST(Bootstrap, TheIntervalIsThatOfABinomialShare) {
  std::vector<double> values(400);
  for (size_t i = 0; i < 300; ++i) values[i] = 1;
  const Estimate estimate = BootstrapMean(values, 4000, 1);
  EXPECT_DOUBLE_EQ(estimate.mean, 0.75);
  // 1.96 standard errors of sqrt(0.75 * 0.25 / 400) on either side.
  EXPECT_NEAR(estimate.low, 0.75 - 0.0424, 0.006);
  EXPECT_NEAR(estimate.high, 0.75 + 0.0424, 0.006);
}

TEST(Bootstrap, TheSeedDecides) {
  const std::vector<double> values = {0, 1, 1, 0.5, 0.25, 0, 1};
  const Estimate one = BootstrapMean(values, 101, 1), again = BootstrapMean(values, 101, 1);
  EXPECT_EQ(one.low, again.low);
  EXPECT_EQ(one.high, again.high);
  EXPECT_LT(one.low, one.mean);
  EXPECT_GT(one.high, one.mean);
}

TEST(DossierTest, FactsAreFoundAfterTitlesLineBreaksAndThen) {
  const Dossier dossier = TakeApart(
      "d",
      "Document 1: Notes from Walbury\nFreda Yates has office Bromford. The mill has a stone."
      " A window was near.\nThen Paul West has mentor Ann Hill. In Walbury it rained.",
      CountWords);
  ASSERT_THAT(dossier.sentences, SizeIs(5));
  EXPECT_EQ(dossier.sentences[0].fact->key, "Freda Yates has office");
  EXPECT_EQ(dossier.sentences[0].fact->value, "Bromford");
  EXPECT_EQ(dossier.sentences[0].fact->Prompt(), "\nQuestion: Freda Yates has office");
  EXPECT_EQ(dossier.sentences[0].fact->Answer(), " Bromford.");
  EXPECT_EQ(dossier.sentences[3].fact->key, "Paul West has mentor");
  EXPECT_EQ(dossier.sentences[3].fact->value, "Ann Hill");
  EXPECT_FALSE(dossier.sentences[2].fact);
  EXPECT_FALSE(dossier.sentences[4].fact);
}

TEST(DossierTest, AllSentencesTogetherAreTheText) {
  for (const std::string text : {"One two. Three\nfour. Five", "", ".", "No stop", "End.\n"}) {
    std::string all;
    for (const Sentence& sentence : TakeApart("d", text, CountWords).sentences) {
      EXPECT_FALSE(sentence.text.empty());
      all += sentence.text;
    }
    EXPECT_EQ(all, "\n" + text);
  }
}

TEST(DossierTest, AWindowIsWholeSentencesInARowAndGoesRound) {
  const Dossier dossier = TakeApart("d", "One a. Two b. Ann Lee has home Elm.", CountWords);
  // Tokens: 4 with the line break, 3, 6.
  const Window window = CutWindow(dossier, 2, 10);
  EXPECT_EQ(window.text, " Ann Lee has home Elm.\nOne a.");
  EXPECT_EQ(window.tokens, 10u);
  EXPECT_EQ(window.end, 1u);
  ASSERT_THAT(window.facts, SizeIs(1));
  EXPECT_EQ(window.facts[0].position, 0u);
  EXPECT_EQ(AsDocument(window.text), "Ann Lee has home Elm.\nOne a.");
  EXPECT_EQ(CutWindow(dossier, 0, 9).text, "\nOne a. Two b.");
  EXPECT_EQ(CutWindow(dossier, 1, 1000).tokens, 13u) << "each sentence once";
  EXPECT_EQ(WholeDossier(dossier).facts[0].position, 7u);
  EXPECT_EQ(AsDocument(" \n "), "");
}

TEST(QuestionSetsTest, EverySetHasTheSamplesThatWereAskedFor) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = MakeQuestionSets(dossiers, {.sets = SetNames(), .samples = 20});
  ASSERT_TRUE(documents.ok()) << documents.status();
  const auto counts = CountBySet(*documents);
  ASSERT_THAT(counts, SizeIs(5));
  uint64_t all = 0;
  for (const auto& [set, count] : counts) {
    EXPECT_GE(count, 20u) << set;
    EXPECT_LE(count, set == kLongSet ? 800u : 20u + 36) << set;
    all += count;
  }
  EXPECT_EQ(CountQuestions(*documents), all);
  std::set<std::string> names;
  for (const AskedDocument& document : *documents) {
    EXPECT_TRUE(names.insert(document.name).second) << document.name;
    EXPECT_FALSE(document.conversations.empty()) << document.name;
    for (const AskedDocument& other : *documents) {
      EXPECT_TRUE(&other == &document || !other.text.starts_with(document.text)) << document.name;
    }
  }
}

TEST(QuestionSetsTest, WhatIsAskedIsStatedOnceBeforeIt) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  for (const AskedDocument& document :
       Make(dossiers, {.sets = {"recall", "needle", "multi", "reads"}, .samples = 60, .seed = 5})) {
    for (const Conversation& conversation : document.conversations) {
      std::string text = document.text;
      for (const Question& question : conversation.questions) {
        const size_t at = text.find(FactOf(question));
        ASSERT_NE(at, std::string::npos) << conversation.set << ": " << question.prompt;
        EXPECT_EQ(text.find(FactOf(question), at + 1), std::string::npos) << question.prompt;
        text += question.reads + question.prompt + question.answer;
      }
    }
  }
}

TEST(QuestionSetsTest, NeedlesLieAtTheirDepths) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  std::map<std::string, int> places;
  for (const AskedDocument& document : Make(dossiers, {.sets = {"needle"}, .samples = 60})) {
    const Conversation& conversation = document.conversations.at(0);
    for (const Question& question : conversation.questions) {
      unsigned length = 0, tenths = 0;
      ASSERT_EQ(std::sscanf(question.place.c_str(), "length %u, depth 0.%u", &length, &tenths), 2);
      EXPECT_LE(conversation.context_tokens, length + 1);
      const double depth = static_cast<double>(document.text.find(FactOf(question))) /
                           static_cast<double>(document.text.size());
      // Half of the distance between two facts, 112 tokens.
      EXPECT_NEAR(depth, tenths / 10.0, 0.06 + 60.0 / std::min<double>(length, 4000));
      ++places[question.place];
    }
  }
  EXPECT_THAT(places, SizeIs(20));
  for (const auto& [place, count] : places) EXPECT_EQ(count, 3) << place;
}

TEST(QuestionSetsTest, WindowsWithFewFactsAreMadeUpForByMoreOfThem) {
  // Three or four facts in a window of the shortest length.
  const std::vector<Dossier> dossiers = {MakeDossier(36, 40, "Brown"),
                                         MakeDossier(36, 40, "Green")};
  const auto documents = Make(dossiers, {.sets = {"needle"}, .samples = 40});
  EXPECT_GE(CountBySet(documents).at("needle"), 40u);
  EXPECT_GT(documents.size(), 8u);
}

TEST(QuestionSetsTest, MultiAsksEverythingAndHopsFar) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {"multi"}, .samples = 36});
  ASSERT_THAT(documents, SizeIs(1));
  const Conversation& conversation = documents[0].conversations.at(0);
  EXPECT_THAT(conversation.questions, SizeIs(36));
  double hops = 0;
  for (size_t i = 1; i < conversation.questions.size(); ++i) {
    const auto at = [&](size_t k) {
      return static_cast<double>(documents[0].text.find(FactOf(conversation.questions[k])));
    };
    hops += std::abs(at(i) - at(i - 1));
  }
  // Random order would give a third.
  EXPECT_GT(hops / 35, 0.4 * static_cast<double>(documents[0].text.size()));
}

TEST(QuestionSetsTest, ReadsHasTextInTheSequenceAndAsksAboutItLater) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {"reads"}, .samples = 48});
  for (const AskedDocument& document : documents) {
    const Conversation& conversation = document.conversations.at(0);
    size_t read = 0, asked_of_read = 0;
    for (const Question& question : conversation.questions) {
      read += CountWords(question.reads);
      EXPECT_EQ(question.reads.find(FactOf(question)), std::string::npos);
      asked_of_read += document.text.find(FactOf(question)) == std::string::npos ? 1 : 0;
    }
    EXPECT_GT(read, 800u);
    EXPECT_GE(asked_of_read, 3u);
    EXPECT_NEAR(static_cast<double>(conversation.context_tokens),
                static_cast<double>(1 + CountWords(document.text) + read), 1);
  }
}

TEST(QuestionSetsTest, LongAsksForAListThatOnlyTheSequenceStates) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {kLongSet}});
  ASSERT_THAT(documents, SizeIs(1));
  EXPECT_LE(CountWords(documents[0].text), 256u);
  const Conversation& conversation = documents[0].conversations.at(0);
  const std::string& list = conversation.questions.at(0).reads;
  std::set<std::string> facts, names;
  for (const Question& question : conversation.questions) {
    EXPECT_EQ(question.reads.empty(), &question != &conversation.questions[0]);
    ASSERT_THAT(question.prompt, StartsWith(conversation.line_start + " "));
    const std::string fact = FactOf(question);
    if (!facts.insert(fact).second) continue;
    EXPECT_EQ(documents[0].text.find(fact), std::string::npos) << fact;
    const size_t at = list.find(" " + fact);
    ASSERT_NE(at, std::string::npos) << fact;
    EXPECT_EQ(list.find(fact, at + 2), std::string::npos) << fact;
    const size_t blank = fact.find(' ');
    EXPECT_TRUE(names.insert(fact.substr(0, blank)).second) << fact;
    EXPECT_TRUE(names.insert(fact.substr(blank, fact.find(' ', blank + 1) - blank)).second) << fact;
  }
  EXPECT_THAT(facts, SizeIs(64));
  EXPECT_EQ(CountWords(list), 64u * 7);
}

TEST(QuestionSetsTest, LongGeneratesMoreThan4096TokensWithinTheModelsContext) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {kLongSet}});
  ASSERT_THAT(documents, SizeIs(1));
  const Conversation& conversation = documents[0].conversations.at(0);
  // For the model, the beginning of a line is three tokens: "\n", "Question" and ":".
  constexpr size_t kLineStartTokens = 3;
  EXPECT_EQ(conversation.line_start, "\nQuestion:");
  size_t generated = 0, all = CountWords(documents[0].text);
  size_t early = 0;
  for (const Question& question : conversation.questions) {
    const std::string key = question.prompt.substr(conversation.line_start.size());
    generated += CountWords(question.answer) + kLineStartTokens;
    all += CountWords(question.reads) + kLineStartTokens + CountWords(key + question.answer);
    early += question.place == kLongEarly ? 1 : 0;
    EXPECT_THAT(question.place, AnyOf(kLongEarly, kLongLate));
  }
  EXPECT_GE(generated, 4096u);
  EXPECT_NEAR(static_cast<double>(conversation.context_tokens), static_cast<double>(1 + all), 1);
  EXPECT_LE(conversation.context_tokens, 8192u - 100) << "room for what goes wrong";
  EXPECT_EQ(early, conversation.questions.size() / 2);
  EXPECT_EQ(conversation.questions.front().place, kLongEarly);
  EXPECT_EQ(conversation.questions.back().place, kLongLate);
}

TEST(QuestionSetsTest, LongAsksForWhatWasStatedLongAgoInOrdersThatChange) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {kLongSet}});
  ASSERT_THAT(documents, SizeIs(1));
  const std::vector<Question>& questions = documents[0].conversations.at(0).questions;
  std::map<std::string, size_t> asked_at;
  std::set<std::string> pairs;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto [at, first] = asked_at.try_emplace(questions[i].prompt, i);
    // Belongs to the half of 64 facts stated longest ago.
    EXPECT_TRUE(first || i - at->second > 32) << i;
    at->second = i;
    if (i > 0) pairs.insert(questions[i - 1].prompt + questions[i].prompt);
  }
  // A fixed order would have as many pairs as facts.
  EXPECT_GT(pairs.size(), questions.size() / 2);
}

TEST(QuestionSetsTest, MoreSamplesThanALongSequenceHasTakeAnotherOne) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto documents = Make(dossiers, {.sets = {kLongSet}, .samples = 1000});
  ASSERT_THAT(documents, SizeIs(2));
  EXPECT_GE(CountBySet(documents).at(kLongSet), 1000u);
  EXPECT_NE(documents[0].name, documents[1].name);
  EXPECT_NE(documents[0].conversations.at(0).questions[0].reads,
            documents[1].conversations.at(0).questions[0].reads);
}

TEST(QuestionSetsTest, TheSameSeedAsksTheSame) {
  const std::vector<Dossier> dossiers = ThreeDossiers();
  const auto prompts = [&](uint64_t seed) {
    std::vector<std::string> all;
    for (const AskedDocument& document :
         Make(dossiers, {.sets = SetNames(), .samples = 20, .seed = seed})) {
      all.push_back(document.text);
      for (const Conversation& conversation : document.conversations) {
        for (const Question& question : conversation.questions) all.push_back(question.prompt);
      }
    }
    return all;
  };
  EXPECT_EQ(prompts(1), prompts(1));
  EXPECT_NE(prompts(1), prompts(2));
}

TEST(QuestionSetsTest, WhatCannotBeAskedIsRefused) {
  const std::vector<Dossier> none;
  EXPECT_EQ(MakeQuestionSets(none, {.sets = SetNames()}).status().code(),
            StatusCode::kInvalidArgument);
  const std::vector<Dossier> dossiers = ThreeDossiers();
  EXPECT_THAT(std::string(MakeQuestionSets(dossiers, {.sets = {"recal"}}).status().message()),
              HasSubstr("no question set 'recal'"));
  const std::vector<Dossier> bare = {
      TakeApart("notes.txt", "Nothing is stated. At all.", CountWords)};
  EXPECT_THAT(std::string(MakeQuestionSets(bare, {.sets = {"multi"}}).status().message()),
              HasSubstr("notes.txt has 1024 tokens in a row without a fact"));
  const std::vector<Dossier> few = {MakeDossier(36, 15, "Brown")};
  EXPECT_THAT(std::string(MakeQuestionSets(few, {.sets = {kLongSet}}).status().message()),
              HasSubstr("people who share no name with another one, and the set 'long' needs 64"));
}

}  // namespace
}  // namespace quire::bench
