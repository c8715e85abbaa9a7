// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/source_comments.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

namespace quire::repository {
namespace {

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Returns the index after the literal that begins at `at`.
size_t LiteralEnd(const std::string& line, size_t at) {
  const char quote = line[at++];
  while (at < line.size() && line[at] != quote) at += line[at] == '\\' ? 2 : 1;
  return at + 1;
}

/// Finds comments line by line. Remembers raw strings and block comments across lines.
class CommentFinder {
 public:
  /// Column of the `//` that begins a comment on the next line of a file; npos without one.
  size_t Find(const std::string& line) {
    for (size_t at = 0; at < line.size();) {
      if (!until_.empty()) {
        const size_t end = line.find(until_, at);
        if (end == std::string::npos) return end;
        at = end + until_.size();
        until_.clear();
      } else if (line.compare(at, 2, "//") == 0) {
        return at;
      } else {
        at = Skip(line, at);
      }
    }
    return std::string::npos;
  }

 private:
  /// Returns the index after the character or literal at `at`.
  size_t Skip(const std::string& line, size_t at) {
    const bool follows_word = at > 0 && IsWordCharacter(line[at - 1]);
    if (line.compare(at, 2, "/*") == 0) {
      until_ = "*/";
      return at + 2;
    }
    if (!follows_word && line.compare(at, 2, "R\"") == 0) {
      const size_t open = std::min(line.find('(', at), line.size());
      until_ = ")" + line.substr(at + 2, open - at - 2) + "\"";
      return open + 1;
    }
    // An apostrophe after a digit separates digits.
    const bool is_literal = line[at] == '"' || (line[at] == '\'' && !follows_word);
    return is_literal ? LiteralEnd(line, at) : at + 1;
  }

  std::string until_;  ///< End of the open raw string or block comment; empty outside of both.
};

struct CommentLine {
  size_t column = 0;
  bool is_alone = false;    ///< No code precedes it.
  std::string marker = {};  ///< "//", "///" or "///<".
  std::string text = {};    ///< Text after the marker and one space.
};

std::optional<CommentLine> CommentOn(const std::string& line, size_t column) {
  static const std::regex kDirective("SPDX-|NOLINT|clang-format o");
  if (column == std::string::npos || std::regex_search(line, kDirective)) return std::nullopt;
  CommentLine comment{.column = column};
  comment.is_alone = line.find_first_not_of(' ') == column;
  const std::string rest = line.substr(column);
  comment.marker = rest.starts_with("///<") ? "///<" : rest.starts_with("///") ? "///" : "//";
  comment.text = rest.substr(comment.marker.size());
  if (comment.text.starts_with(' ')) comment.text.erase(0, 1);
  return comment;
}

bool IsListItem(const std::string& text) { return text.starts_with("- "); }

/// True for text that is laid out by hand: examples, tables, rules and headings.
bool IsVerbatim(const std::string& text) {
  return text.empty() || text.starts_with(' ') || text.starts_with("---");
}

/// Collects paragraphs from comment lines.
class ParagraphBuilder {
 public:
  void Add(size_t number, const std::optional<CommentLine>& comment) {
    const bool continues = last_ && comment && comment->is_alone &&
                           comment->column == last_->column && comment->marker == last_->marker;
    if (!continues || IsListItem(comment->text)) is_open_ = false;
    last_ = comment;
    if (!comment || IsVerbatim(comment->text)) {
      is_open_ = false;
    } else if (is_open_) {
      paragraphs_.back().text += " " + comment->text;
    } else {
      const size_t begin = IsListItem(comment->text) ? 2 : 0;
      paragraphs_.push_back({number, comment->marker == "///<", comment->text.substr(begin)});
      is_open_ = true;
    }
  }
  std::vector<CommentParagraph> Take() { return std::move(paragraphs_); }

 private:
  std::vector<CommentParagraph> paragraphs_;
  std::optional<CommentLine> last_;  ///< Comment of the previous line, if any.
  bool is_open_ = false;             ///< The next line may continue the last paragraph.
};

/// The leading letters of `sentence` in lower case. Empty when it begins with anything else.
std::string FirstWord(const std::string& sentence) {
  std::string word;
  for (const char c : sentence) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

bool LacksSubject(const std::string& sentence) {
  static const std::array kBanned = {"but",  "nobody",  "of",  "so",     "that",
                                     "what", "whether", "who", "whoever"};
  return std::ranges::find(kBanned, FirstWord(sentence)) != kBanned.end();
}

size_t CountWords(const std::string& sentence) {
  std::istringstream in(sentence);
  size_t words = 0;
  for (std::string word; in >> word;) ++words;
  return words;
}

/// True for a first word of small letters only. Identifiers with other characters may begin a
/// comment.
bool BeginsInLowerCase(const std::string& text) {
  static const std::regex kLower(R"(^[a-z]+([\s.,;:]|$))");
  return std::regex_search(text, kLower);
}

bool CitesSpecification(const std::string& text) {
  static const std::regex kCitation(R"(\b[Ss]pec [A-Z](\.\d+|[,;:.)]|$))");
  return std::regex_search(text, kCitation);
}

}  // namespace

std::vector<CommentParagraph> CommentParagraphs(const std::vector<std::string>& lines) {
  CommentFinder finder;
  ParagraphBuilder builder;
  for (size_t i = 0; i < lines.size(); ++i) {
    builder.Add(i + 1, CommentOn(lines[i], finder.Find(lines[i])));
  }
  return builder.Take();
}

std::vector<std::string> Sentences(std::string_view paragraph) {
  static const std::regex kEnd(R"([.?!]["')]*\s+(?=[A-Z`"(]))");
  const std::string text(paragraph);
  std::vector<std::string> sentences;
  auto begin = text.begin();
  for (std::sregex_iterator it(text.begin(), text.end(), kEnd), end; it != end; ++it) {
    sentences.emplace_back(begin, (*it)[0].second);
    begin = (*it)[0].second;
  }
  sentences.emplace_back(begin, text.end());
  return sentences;
}

std::vector<std::string> CommentFaults(std::string_view name,
                                       const std::vector<std::string>& lines) {
  std::vector<std::string> faults;
  for (const CommentParagraph& paragraph : CommentParagraphs(lines)) {
    const auto report = [&](std::string_view rule, const std::string& text) {
      faults.push_back(std::string(name) + ":" + std::to_string(paragraph.line) + ": " +
                       std::string(rule) + ": " + text);
    };
    if (CitesSpecification(paragraph.text)) report("citation", paragraph.text);
    if (paragraph.of_field && BeginsInLowerCase(paragraph.text)) {
      report("lower case", paragraph.text);
    }
    for (const std::string& sentence : Sentences(paragraph.text)) {
      if (LacksSubject(sentence)) report("first word", sentence);
      if (CountWords(sentence) > kMostWords) report("too long", sentence);
    }
  }
  return faults;
}

}  // namespace quire::repository
