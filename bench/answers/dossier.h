// SPDX-License-Identifier: Apache-2.0
//
// Dossier: a bundled document taken apart into sentences, some of which state a fact ("Alice Brown
// has home Harrowgate."), so that windows of it can be cut and questions asked about them. Pure
// functions of text; the caller says how many tokens a text has.
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

/// What every question begins with, in the wording that the bundled questions have.
inline constexpr std::string_view kLineStart = "\nQuestion:";

struct Fact {
  std::string key;    ///< "Alice Brown has home": no other fact of a dossier has the same.
  std::string value;  ///< "Harrowgate"

  /// What asks for it, and what is to be generated.
  std::string Prompt() const { return std::string(kLineStart) + " " + key; }
  std::string Answer() const { return " " + value + "."; }
};

/// Tokens of a text that follows another one.
using CountTokens = std::function<size_t(std::string_view)>;

struct Sentence {
  std::string text;  ///< With what separates it from the one before: a blank or a line break.
  uint32_t tokens = 0;
  std::optional<Fact> fact = {};
};

struct Dossier {
  std::string name;
  std::vector<Sentence> sentences;
};

/// Takes `text` apart. The texts of all sentences together are a line break and `text`.
Dossier TakeApart(std::string name, std::string_view text, const CountTokens& count_tokens);

/// A fact, how many tokens of the window stand before its sentence, and how many that has.
struct PlacedFact {
  Fact fact;
  uint32_t position = 0;
  uint32_t tokens = 0;
};

/// Sentences of a dossier in a row; after the last one comes the first.
struct Window {
  std::string text;  ///< Begins with the separator of its first sentence.
  uint32_t tokens = 0;
  size_t end = 0;  ///< Index of the sentence after it.
  std::vector<PlacedFact> facts;
};

/// As many whole sentences from `first` on as have `tokens` tokens together, each once at most.
Window CutWindow(const Dossier& dossier, size_t first, uint32_t tokens);
/// The whole dossier from its first sentence on.
Window WholeDossier(const Dossier& dossier);

/// `text` without the blanks and line breaks that it begins with: how a document begins.
std::string AsDocument(std::string_view text);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_DOSSIER_H_
