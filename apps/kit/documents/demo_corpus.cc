// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/demo_corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/kit/read_file.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kQuestionsPerDocument = 5;

StatusOr<std::vector<DemoDocument>> ReadDocuments(const std::string& directory) {
  std::error_code error;
  std::vector<DemoDocument> documents;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || (path.extension() != ".txt" && path.extension() != ".md"))
      continue;
    QUIRE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
    if (!text.empty()) documents.push_back({path.filename().string(), std::move(text)});
  }
  if (error) return NotFound("cannot list ", directory, ": ", error.message());
  if (documents.empty()) return NotFound(directory, " has no *.txt or *.md file with text in it");
  std::ranges::sort(documents, {}, &DemoDocument::name);
  return documents;
}

std::vector<std::string_view> SplitSentences(std::string_view text) {
  std::vector<std::string_view> sentences;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.' && text[i] != '!' && text[i] != '?' && text[i] != '\n') continue;
    if (i > begin) sentences.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return sentences;
}

bool OccursOnce(std::string_view text, std::string_view part) {
  const size_t first = text.find(part);
  return first != std::string_view::npos && text.find(part, first + 1) == std::string_view::npos;
}

}  // namespace

std::vector<DemoQuestion> MakeRecallQuestions(std::string_view text, size_t count) {
  std::vector<DemoQuestion> all;
  for (std::string_view sentence : SplitSentences(text)) {
    while (!sentence.empty() && sentence.front() == ' ') sentence.remove_prefix(1);
    const size_t last_space = sentence.rfind(' ');
    if (last_space == std::string_view::npos || last_space + 1 == sentence.size()) continue;
    const std::string_view beginning = sentence.substr(0, last_space);
    if (std::ranges::count(beginning, ' ') + 1 < static_cast<ptrdiff_t>(kMinSentenceWords))
      continue;
    if (!OccursOnce(text, beginning)) continue;
    all.push_back(
        {0, std::string("\n").append(beginning), std::string(sentence.substr(last_space))});
  }
  std::vector<DemoQuestion> chosen;
  const size_t n = std::min(count, all.size());
  for (size_t i = 0; i < n; ++i) chosen.push_back(all[i * all.size() / n]);
  return chosen;
}

StatusOr<std::vector<DemoQuestion>> ReadQuestions(const std::string& path,
                                                  const std::vector<DemoDocument>& documents) {
  std::ifstream file(path);
  if (!file) return NotFound("no questions at ", path, "; it goes with the bundled documents");
  std::vector<DemoQuestion> questions;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    for (const char* field : {"document", "question", "answer"}) {
      if (!object.is_object() || !object.contains(field) || !object[field].is_string()) {
        return InvalidArgument(path, ":", number, ": not an object with the string '", field, "'");
      }
    }
    const auto name = object["document"].get<std::string>();
    const auto found = std::ranges::find(documents, name, &DemoDocument::name);
    if (found == documents.end()) {
      return NotFound(path, ":", number, ": document '", name, "' is not beside it");
    }
    questions.push_back({static_cast<size_t>(found - documents.begin()),
                         object["question"].get<std::string>(),
                         object["answer"].get<std::string>()});
  }
  std::ranges::stable_sort(questions, {}, &DemoQuestion::document);
  return questions;
}

StatusOr<DemoCorpus> LoadDemoCorpus(const std::string& directory,
                                    std::optional<size_t> questions_per_document) {
  DemoCorpus corpus;
  QUIRE_ASSIGN_OR_RETURN(corpus.documents, ReadDocuments(directory));
  const fs::path questions = fs::path(directory) / "questions.jsonl";
  if (fs::exists(questions)) {
    if (questions_per_document) {
      return InvalidArgument(
          "--questions-per-document is for texts without questions of their own, "
          "and there is ",
          questions.string(), ": leave one of the two away");
    }
    QUIRE_ASSIGN_OR_RETURN(corpus.questions, ReadQuestions(questions.string(), corpus.documents));
    if (corpus.questions.empty()) return InvalidArgument(questions.string(), " has no question");
    return corpus;
  }
  for (size_t i = 0; i < corpus.documents.size(); ++i) {
    for (DemoQuestion& question : MakeRecallQuestions(
             corpus.documents[i].text, questions_per_document.value_or(kQuestionsPerDocument))) {
      question.document = i;
      corpus.questions.push_back(std::move(question));
    }
  }
  if (corpus.questions.empty()) {
    return InvalidArgument("no text of ", directory, " has a sentence of more than ",
                           kMinSentenceWords,
                           " words that begins as no other does, to ask for its last word; put a "
                           "questions.jsonl beside the texts");
  }
  return corpus;
}

}  // namespace quire::cli
