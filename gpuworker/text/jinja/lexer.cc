// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace quire::worker::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongSigns = {"==", "!=", "<=", ">=", "//", "**"};
constexpr std::string_view kShortSigns = "+-*/%~<>=()[]{}.,:|";

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view text) : text_(text) {
    if (text_.ends_with('\n'))
      text_.remove_suffix(1);  // As Jinja does without keep_trailing_newline.
  }

  StatusOr<std::vector<Word>> Run() {
    while (at_ < text_.size()) QUIRE_RETURN_IF_ERROR(TextAndTag());
    words_.push_back({WordKind::kEnd, "", line_});
    return std::move(words_);
  }

 private:
  /// Text up to the next tag, and that.
  Status TextAndTag() {
    size_t open = at_;
    while ((open = text_.find('{', open)) != text_.npos && !IsTag(open)) ++open;
    std::string_view text = text_.substr(at_, std::min(open, text_.size()) - at_);
    if (open == text_.npos) {
      AddText(text);
      at_ = text_.size();
      return OkStatus();
    }
    const char kind = text_[open + 1];
    const char mark = open + 2 < text_.size() ? text_[open + 2] : '\0';
    const uint32_t lines = Lines(text);
    AddText(mark == '-'                  ? WithoutTrailingSpace(text)
            : kind != '{' && mark != '+' ? WithoutIndent(text)
                                         : text,
            false);
    line_ += lines;
    at_ = open + 2 + (mark == '-' || mark == '+' ? 1 : 0);
    if (kind == '#') return Comment();
    return kind == '{' ? Tag(WordKind::kBeginValue, WordKind::kEndValue, "}}") : Block();
  }

  bool IsTag(size_t open) const {
    const char next = open + 1 < text_.size() ? text_[open + 1] : '\0';
    return next == '{' || next == '%' || next == '#';
  }

  static uint32_t Lines(std::string_view text) {
    return static_cast<uint32_t>(std::ranges::count(text, '\n'));
  }

  static std::string_view WithoutTrailingSpace(std::string_view text) {
    while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    return text;
  }

  /// lstrip_blocks: blanks before a block that begins a line.
  std::string_view WithoutIndent(std::string_view text) const {
    std::string_view rest = text;
    while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\t')) rest.remove_suffix(1);
    const bool begins_line =
        rest.empty() ? at_ == 0 || text_[at_ - 1] == '\n' : rest.back() == '\n';
    return begins_line ? rest : text;
  }

  void AddText(std::string_view text, bool count_lines = true) {
    if (!text.empty()) words_.push_back({WordKind::kText, std::string(text), line_});
    if (count_lines) line_ += Lines(text);
  }

  Status Comment() {
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos) return InvalidArgument("line ", line_, ": a comment does not end");
    line_ += Lines(text_.substr(at_, end - at_));
    const bool strip = end > at_ && text_[end - 1] == '-';
    at_ = end + 2;
    AfterBlock(strip);
    return OkStatus();
  }

  Status Block() {
    if (IsRaw()) return Raw();
    return Tag(WordKind::kBeginBlock, WordKind::kEndBlock, "%}");
  }

  bool IsRaw() const {
    std::string_view rest = text_.substr(at_);
    while (!rest.empty() && IsSpace(rest[0])) rest.remove_prefix(1);
    return rest.starts_with("raw") && rest.size() > 3 && !IsNameStart(rest[3]);
  }

  Status Raw() {
    const size_t open = text_.find("%}", at_);
    const size_t close = text_.find("{% endraw %}", at_);
    if (open == text_.npos || close == text_.npos || close < open) {
      return InvalidArgument("line ", line_, ": {% raw %} has no {% endraw %}");
    }
    AddText(text_.substr(open + 2, close - open - 2));
    at_ = close + std::string_view("{% endraw %}").size();
    AfterBlock(false);
    return OkStatus();
  }

  /// trim_blocks: the end of the line behind a block; with a '-', all white space.
  void AfterBlock(bool strip) {
    if (strip) {
      SkipSpace();
    } else if (text_.substr(at_).starts_with('\n')) {
      ++at_;
      ++line_;
    }
  }

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) {
      if (text_[at_++] == '\n') ++line_;
    }
  }

  Status Tag(WordKind begin, WordKind end, std::string_view close) {
    const uint32_t first_line = line_;
    words_.push_back({begin, "", line_});
    int braces = 0;  // Of dictionaries, which may end in "}}".
    while (true) {
      SkipSpace();
      const std::string_view rest = text_.substr(at_);
      if (rest.empty())
        return InvalidArgument("line ", first_line, ": a tag does not end in ", std::string(close));
      const bool strip = rest[0] == '-' && rest.substr(1).starts_with(close);
      if (braces == 0 && (strip || rest.starts_with(close) ||
                          (rest[0] == '+' && rest.substr(1).starts_with(close)))) {
        words_.push_back({end, "", line_});
        at_ += close.size() + (rest.starts_with(close) ? 0 : 1);
        if (end == WordKind::kEndBlock && rest[0] != '+') AfterBlock(strip);
        if (end == WordKind::kEndValue && strip) SkipSpace();
        return OkStatus();
      }
      if (rest[0] == '{') ++braces;
      if (rest[0] == '}') --braces;
      QUIRE_RETURN_IF_ERROR(OneWord(rest));
    }
  }

  Status OneWord(std::string_view rest) {
    if (rest[0] == '\'' || rest[0] == '"') return String(rest);
    if (IsNameStart(rest[0])) {
      const auto end =
          std::ranges::find_if_not(rest, [](char c) { return IsNameStart(c) || IsDigit(c); });
      return Take(WordKind::kName, rest, static_cast<size_t>(end - rest.begin()));
    }
    if (IsDigit(rest[0])) return Number(rest);
    for (const std::string_view sign : kLongSigns) {
      if (rest.starts_with(sign)) return Take(WordKind::kSign, rest, 2);
    }
    if (kShortSigns.find(rest[0]) != kShortSigns.npos) return Take(WordKind::kSign, rest, 1);
    return InvalidArgument("line ", line_, ": '", std::string(rest.substr(0, 1)),
                           "' means nothing in a tag");
  }

  Status Take(WordKind kind, std::string_view rest, size_t size) {
    words_.push_back({kind, std::string(rest.substr(0, size)), line_});
    at_ += size;
    return OkStatus();
  }

  Status Number(std::string_view rest) {
    size_t size = 0;
    while (size < rest.size() && IsDigit(rest[size])) ++size;
    if (size + 1 >= rest.size() || rest[size] != '.' || !IsDigit(rest[size + 1])) {
      return Take(WordKind::kInteger, rest, size);
    }
    ++size;
    while (size < rest.size() && IsDigit(rest[size])) ++size;
    return Take(WordKind::kFloat, rest, size);
  }

  Status String(std::string_view rest) {
    Word word{WordKind::kString, "", line_};
    for (size_t i = 1; i < rest.size(); ++i) {
      if (rest[i] == rest[0]) {
        line_ += Lines(rest.substr(0, i));
        at_ += i + 1;
        words_.push_back(std::move(word));
        return OkStatus();
      }
      if (rest[i] != '\\' || i + 1 == rest.size()) {
        word.text += rest[i];
        continue;
      }
      AddEscaped(rest[++i], &word.text);
    }
    return InvalidArgument("line ", line_, ": a string does not end");
  }

  static void AddEscaped(char c, std::string* text) {
    switch (c) {
      case 'n':
        *text += '\n';
        return;
      case 't':
        *text += '\t';
        return;
      case 'r':
        *text += '\r';
        return;
      case '\\':
      case '\'':
      case '"':
        *text += c;
        return;
      default:  // Python keeps what it does not know.
        *text += '\\';
        *text += c;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  std::vector<Word> words_;
};

}  // namespace

StatusOr<std::vector<Word>> Lex(std::string_view text) { return TemplateLexer(text).Run(); }

}  // namespace quire::worker::jinja
