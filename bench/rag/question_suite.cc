// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/question_suite.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/kit/read_file.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

using Json = nlohmann::json;

/// Tasks, each behind those that its entries refer to.
constexpr std::array kTasks = {"alone", "refer", "chain", "conflict"};
constexpr char kAlone[] = "alone";
constexpr std::string_view kDocumentStart = "\nDocument:";
constexpr std::string_view kQuestionStart = "\nQuestion:";
constexpr size_t kEntryWords = 3;  ///< With the full stop.
/// Entries that the edges of a document have room for: those in its first 16 tokens and those in
/// its last 17.
constexpr size_t kHeadEntries = 3;
constexpr size_t kTailEntries = 5;
constexpr size_t kMostEntries = kHeadEntries + kTailEntries;

struct Entry {
  std::string name;
  std::string word;  ///< A value, or the name of another entry.
  std::string task;  ///< Empty: never asked for.
  size_t document = 0;
  std::string answer;
};

template <typename T>
void Shuffle(std::vector<T>* items, Random* random) {
  for (size_t i = items->size(); i > 1; --i) {
    std::swap((*items)[i - 1], (*items)[random->Below(i)]);
  }
}

class SetMaker {
 public:
  SetMaker(const SuiteWords& words, const SuiteOptions& options, Random* random)
      : words_(words), options_(options), random_(*random), in_document_(options.documents) {}

  DocumentSet Make() {
    DrawEntries();
    DocumentSet set;
    std::vector<std::vector<Entry>> of_document(options_.documents);
    for (const Entry& entry : entries_) of_document[entry.document].push_back(entry);
    for (std::vector<Entry>& entries : of_document) {
      Shuffle(&entries, &random_);
      set.documents.push_back(TextOf(entries));
    }
    set.questions = Questions();
    return set;
  }

 private:
  /// A document from `first` on, below `end`, that has room for an entry.
  std::optional<size_t> DrawDocument(size_t first, size_t end) {
    std::vector<size_t> fit;
    for (size_t i = first; i < end; ++i) {
      if (in_document_[i] < kMostEntries) fit.push_back(i);
    }
    if (fit.empty()) return std::nullopt;
    return fit[random_.Below(fit.size())];
  }
  const std::string& DrawValue() { return words_.values[random_.Below(words_.values.size())]; }

  void Add(Entry entry) {
    ++in_document_[entry.document];
    entries_.push_back(std::move(entry));
  }

  void DrawEntries() {
    std::vector<std::string> names = words_.names;
    Shuffle(&names, &random_);
    const std::vector<std::string> tasks = Tasks();
    const size_t count = size_t{options_.documents} * options_.entries;
    for (size_t i = 0; i < count && entries_.size() < count; ++i) {
      AddEntry(tasks[tasks.size() * i / count], names[i]);
    }
  }

  /// Those of the suite, in the order of kTasks.
  std::vector<std::string> Tasks() const {
    std::vector<std::string> tasks;
    for (const std::string& task : SuiteTasks()) {
      const bool wanted = std::ranges::find(options_.tasks, task) != options_.tasks.end();
      if (task == kAlone || (wanted && options_.suite != kAlone)) tasks.push_back(task);
    }
    return tasks;
  }

  void AddEntry(const std::string& task, const std::string& name) {
    const size_t documents = options_.documents;
    if (task == "conflict") return AddConflict(name);
    if (task == kAlone) {
      if (const auto at = DrawDocument(0, documents)) {
        const std::string& value = DrawValue();
        Add({.name = name, .word = value, .task = task, .document = *at, .answer = value});
      }
      return;
    }
    const std::optional<Entry> source = DrawSource(task == "refer" ? kAlone : "refer");
    if (!source) return;
    if (const auto at = DrawDocument(source->document + 1, documents)) {
      Add({.name = name,
           .word = source->name,
           .task = task,
           .document = *at,
           .answer = source->answer});
    }
  }

  void AddConflict(const std::string& name) {
    const auto last = DrawDocument(1, options_.documents);
    if (!last) return;
    const auto first = DrawDocument(0, *last);
    if (!first) return;
    const std::string& old = DrawValue();
    const std::string& value = DrawValue();
    if (old == value) return;
    Add({.name = name, .word = old, .task = "", .document = *first, .answer = ""});
    Add({.name = name, .word = value, .task = "conflict", .document = *last, .answer = value});
  }

  /// An entry of `task` that is not in the last document.
  std::optional<Entry> DrawSource(std::string_view task) {
    std::vector<size_t> fit;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.task == task && entry.document + 1 < options_.documents) fit.push_back(i);
    }
    if (fit.empty()) return std::nullopt;
    return entries_[fit[random_.Below(fit.size())]];
  }

  std::string TextOf(const std::vector<Entry>& entries) {
    std::string text(kDocumentStart);
    const size_t filler = options_.document_words - kEntryWords * entries.size();
    const std::vector<size_t> gaps = Gaps(entries.size(), filler);
    for (size_t i = 0; i < gaps.size(); ++i) {
      AppendFiller(gaps[i], &text);
      if (i < entries.size()) text += " " + entries[i].name + " " + entries[i].word + ".";
    }
    return text;
  }

  /// Words of filler before each entry and behind the last.
  std::vector<size_t> Gaps(size_t entries, size_t filler) {
    std::vector<size_t> gaps(entries + 1, 0);
    if (options_.suite == "edges") {
      gaps[std::min(kHeadEntries, entries / 2)] = filler;
      return gaps;
    }
    std::vector<size_t> cuts;
    for (size_t i = 0; i < entries; ++i) cuts.push_back(random_.Below(filler + 1));
    std::ranges::sort(cuts);
    cuts.push_back(filler);
    size_t before = 0;
    for (size_t i = 0; i < cuts.size(); ++i) gaps[i] = cuts[i] - std::exchange(before, cuts[i]);
    return gaps;
  }

  /// `count` tokens: words, and a full stop for the last.
  void AppendFiller(size_t count, std::string* text) {
    if (count < 2) return;
    for (size_t i = 0; i + 1 < count; ++i) {
      *text += " " + words_.filler[random_.Below(words_.filler.size())];
    }
    *text += ".";
  }

  std::vector<SuiteQuestion> Questions() {
    std::vector<SuiteQuestion> questions;
    const std::vector<std::string> tasks = Tasks();
    const size_t most = std::max<size_t>(1, options_.per_set / tasks.size());
    for (const std::string& task : tasks) {
      std::vector<SuiteQuestion> of_task;
      for (const Entry& entry : entries_) {
        if (entry.task != task) continue;
        of_task.push_back({.task = entry.task,
                           .prompt = std::string(kQuestionStart) + " " + entry.name,
                           .answer = " " + entry.answer});
      }
      Shuffle(&of_task, &random_);
      of_task.resize(std::min(of_task.size(), most));
      questions.insert(questions.end(), of_task.begin(), of_task.end());
    }
    return questions;
  }

  const SuiteWords& words_;
  const SuiteOptions& options_;
  Random& random_;
  std::vector<Entry> entries_;
  std::vector<size_t> in_document_;  ///< Entries of each document so far.
};

StatusOr<std::vector<std::string>> WordList(const Json& json, const std::string& key,
                                            const std::string& path) {
  const auto list = json.find(key);
  if (list == json.end() || !list->is_array() || list->empty()) {
    return InvalidArgument(path, ": '", key, "' is no list of words");
  }
  std::vector<std::string> words;
  for (const Json& word : *list) {
    if (!word.is_string()) return InvalidArgument(path, ": '", key, "' has an entry without text");
    words.push_back(word.get<std::string>());
  }
  return words;
}

}  // namespace

StatusOr<SuiteWords> ReadSuiteWords(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, cli::ReadTextFile(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument(path, " is no JSON object");
  SuiteWords words;
  QUIRE_ASSIGN_OR_RETURN(words.names, WordList(json, "names", path));
  QUIRE_ASSIGN_OR_RETURN(words.values, WordList(json, "values", path));
  QUIRE_ASSIGN_OR_RETURN(words.filler, WordList(json, "filler", path));
  return words;
}

std::vector<std::string> SuiteTasks() { return {kTasks.begin(), kTasks.end()}; }

std::vector<std::string> SuiteNames() { return {"anywhere", "edges", "alone"}; }

StatusOr<std::vector<DocumentSet>> MakeQuestionSuite(const SuiteWords& words,
                                                     const SuiteOptions& options) {
  const std::vector<std::string> suites = SuiteNames();
  if (std::ranges::find(suites, options.suite) == suites.end()) {
    return InvalidArgument("no suite '", options.suite, "'; there are anywhere, edges and alone");
  }
  if (options.documents < 3) return InvalidArgument("a set has three documents or more");
  if (uint64_t{options.documents} * options.entries > words.names.size()) {
    return InvalidArgument("a set of ", options.documents, " documents has ",
                           options.documents * options.entries, " entries, and the model knows ",
                           words.names.size(), " names");
  }
  const size_t least_words = 2 * kEntryWords * kMostEntries;
  if (options.entries >= kMostEntries || options.document_words < least_words) {
    return InvalidArgument("a document has ", kMostEntries - 1, " entries at most, and ",
                           least_words, " words at least");
  }
  SeededRandom random(options.seed);
  std::vector<DocumentSet> sets;
  for (uint64_t asked = 0; asked < options.questions; asked += sets.back().questions.size()) {
    sets.push_back(SetMaker(words, options, &random).Make());
  }
  return sets;
}

}  // namespace quire::bench
