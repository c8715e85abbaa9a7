// SPDX-License-Identifier: Apache-2.0
//
// Dossier: a bundled document divided into sentences. Some sentences state a fact ("Alice Brown has
// home Harrowgate."). Windows can be cut from a dossier and questions asked about them. Pure
// functions of text; the caller provides the token count of a text.
#ifndef QUIRE_BENCH_ANSWERS_DOSSIER_H_
#define QUIRE_BENCH_ANSWERS_DOSSIER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::bench {

/// The beginning of every question, in the wording of the bundled questions.
inline constexpr std::string_view kLineStart = "\nQuestion:";

struct Fact {
  std::string key;    ///< "Alice Brown has home"; unique within a dossier.
  std::string value;  ///< "Harrowgate"

  /// The prompt that asks for the fact.
  std::string Prompt() const { return std::string(kLineStart) + " " + key; }
  std::string Answer() const { return " " + value + "."; }
};

/// Counts the tokens of a text that follows another one.
using CountTokens = std::function<size_t(std::string_view)>;

struct Sentence {
  std::string text;  ///< With the separator from the sentence before: a blank or a line break.
  uint32_t tokens = 0;
  std::optional<Fact> fact = {};
};

struct Dossier {
  std::string name;
  std::vector<Sentence> sentences;
};

/// Divides `text` into sentences. The texts of all sentences together are a line break and `text`.
Dossier TakeApart(std::string name, std::string_view text, const CountTokens& count_tokens);

/// A fact, the number of window tokens before its sentence, and the length of the sentence in
/// tokens.
struct PlacedFact {
  Fact fact;
  uint32_t position = 0;
  uint32_t tokens = 0;
};

/// Consecutive sentences of a dossier, wrapping around at its end.
struct Window {
  std::string text;  ///< Begins with the separator of its first sentence.
  uint32_t tokens = 0;
  size_t end = 0;  ///< Index of the next sentence after the window.
  std::vector<PlacedFact> facts;
};

/// The whole sentences from `first` on that fit `tokens` tokens, each at most once.
Window CutWindow(const Dossier& dossier, size_t first, uint32_t tokens);
/// The whole dossier from its first sentence on.
Window WholeDossier(const Dossier& dossier);

/// Makes a document of `text` by removing leading blanks and line breaks.
std::string AsDocument(std::string_view text);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_DOSSIER_H_
