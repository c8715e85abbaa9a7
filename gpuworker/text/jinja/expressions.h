// SPDX-License-Identifier: Apache-2.0
//
// Parser of expressions, by Jinja's precedence: if-else, or, and, not, comparisons, + - ~, * / //
// %, unary, then filters, calls and subscripts. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_EXPRESSIONS_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_EXPRESSIONS_H_

#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gpuworker/text/jinja/lexer.h"
#include "gpuworker/text/jinja/node.h"

namespace quire::worker::jinja {

/// The words of a template and how far they have been read.
class WordReader {
 public:
  explicit WordReader(std::vector<Word> words) : words_(std::move(words)) {}

  const Word& peek() const { return words_[at_]; }
  Word Take() { return words_[at_ + 1 < words_.size() ? at_++ : at_]; }
  bool Is(WordKind kind, std::string_view text = {}) const {
    return peek().kind == kind && (text.empty() || peek().text == text);
  }
  bool IsNext(WordKind kind, std::string_view text) const {
    return at_ + 1 < words_.size() && words_[at_ + 1].kind == kind && words_[at_ + 1].text == text;
  }
  /// Takes the word when it is that.
  bool Accept(WordKind kind, std::string_view text = {}) {
    if (!Is(kind, text)) return false;
    ++at_;
    return true;
  }
  /// INVALID_ARGUMENT when the word is another.
  Status Expect(WordKind kind, std::string_view text);
  /// INVALID_ARGUMENT with the line: "line 3: <what>, not <word>".
  Status Error(std::string_view what) const;

 private:
  std::vector<Word> words_;
  size_t at_ = 0;
};

/// An expression; `with_condition`: it may go on with `if`.
StatusOr<ExpressionPtr> ParseExpression(WordReader& words, bool with_condition = true);

/// One expression, or several with commas between them, which are a list.
StatusOr<ExpressionPtr> ParseTuple(WordReader& words);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_EXPRESSIONS_H_
