// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "gpuworker/text/hf/unicode.h"

namespace quire::worker::jinja {
namespace {

constexpr std::array<std::string_view, 5> kLongSigns = {"==", "!=", "<=", ">=", "//"};
constexpr std::string_view kShortSigns = "+-*%~<>=()[]{}.,:|";
constexpr size_t kMostWordsOfTag = 1000;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

size_t CountWhile(std::string_view text, bool (*is)(char)) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is) - text.begin());
}

/// Line ends as Jinja reads them: \n for \r\n and \r, and none at the end of the template.
std::string WithPlainLineEnds(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view text) : text_(text), rest_(text) {}

  StatusOr<std::vector<Word>> Run() {
    while (!rest_.empty()) QUIRE_RETURN_IF_ERROR(TextAndTag());
    AddWord(WordKind::kEnd, "");
    return std::move(words_);
  }

 private:
  /// Reads text up to the next tag, and the tag.
  Status TextAndTag() {
    const size_t open = FindTag();
    const std::string_view text = rest_.substr(0, open);
    const char kind = open < rest_.size() ? rest_[open + 1] : '\0';
    const char mark = open + 2 < rest_.size() ? rest_[open + 2] : '\0';
    const std::string_view shown = WithoutSpaceBefore(text, kind, mark);
    if (!shown.empty()) AddWord(WordKind::kText, shown);
    Advance(text.size());
    tag_ = place_;
    if (kind == '\0') return OkStatus();
    if (kind == '{') return Tag(WordKind::kBeginValue, WordKind::kEndValue, "}}", mark);
    if (kind == '%') return Tag(WordKind::kBeginBlock, WordKind::kEndBlock, "%}", mark);
    return Comment();
  }

  /// The offset of the next "{{", "{%" or "{#"; all of the rest when there is none.
  size_t FindTag() const {
    for (size_t at = 0; (at = rest_.find('{', at)) != rest_.npos; ++at) {
      const char next = at + 1 < rest_.size() ? rest_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return rest_.size();
  }

  /// Text before a tag, without white space before a '-'. A block at the beginning of a line takes
  /// the blanks before it away.
  std::string_view WithoutSpaceBefore(std::string_view text, char kind, char mark) const {
    std::string_view shown = text;
    if (kind != '\0' && mark == '-') {
      while (!shown.empty() && IsSpace(shown.back())) shown.remove_suffix(1);
    } else if ((kind == '%' || kind == '#') && mark != '+') {
      while (!shown.empty() && IsSpace(shown.back()) && shown.back() != '\n')
        shown.remove_suffix(1);
      const bool begins_line = shown.empty() ? AtLineStart() : shown.back() == '\n';
      if (!begins_line) return text;
    }
    return shown;
  }

  bool AtLineStart() const {
    const size_t at = text_.size() - rest_.size();
    return at == 0 || text_[at - 1] == '\n';
  }

  Status Comment() {
    const size_t end = rest_.find("#}", 2);
    if (end == rest_.npos) return ErrorAt(tag_, "this comment does not end in #}");
    const char mark = rest_[end - 1];
    Advance(end + 2);
    AfterBlock(mark);
    return OkStatus();
  }

  /// trim_blocks: leaves out a line end behind a block. With a '-', all white space.
  void AfterBlock(char mark) {
    if (mark == '-') {
      SkipSpace();
    } else if (mark != '+' && rest_.starts_with('\n')) {
      Advance(1);
    }
  }

  Status Tag(WordKind begin, WordKind end, std::string_view close, char mark) {
    AddWord(begin, rest_.substr(0, 2));
    Advance(mark == '-' || mark == '+' ? 3 : 2);
    const size_t first = words_.size();
    int brackets = 0;  // Open ones; a dictionary may end in "}}".
    while (true) {
      SkipSpace();
      if (rest_.empty()) return ErrorAt(tag_, "this tag does not end in ", close);
      if (brackets == 0 && AtClose(close)) return EndOfTag(end, close);
      if (words_.size() - first == kMostWordsOfTag)
        return ErrorAt(place_, "a tag has more than ", kMostWordsOfTag, " words; divide it");
      if (std::string_view("([{").find(rest_[0]) != std::string_view::npos) ++brackets;
      if (std::string_view(")]}").find(rest_[0]) != std::string_view::npos) --brackets;
      QUIRE_RETURN_IF_ERROR(OneWord());
    }
  }

  bool AtClose(std::string_view close) const {
    const bool marked = rest_[0] == '-' || (rest_[0] == '+' && close == "%}");
    return rest_.starts_with(close) || (marked && rest_.substr(1).starts_with(close));
  }

  Status EndOfTag(WordKind end, std::string_view close) {
    const char mark = rest_[0] == '-' || rest_[0] == '+' ? rest_[0] : '\0';
    AddWord(end, close);
    Advance(close.size() + (mark != '\0' ? 1 : 0));
    if (end == WordKind::kEndBlock) {
      AfterBlock(mark);
    } else if (mark == '-') {
      SkipSpace();
    }
    return OkStatus();
  }

  Status OneWord() {
    if (rest_[0] == '\'' || rest_[0] == '"') return String();
    if (IsNameStart(rest_[0])) return Take(WordKind::kName, CountWhile(rest_, IsNamePart));
    if (IsDigit(rest_[0])) return Take(WordKind::kInteger, CountWhile(rest_, IsDigit));
    for (const std::string_view sign : kLongSigns) {
      if (rest_.starts_with(sign)) return Take(WordKind::kSign, sign.size());
    }
    if (kShortSigns.find(rest_[0]) != kShortSigns.npos) return Take(WordKind::kSign, 1);
    return ErrorAt(place_, "'", rest_.substr(0, FirstCharacter(rest_).bytes),
                   "' is not known in a tag");
  }

  Status Take(WordKind kind, size_t size) {
    AddWord(kind, rest_.substr(0, size));
    Advance(size);
    return OkStatus();
  }

  Status String() {
    const Place begin = place_;
    const char quote = rest_[0];
    std::string text;
    Advance(1);
    while (!rest_.empty() && rest_[0] != quote) {
      const size_t end = std::min(rest_.find_first_of(std::string{quote, '\\'}), rest_.size());
      text += rest_.substr(0, end);
      Advance(end);
      if (rest_.starts_with('\\')) QUIRE_RETURN_IF_ERROR(Escape(&text));
    }
    if (rest_.empty()) return ErrorAt(begin, "this string does not end");
    Advance(1);
    words_.push_back({WordKind::kString, std::move(text), begin});
    return OkStatus();
  }

  Status Escape(std::string* text) {
    static constexpr std::string_view kLetters = "ntr\\'\"", kMeanings = "\n\t\r\\'\"";
    const char letter = rest_.size() > 1 ? rest_[1] : '\0';
    if (const size_t at = kLetters.find(letter); at != kLetters.npos) {
      *text += kMeanings[at];
    } else if (letter == 'u' || letter == 'x') {
      return CodePoint(letter == 'u' ? 4 : 2, text);
    } else if (IsNamePart(letter)) {
      return ErrorAt(place_, "the escape \\", rest_.substr(1, 1), " is not known");
    } else {
      *text += '\\';  // Python keeps a backslash before any other character.
      Advance(1);
      return OkStatus();
    }
    Advance(2);
    return OkStatus();
  }

  /// \uXXXX and \xXX
  Status CodePoint(size_t size, std::string* text) {
    const std::string_view digits = rest_.substr(2, size);
    int32_t code = -1;
    const auto read = std::from_chars(digits.begin(), digits.end(), code, 16);
    const bool whole = digits.size() == size && read.ptr == digits.end() && code >= 0;
    if (!whole || (code >= 0xD800 && code < 0xE000))
      return ErrorAt(place_, "\\", rest_.substr(1, 1), " needs ", size, " digits of a character");
    *text += Utf8Of(code);
    Advance(2 + size);
    return OkStatus();
  }

  void AddWord(WordKind kind, std::string_view text) {
    words_.push_back({kind, std::string(text), place_});
  }

  void SkipSpace() { Advance(CountWhile(rest_, IsSpace)); }

  void Advance(size_t bytes) {
    for (const char c : rest_.substr(0, bytes)) {
      const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
      if (c == '\n') {
        place_ = {.line = place_.line + 1, .column = 1};
      } else if (!continues) {
        ++place_.column;
      }
    }
    rest_.remove_prefix(bytes);
  }

  const std::string_view text_;
  std::string_view rest_;  ///< The part not read yet.
  Place place_;            ///< The beginning of `rest_`.
  Place tag_;              ///< The beginning of the last tag.
  std::vector<Word> words_;
};

}  // namespace

StatusOr<std::vector<Word>> Lex(std::string_view text) {
  const std::string plain = WithPlainLineEnds(text);
  return TemplateLexer(plain).Run();
}

}  // namespace quire::worker::jinja
