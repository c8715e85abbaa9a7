// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/question_sets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "common/base/random.h"

namespace quire::bench {
namespace {

constexpr size_t kAskedAlone = 9;  ///< Questions about a dossier that have a sequence of their own.
constexpr uint32_t kNeedleLengths[] = {1024, 2048, 3072, 4096};
constexpr int kNeedleTenths[] = {1, 3, 5, 7, 9};  ///< Depths, in tenths of the length.
constexpr uint32_t kReadsDocument = 2048;
constexpr uint32_t kReadsPart = 128;
constexpr uint32_t kReadsParts = 8;
constexpr uint32_t kQuestionsPerPart = 3;
// Less than the 8192 positions of the bundled model, to leave room for wrong line starts.
constexpr uint32_t kLongTokens = 8000;
constexpr uint32_t kLongDocument = 256;
// With more facts, or with people who share a name, the model errs even with every page resident.
constexpr size_t kLongFacts = 64;
constexpr uint32_t kBosTokens = 1;
constexpr uint32_t kLineStartTokens = 3;

using Documents = std::vector<AskedDocument>;

uint32_t DivideUp(uint32_t a, size_t b) {
  return static_cast<uint32_t>((a + b - 1) / std::max<size_t>(b, 1));
}

Question Ask(const Fact& fact) {
  return {.reads = {}, .prompt = fact.Prompt(), .answer = fact.Answer(), .place = {}};
}

/// Removes and returns one of `facts` far from `position`: any of the farther half.
PlacedFact TakeFar(std::vector<PlacedFact>* facts, uint32_t position, Random* random) {
  const auto distance = [&](const PlacedFact& placed) {
    return placed.position > position ? placed.position - position : position - placed.position;
  };
  std::ranges::stable_sort(*facts, std::greater<>(), distance);
  const auto at = facts->begin() + static_cast<ptrdiff_t>(random->Below((facts->size() + 1) / 2));
  PlacedFact taken = std::move(*at);
  facts->erase(at);
  return taken;
}

/// First and last name of the person in the fact.
std::array<std::string, 2> NamesOf(const Fact& fact) {
  const size_t first = fact.key.find(' '), last = fact.key.find(' ', first + 1);
  return {fact.key.substr(0, first), fact.key.substr(first + 1, last - first - 1)};
}

/// True if the sentence has nothing but its fact, and does not begin a line.
bool IsPlain(const Sentence& sentence) {
  return sentence.fact && sentence.text == " " + sentence.fact->key + sentence.fact->Answer();
}

class SetMaker {
 public:
  SetMaker(std::span<const Dossier> dossiers, const SetOptions& options)
      : dossiers_(dossiers), options_(options) {
    // The first documents are the dossiers themselves.
    for (const Dossier& dossier : dossiers) {
      whole_.push_back(WholeDossier(dossier));
      documents_.push_back({dossier.name, AsDocument(whole_.back().text), {}});
      starts_.push_back({0});
    }
  }

  Status Recall() {
    uint32_t asked = 0;
    for (size_t i = 0; i < whole_.size() && asked < options_.samples; ++i) {
      const std::vector<PlacedFact>& facts = whole_[i].facts;
      const size_t count = std::min(kAskedAlone, facts.size());
      for (size_t k = 0; k < count; ++k) {
        documents_[i].conversations.push_back(
            Alone("recall", whole_[i], Ask(facts[k * facts.size() / count].fact)));
      }
      asked += static_cast<uint32_t>(count);
    }
    return OkStatus();
  }

  Status Needle() {
    SeededRandom random(options_.seed);
    const uint32_t wanted = DivideUp(options_.samples, std::size(kNeedleLengths));
    for (const uint32_t length : kNeedleLengths) {
      // A window may have fewer facts than there are depths.
      uint32_t asked = 0;
      for (uint32_t i = 0; asked < wanted; ++i) {
        const size_t dossier = i % dossiers_.size();
        documents_.push_back(NeedleDocument(dossier, NewStart(dossier, &random), length, i));
        asked += static_cast<uint32_t>(documents_.back().conversations[0].questions.size());
      }
    }
    return OkStatus();
  }

  Status Multi() {
    SeededRandom random(options_.seed + 1);
    uint32_t asked = 0;
    for (size_t i = 0; i < whole_.size() && asked < options_.samples; ++i) {
      Conversation conversation = Empty("multi", whole_[i].tokens);
      std::vector<PlacedFact> facts = whole_[i].facts;
      for (uint32_t position = 0; !facts.empty();) {
        const PlacedFact next = TakeFar(&facts, position, &random);
        conversation.questions.push_back(Ask(next.fact));
        position = next.position;
      }
      asked += static_cast<uint32_t>(conversation.questions.size());
      documents_[i].conversations.push_back(std::move(conversation));
    }
    return OkStatus();
  }

  Status Reads() {
    SeededRandom random(options_.seed + 2);
    uint32_t asked = 0;
    for (uint32_t i = 0; asked < options_.samples; ++i) {
      const size_t dossier = i % dossiers_.size();
      documents_.push_back(ReadsDocument(dossier, NewStart(dossier, &random), i, &random));
      asked += static_cast<uint32_t>(documents_.back().conversations[0].questions.size());
    }
    return OkStatus();
  }

  Status Long() {
    SeededRandom random(options_.seed + 3);
    uint32_t asked = 0;
    for (uint32_t i = 0; asked < options_.samples; ++i) {
      const size_t dossier = i % dossiers_.size();
      QUIRE_ASSIGN_OR_RETURN(AskedDocument document,
                             LongDocument(dossier, NewStart(dossier, &random), i, &random));
      asked += static_cast<uint32_t>(document.conversations[0].questions.size());
      documents_.push_back(std::move(document));
    }
    return OkStatus();
  }

  /// Returns the documents that have questions.
  Documents Take() {
    std::erase_if(documents_,
                  [](const AskedDocument& document) { return document.conversations.empty(); });
    return std::move(documents_);
  }

 private:
  static Conversation Empty(const char* set, uint32_t text_tokens) {
    return {.set = set, .context_tokens = kBosTokens + text_tokens, .questions = {}};
  }
  static Conversation Alone(const char* set, const Window& window, Question question) {
    Conversation conversation = Empty(set, window.tokens);
    conversation.questions.push_back(std::move(question));
    return conversation;
  }

  /// Chooses a sentence of a dossier that no document begins with, so that no document is a prefix
  /// of another. Any sentence if there is no such one.
  size_t NewStart(size_t dossier, Random* random) {
    std::set<size_t>& starts = starts_[dossier];
    const size_t sentences = dossiers_[dossier].sentences.size();
    size_t start = random->Below(sentences);
    while (starts.size() < sentences && starts.contains(start)) start = (start + 1) % sentences;
    starts.insert(start);
    return start;
  }

  AskedDocument NeedleDocument(size_t from, size_t start, uint32_t length, uint32_t number) const {
    const Dossier& dossier = dossiers_[from];
    const Window window = CutWindow(dossier, start, length);
    AskedDocument document{.name = "needle-" + std::to_string(length) + "-" +
                                   std::to_string(number) + "-" + dossier.name,
                           .text = AsDocument(window.text),
                           .conversations = {}};
    Conversation conversation = Empty("needle", window.tokens);
    std::vector<PlacedFact> facts = window.facts;
    for (const int tenths : kNeedleTenths) {
      if (facts.empty()) break;
      const double wanted = window.tokens * tenths / 10.0;
      const auto nearest = std::ranges::min_element(
          facts, {}, [&](const PlacedFact& fact) { return std::abs(fact.position - wanted); });
      Question question = Ask(nearest->fact);
      question.place = "length " + std::to_string(length) + ", depth 0." + std::to_string(tenths);
      conversation.questions.push_back(std::move(question));
      facts.erase(nearest);
    }
    document.conversations.push_back(std::move(conversation));
    return document;
  }

  AskedDocument ReadsDocument(size_t from, size_t first, uint32_t number, Random* random) const {
    const Dossier& dossier = dossiers_[from];
    const Window start = CutWindow(dossier, first, kReadsDocument);
    AskedDocument document{.name = "reads-" + std::to_string(number) + "-" + dossier.name,
                           .text = AsDocument(start.text),
                           .conversations = {}};
    Conversation conversation = Empty("reads", start.tokens);
    std::vector<PlacedFact> told = start.facts;
    uint32_t tokens = start.tokens, position = tokens;
    size_t next = start.end;
    std::string reads;
    for (uint32_t part = 0; part < kReadsParts; ++part) {
      const Window read = CutWindow(dossier, next, kReadsPart);
      next = read.end;
      reads += read.text;
      for (uint32_t i = 0; i < kQuestionsPerPart && !told.empty(); ++i) {
        const PlacedFact fact = TakeFar(&told, position, random);
        Question question = Ask(fact.fact);
        question.reads = std::exchange(reads, {});
        conversation.questions.push_back(std::move(question));
        position = fact.position;
      }
      // Facts just read are asked for only after the next part has been read.
      for (PlacedFact fact : read.facts) {
        fact.position += tokens;
        told.push_back(std::move(fact));
      }
      tokens += read.tokens;
      conversation.context_tokens += read.tokens;
    }
    document.conversations.push_back(std::move(conversation));
    return document;
  }

  StatusOr<AskedDocument> LongDocument(size_t from, size_t first, uint32_t number,
                                       Random* random) const {
    const Dossier& dossier = dossiers_[from];
    const Window start = CutWindow(dossier, first, kLongDocument);
    AskedDocument document{.name = "long-" + std::to_string(number) + "-" + dossier.name,
                           .text = AsDocument(start.text),
                           .conversations = {}};
    QUIRE_ASSIGN_OR_RETURN(const Window list, ListOfStrangers(start, random));
    std::vector<PlacedFact> told = list.facts;
    uint32_t tokens = start.tokens + list.tokens;
    for (PlacedFact& fact : told) fact.position += start.tokens;
    std::vector<Question> questions;
    while (tokens < kLongTokens) {
      PlacedFact fact = TakeFar(&told, tokens, random);
      questions.push_back(Ask(fact.fact));
      fact.position = tokens;
      tokens += kLineStartTokens + fact.tokens;
      told.push_back(std::move(fact));
    }
    questions.front().reads = list.text;
    for (size_t i = 0; i < questions.size(); ++i) {
      questions[i].place = i < questions.size() / 2 ? kLongEarly : kLongLate;
    }
    document.conversations.push_back({.set = kLongSet,
                                      .context_tokens = kBosTokens + tokens,
                                      .questions = std::move(questions),
                                      .line_start = std::string(kLineStart)});
    return document;
  }

  /// A window of facts of all dossiers, in random order, about people who share no name with each
  /// other or with people in `start`.
  StatusOr<Window> ListOfStrangers(const Window& start, Random* random) const {
    std::vector<const Sentence*> left;
    for (const Dossier& dossier : dossiers_) {
      for (const Sentence& sentence : dossier.sentences) {
        if (IsPlain(sentence)) left.push_back(&sentence);
      }
    }
    std::set<std::string> names;
    for (const PlacedFact& known : start.facts) {
      for (std::string& name : NamesOf(known.fact)) names.insert(std::move(name));
    }
    Window list;
    while (list.facts.size() < kLongFacts && !left.empty()) {
      std::swap(left[random->Below(left.size())], left.back());
      const Sentence& sentence = *left.back();
      left.pop_back();
      const auto of_it = NamesOf(*sentence.fact);
      if (names.contains(of_it[0]) || names.contains(of_it[1])) continue;
      names.insert(of_it.begin(), of_it.end());
      list.facts.push_back({*sentence.fact, list.tokens, sentence.tokens});
      list.text += sentence.text;
      list.tokens += sentence.tokens;
    }
    if (list.facts.size() == kLongFacts) return list;
    return InvalidArgument("the documents state facts about ", list.facts.size(),
                           " people who share no name with another one, and the set '", kLongSet,
                           "' needs ", kLongFacts,
                           "; use the bundled documents, or leave the set out");
  }

  const std::span<const Dossier> dossiers_;
  const SetOptions& options_;
  std::vector<Window> whole_;             ///< By dossier.
  std::vector<std::set<size_t>> starts_;  ///< By dossier: sentences that documents begin with.
  Documents documents_;
};

struct NamedSet {
  const char* name;
  Status (SetMaker::*make)();
};
constexpr NamedSet kSets[] = {{"recall", &SetMaker::Recall},
                              {"needle", &SetMaker::Needle},
                              {"multi", &SetMaker::Multi},
                              {"reads", &SetMaker::Reads},
                              {kLongSet, &SetMaker::Long}};

/// Windows of the shortest length need a fact.
Status CheckDossiers(std::span<const Dossier> dossiers) {
  if (dossiers.empty()) return InvalidArgument("there are no documents to ask about");
  for (const Dossier& dossier : dossiers) {
    for (size_t first = 0; first < dossier.sentences.size(); ++first) {
      if (!CutWindow(dossier, first, kNeedleLengths[0]).facts.empty()) continue;
      return InvalidArgument(dossier.name, " has ", kNeedleLengths[0],
                             " tokens in a row without a fact ('Alice Brown has home Harrowgate.');"
                             " use the bundled documents, or some that are made as they are");
    }
  }
  return OkStatus();
}

}  // namespace

std::vector<std::string> SetNames() {
  std::vector<std::string> names;
  for (const NamedSet& set : kSets) names.emplace_back(set.name);
  return names;
}

StatusOr<std::vector<AskedDocument>> MakeQuestionSets(std::span<const Dossier> dossiers,
                                                      const SetOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckDossiers(dossiers));
  SetMaker maker(dossiers, options);
  for (const std::string& name : options.sets) {
    const auto* const set = std::ranges::find(kSets, name, &NamedSet::name);
    if (set == std::end(kSets)) return InvalidArgument("there is no question set '", name, "'");
    QUIRE_RETURN_IF_ERROR((maker.*set->make)());
  }
  return maker.Take();
}

uint64_t CountQuestions(std::span<const AskedDocument> documents) {
  uint64_t count = 0;
  for (const AskedDocument& document : documents) {
    for (const Conversation& conversation : document.conversations) {
      count += conversation.questions.size();
    }
  }
  return count;
}

}  // namespace quire::bench
