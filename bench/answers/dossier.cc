// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/dossier.h"

#include <limits>
#include <utility>

namespace quire::bench {
namespace {

constexpr std::string_view kSeparators = " \n";

/// Removes and returns the first word of `text`, with the blank after it.
std::string_view TakeWord(std::string_view* text) {
  const size_t end = text->find(' ');
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return word;
}

/// Parses "[Then ]First Last has attribute value.", with or without a title.
std::optional<Fact> FactOf(std::string_view sentence) {
  const size_t line = sentence.rfind('\n');
  if (line != std::string_view::npos) sentence.remove_prefix(line);
  sentence.remove_prefix(std::min(sentence.find_first_not_of(kSeparators), sentence.size()));
  if (!sentence.ends_with('.')) return std::nullopt;
  sentence.remove_suffix(1);
  if (sentence.starts_with("Then ")) TakeWord(&sentence);
  std::string_view rest = sentence;
  TakeWord(&rest), TakeWord(&rest);
  if (TakeWord(&rest) != "has") return std::nullopt;
  TakeWord(&rest);
  if (rest.empty()) return std::nullopt;
  const std::string_view key = sentence.substr(0, sentence.size() - rest.size() - 1);
  return Fact{.key = std::string(key), .value = std::string(rest)};
}

}  // namespace

Dossier TakeApart(std::string name, std::string_view text, const CountTokens& count_tokens) {
  Dossier dossier{.name = std::move(name), .sentences = {}};
  const std::string all = "\n" + std::string(text);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('.', begin), all.size() - 1) + 1;
    Sentence sentence{.text = all.substr(begin, end - begin)};
    sentence.tokens = static_cast<uint32_t>(count_tokens(sentence.text));
    sentence.fact = FactOf(sentence.text);
    dossier.sentences.push_back(std::move(sentence));
    begin = end;
  }
  return dossier;
}

Window CutWindow(const Dossier& dossier, size_t first, uint32_t tokens) {
  Window window;
  const size_t count = dossier.sentences.size();
  for (size_t i = 0; i < count; ++i) {
    const Sentence& sentence = dossier.sentences[(first + i) % count];
    if (sentence.tokens > tokens - window.tokens) break;
    if (sentence.fact) window.facts.push_back({*sentence.fact, window.tokens, sentence.tokens});
    window.text += sentence.text;
    window.tokens += sentence.tokens;
    window.end = (first + i + 1) % count;
  }
  return window;
}

Window WholeDossier(const Dossier& dossier) {
  return CutWindow(dossier, 0, std::numeric_limits<uint32_t>::max());
}

std::string AsDocument(std::string_view text) {
  return std::string(text.substr(std::min(text.find_first_not_of(kSeparators), text.size())));
}

}  // namespace quire::bench
