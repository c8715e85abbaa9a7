// SPDX-License-Identifier: Apache-2.0
//
// The demo's input: documents and questions whose answers are known. The bundled ones lie beside
// the model; a user's directory brings its own questions.jsonl or gets recall questions made from
// its text. Pure functions over files; no Quire types.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_DEMO_CORPUS_H_
#define QUIRE_APPS_KIT_DOCUMENTS_DEMO_CORPUS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::cli {

struct DemoDocument {
  std::string name;  ///< File name, also the document's name in the registry.
  std::string text;
};

/// Correct when the generated text starts with `answer`.
struct DemoQuestion {
  size_t document = 0;  ///< Index into DemoCorpus::documents.
  std::string prompt;   ///< Appended to the document (or to the conversation about it).
  std::string answer;
};

struct DemoCorpus {
  std::vector<DemoDocument> documents;  ///< Ordered by name.
  std::vector<DemoQuestion> questions;  ///< Grouped by document, in order.
};

/// Reads every *.txt and *.md file of `directory` and its questions.jsonl (one object a line:
/// {"document", "question", "answer"}). Without that file, `questions_per_document` recall
/// questions are made from each text, 5 when it is unset. Errors name the file, the line and the
/// remedy; a number is refused where the file is.
StatusOr<DemoCorpus> LoadDemoCorpus(const std::string& directory,
                                    std::optional<size_t> questions_per_document = std::nullopt);

/// Questions about `documents`, one JSON object a line as above. Errors as LoadDemoCorpus.
StatusOr<std::vector<DemoQuestion>> ReadQuestions(const std::string& path,
                                                  const std::vector<DemoDocument>& documents);

/// Words before the last one that a sentence needs to become a recall question.
inline constexpr size_t kMinSentenceWords = 6;
/// Up to `count` questions of the kind "continue this". Each is the beginning of a sentence that
/// occurs once in `text`; the answer is its last word. Spread evenly over the text, deterministic.
std::vector<DemoQuestion> MakeRecallQuestions(std::string_view text, size_t count);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_DEMO_CORPUS_H_
