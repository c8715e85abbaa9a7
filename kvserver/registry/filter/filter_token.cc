// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/filter/filter_token.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"

namespace quire::kvserver {
namespace {

constexpr size_t kMaxBytes = 4096;
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kEndsWord = " \t\r\n()=!<>~\"'";

using Kind = FilterToken::Kind;

class FilterLexer {
 public:
  explicit FilterLexer(std::string_view text) : text_(text) {}

  StatusOr<FilterToken> Next() {
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
    if (at_ == text_.size()) return FilterToken{.position = at_ + 1};
    const char c = text_[at_];
    if (c == '(') return Take(Kind::kOpen, 1);
    if (c == ')') return Take(Kind::kClose, 1);
    if (c == '"' || c == '\'') return Quoted(c);
    if (c == '!' && text_.substr(at_, 2) != "!=") {
      return FilterError(at_ + 1, "'!' needs '=' after it; write not before a comparison");
    }
    if (c == '=' || c == '~') return Take(Kind::kOperator, 1);
    if (c == '!' || c == '<' || c == '>') {
      return Take(Kind::kOperator, text_.substr(at_ + 1, 1) == "=" ? 2 : 1);
    }
    return Take(Kind::kWord, std::min(text_.find_first_of(kEndsWord, at_), text_.size()) - at_);
  }

 private:
  FilterToken Take(Kind kind, size_t bytes) {
    FilterToken token{
        .kind = kind, .text = std::string(text_.substr(at_, bytes)), .position = at_ + 1};
    at_ += bytes;
    return token;
  }

  /// A backslash takes the next byte as it is.
  StatusOr<FilterToken> Quoted(char quote) {
    FilterToken token{.kind = Kind::kQuoted, .position = at_ + 1};
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return token;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      token.text.push_back(text_[at_]);
    }
    return FilterError(token.position, "the quote does not end");
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

StatusOr<std::vector<FilterToken>> TokensOfFilter(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return FilterError(kMaxBytes + 1, "the filter has ", text.size(), " bytes; at most ", kMaxBytes,
                       " are taken");
  }
  if (const auto invalid = FirstInvalidUtf8(text)) {
    return FilterError(*invalid + 1, "the filter is not UTF-8");
  }
  FilterLexer lexer(text);
  std::vector<FilterToken> tokens;
  do {
    QUIRE_ASSIGN_OR_RETURN(FilterToken token, lexer.Next());
    tokens.push_back(std::move(token));
  } while (tokens.back().kind != Kind::kEnd);
  return tokens;
}

}  // namespace quire::kvserver
