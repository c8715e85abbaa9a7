// SPDX-License-Identifier: Apache-2.0
//
// QuestionSets: the questions of `quire bench answers`, made from dossiers. Pure functions: the
// same dossiers, options and seed give the same questions everywhere.
//
//   recall  whole dossiers; every question has a sequence of its own
//   needle  windows of four lengths that begin somewhere in a dossier; a question for the fact
//           nearest to each of five depths
//   multi   whole dossiers; all questions of one in one sequence, each far from the one before
//   reads   a document, and half as much text again that arrives in the sequence itself, piece by
//           piece; questions about both in between, each far from the one before
//   long    a short document, a list of facts that arrives in the sequence itself, then repeated
//           questions for its facts in other orders, each from the half that was stated longest
//           ago. The model generates 4096 tokens and more: every line's answer and the beginning
//           of the next line. Only pages that the sequence has completed state the answers
#ifndef QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_
#define QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/answers/dossier.h"
#include "common/base/status.h"

namespace quire::bench {

inline constexpr const char* kLongSet = "long";
/// Places of the questions in "long".
inline constexpr const char* kLongEarly = "long, first half";
inline constexpr const char* kLongLate = "long, second half";

struct Question {
  std::string reads;   ///< Text that arrives before the question; usually empty.
  std::string prompt;  ///< Appended after `reads`.
  std::string answer;  ///< Expected continuation.
  std::string place;   ///< "length 1024, depth 0.3"; empty if not varied.
};

/// Consecutive questions in one sequence.
struct Conversation {
  std::string set;
  /// Tokens of the document and of all text read, in "long" also of all lines. Budgets are shares
  /// of this.
  uint64_t context_tokens = 0;
  std::vector<Question> questions;
  /// The common beginning of all prompts, which the model writes itself after each answer if
  /// nothing is read in between. If empty, the whole of every prompt is appended.
  std::string line_start = {};
};

struct AskedDocument {
  std::string name;  ///< Unique among documents.
  std::string text;
  std::vector<Conversation> conversations;
};

struct SetOptions {
  std::vector<std::string> sets;  ///< Names out of SetNames().
  uint32_t samples = 200;         ///< Fewest questions of each set, as far as the dossiers suffice.
  uint64_t seed = 1;
};

std::vector<std::string> SetNames();

/// The documents of all the sets, each with its conversations. INVALID_ARGUMENT for an unknown set,
/// and for dossiers with too few facts, or people, for a set.
StatusOr<std::vector<AskedDocument>> MakeQuestionSets(std::span<const Dossier> dossiers,
                                                      const SetOptions& options);

uint64_t CountQuestions(std::span<const AskedDocument> documents);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_QUESTION_SETS_H_
