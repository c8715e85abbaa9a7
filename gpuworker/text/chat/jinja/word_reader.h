// SPDX-License-Identifier: Apache-2.0
//
// WordReader: the words of a template, read one by one. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_WORD_READER_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_WORD_READER_H_

#include <string_view>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "gpuworker/text/chat/jinja/lexer.h"
#include "quire/status.h"

namespace quire::worker::jinja {

class WordReader {
 public:
  /// Words of Lex(), the last of which is kEnd.
  explicit WordReader(std::vector<Word> words) : words_(std::move(words)) {}

  const Word& peek() const { return words_[at_]; }
  Place place() const { return peek().place; }
  /// The next word, which is taken unless it is kEnd.
  Word Take() { return words_[peek().kind == WordKind::kEnd ? at_ : at_++]; }

  bool Is(WordKind kind, std::string_view text = {}) const { return IsAt(at_, kind, text); }
  /// True for the word behind the next one.
  bool IsSecond(WordKind kind, std::string_view text) const { return IsAt(at_ + 1, kind, text); }
  /// Takes the word when it is that one.
  bool Accept(WordKind kind, std::string_view text = {}) {
    if (!Is(kind, text)) return false;
    Take();
    return true;
  }
  bool AcceptSign(std::string_view sign) { return Accept(WordKind::kSign, sign); }
  bool AcceptName(std::string_view name) { return Accept(WordKind::kName, name); }

  /// INVALID_ARGUMENT for another word.
  Status ExpectSign(std::string_view sign) {
    return AcceptSign(sign) ? OkStatus() : Missing("'" + std::string(sign) + "'");
  }
  Status ExpectEndOf(WordKind end) {
    return Accept(end) ? OkStatus() : Missing("the end of the tag");
  }
  /// The next word, which must be a name. `what` it names is for the error.
  StatusOr<std::string> ExpectName(std::string_view what) {
    if (!Is(WordKind::kName)) return Missing(what);
    return Take().text;
  }
  /// INVALID_ARGUMENT: "line 3, column 7: <what> is missing before 'word'".
  Status Missing(std::string_view what) const {
    if (peek().kind == WordKind::kEnd)
      return ErrorAt(place(), what, " is missing at the end of the template");
    return ErrorAt(place(), what, " is missing before '", CutUtf8(peek().text, 40), "'");
  }

 private:
  bool IsAt(size_t at, WordKind kind, std::string_view text) const {
    if (at >= words_.size() || words_[at].kind != kind) return false;
    return text.empty() || words_[at].text == text;
  }

  std::vector<Word> words_;
  size_t at_ = 0;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_WORD_READER_H_
