// SPDX-License-Identifier: Apache-2.0
//
// QuestionSets: what `quire bench answers` asks, made from dossiers. Pure functions: the same
// dossiers, options and seed give the same questions everywhere.
//
//   recall  whole dossiers; every question has a sequence of its own
//   needle  windows of four lengths that begin somewhere in a dossier; a question for the fact
//           nearest to each of five depths
//   multi   whole dossiers; all questions of one in one sequence, each far from the one before
//   reads   a document, and half as much text again that arrives in the sequence itself, piece by
//           piece; questions about both in between, each far from the one before
//   long    a short document, a list of facts that arrives in the sequence itself, then its facts
//           asked for again and again in other orders, each one of the half that was stated longest
//           ago: 4096 tokens and more are generated, every line's answer and the beginning of the
//           next line. Only pages that the sequence has completed state what is asked for
#ifndef QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_
#define QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/answers/dossier.h"
#include "quire/status.h"

namespace quire::bench {

inline constexpr const char* kLongSet = "long";
/// Places of its questions.
inline constexpr const char* kLongEarly = "long, first half";
inline constexpr const char* kLongLate = "long, second half";

struct Question {
  std::string reads;   ///< Text that arrives before it; mostly empty.
  std::string prompt;  ///< Appended after that.
  std::string answer;  ///< What is to be generated.
  std::string place;   ///< "length 1024, depth 0.3"; empty where that is not varied.
};

/// Questions in one sequence, one after the other.
struct Conversation {
  std::string set;
  /// Of the document and everything read, in `long` of all lines too: what budgets are shares of.
  uint64_t context_tokens = 0;
  std::vector<Question> questions;
  /// What all prompts begin with and the model is to write itself after each answer, where nothing
  /// is read in between. Empty: all of every prompt is appended.
  std::string line_start = {};
};

struct AskedDocument {
  std::string name;  ///< Every document has another one.
  std::string text;
  std::vector<Conversation> conversations;
};

struct SetOptions {
  std::vector<std::string> sets;  ///< Of SetNames().
  uint32_t samples = 200;         ///< Questions of each set, at least, while there are dossiers.
  uint64_t seed = 1;
};

std::vector<std::string> SetNames();

/// The documents that all the sets need, each with the conversations over it.
/// INVALID_ARGUMENT for a set that there is none of, and for dossiers without enough facts, or
/// people, for a set.
StatusOr<std::vector<AskedDocument>> MakeQuestionSets(std::span<const Dossier> dossiers,
                                                      const SetOptions& options);

uint64_t CountQuestions(std::span<const AskedDocument> documents);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_
