// SPDX-License-Identifier: Apache-2.0
//
// QuestionSuite: sets of documents with questions over them. They are made from the words of a
// model that was trained on such sets (tools/train/across.py has the same grammar). Pure functions:
// the same words and options give the same suite everywhere.
//
// An entry is two words and a full stop. "Alice Harrowgate." gives Alice a value. "Bruno Alice."
// gives Bruno the value that Alice has in an earlier document. The tasks, by the entry asked for:
//
//   alone     a value; no other document matters
//   refer     a name whose value stands in an earlier document
//   chain     a name whose entry, in an earlier document, is a reference again
//   conflict  a value in one document, and another in a later one, which holds
#ifndef QUIRE_BENCH_RAG_QUESTION_SUITE_H_
#define QUIRE_BENCH_RAG_QUESTION_SUITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::bench {

/// Words of a model, each one token behind a blank. No word is in two lists.
struct SuiteWords {
  std::vector<std::string> names;
  std::vector<std::string> values;
  std::vector<std::string> filler;
};

/// Reads {"names": [...], "values": [...], "filler": [...]}. Errors name the file.
StatusOr<SuiteWords> ReadSuiteWords(const std::string& path);

struct SuiteQuestion {
  std::string task;
  std::string prompt;
  std::string answer;
};

struct DocumentSet {
  std::vector<std::string> documents;  ///< In the order of the prompt.
  std::vector<SuiteQuestion> questions;
};

/// "alone", "refer", "chain", "conflict".
std::vector<std::string> SuiteTasks();

struct SuiteOptions {
  /// "edges": entries stand in the first words and the last words of their documents.
  /// "anywhere": entries stand anywhere. "alone": likewise, and no document needs another.
  std::string suite = "edges";
  /// Names from SuiteTasks(). "alone" is always among them, and "chain" needs "refer".
  std::vector<std::string> tasks = SuiteTasks();
  uint32_t documents = 10;        ///< Documents of a set.
  uint32_t document_words = 340;  ///< About as many tokens.
  uint32_t entries = 5;           ///< Entries of a document, on average.
  uint32_t questions = 200;       ///< Questions of all sets, at least; as many of each task.
  uint32_t per_set = 20;          ///< Questions of a set, at most.
  uint64_t seed = 1;
};

std::vector<std::string> SuiteNames();

/// INVALID_ARGUMENT for an unknown suite, fewer than three documents, and for more entries than
/// there are names or than documents have room for.
StatusOr<std::vector<DocumentSet>> MakeQuestionSuite(const SuiteWords& words,
                                                     const SuiteOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_QUESTION_SUITE_H_
