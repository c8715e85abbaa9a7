// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/json/json.h"
#include "gpuworker/text/hf/pattern.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker {
namespace {

/// Expression that GPT-2 splits by (Radford et al., 2019). `ByteLevel` uses it with `use_regex`.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Delimiters : uint8_t { kRemoved, kIsolated, kWithPrevious, kWithNext, kContiguous };

std::optional<Delimiters> DelimitersOf(std::string_view name) {
  if (name == "Removed") return Delimiters::kRemoved;
  if (name == "Isolated") return Delimiters::kIsolated;
  if (name == "MergedWithPrevious") return Delimiters::kWithPrevious;
  if (name == "MergedWithNext") return Delimiters::kWithNext;
  if (name == "Contiguous") return Delimiters::kContiguous;
  return std::nullopt;
}

struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool delimiter = false;
};

/// Delimiters join what follows them; of several in a row only the last does.
std::vector<Span> JoinWithNext(const std::vector<Span>& spans) {
  std::vector<Span> joined;
  for (size_t i = 0; i < spans.size(); ++i) {
    Span span = spans[i];
    if (span.delimiter && i + 1 < spans.size() && !spans[i + 1].delimiter)
      span.end = spans[++i].end;
    joined.push_back(span);
  }
  return joined;
}

std::vector<Span> JoinWithPrevious(const std::vector<Span>& spans) {
  std::vector<Span> joined;
  bool previous = false;
  for (const Span& span : spans) {
    if (span.delimiter && !previous && !joined.empty()) {
      joined.back().end = span.end;
    } else {
      joined.push_back(span);
    }
    previous = span.delimiter;
  }
  return joined;
}

std::vector<Span> JoinEqual(const std::vector<Span>& spans) {
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && joined.back().delimiter == span.delimiter) {
      joined.back().end = span.end;
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

void AddPieces(std::string_view text, std::vector<Span> spans, Delimiters how, Pieces* pieces) {
  if (how == Delimiters::kWithNext) spans = JoinWithNext(spans);
  if (how == Delimiters::kWithPrevious) spans = JoinWithPrevious(spans);
  if (how == Delimiters::kContiguous) spans = JoinEqual(spans);
  for (const Span& span : spans) {
    if (span.end > span.begin && !(how == Delimiters::kRemoved && span.delimiter)) {
      pieces->push_back(text.substr(span.begin, span.end - span.begin));
    }
  }
}

Status SplitAt(std::string_view text, const Regex& pattern, Delimiters how, bool invert,
               Pieces* pieces) {
  std::vector<Span> spans;
  size_t covered = 0;
  QUIRE_RETURN_IF_ERROR(pattern.ForEach(text, [&](size_t begin, size_t end) {
    if (begin > covered) spans.push_back({covered, begin, invert});
    spans.push_back({begin, end, !invert});
    covered = end;
  }));
  if (covered < text.size()) spans.push_back({covered, text.size(), invert});
  AddPieces(text, std::move(spans), how, pieces);
  return OkStatus();
}

/// The usual case: matches and what lies between them are pieces alike.
Status SplitIsolated(std::string_view text, const Regex& pattern, Pieces* pieces) {
  size_t covered = 0;
  QUIRE_RETURN_IF_ERROR(pattern.ForEach(text, [&](size_t begin, size_t end) {
    if (begin > covered) pieces->push_back(text.substr(covered, begin - covered));
    if (end > begin) pieces->push_back(text.substr(begin, end - begin));
    covered = end;
  }));
  if (covered < text.size()) pieces->push_back(text.substr(covered));
  return OkStatus();
}

void SplitDigits(std::string_view text, bool each, Pieces* pieces) {
  std::vector<Span> spans;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = FirstCharacter(text.substr(at));
    const bool digit = IsNumeric(code);
    if (!digit && !spans.empty() && !spans.back().delimiter) {
      spans.back().end += bytes;
    } else {
      spans.push_back({at, at + bytes, digit});
    }
    at += bytes;
  }
  AddPieces(text, std::move(spans), each ? Delimiters::kIsolated : Delimiters::kContiguous, pieces);
}

/// When a Metaspace puts its character before a section.
enum class Prepend : uint8_t { kAlways, kFirst, kNever };

StatusOr<Prepend> PrependOf(const JsonFields& fields) {
  QUIRE_ASSIGN_OR_RETURN(const bool prefix,
                         fields.Bool("add_prefix_space", true));  // Files of older versions.
  QUIRE_ASSIGN_OR_RETURN(const std::string scheme,
                         fields.String("prepend_scheme", prefix ? "always" : "never"));
  if (scheme == "always") return Prepend::kAlways;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme == "never") return Prepend::kNever;
  return fields.Error("prepend_scheme", "is \"", scheme, "\"; known are always, first, never");
}

void ReplaceSpaces(std::string* text, const std::string& by) {
  std::string out;
  out.reserve(text->size() * 5 / 4);
  for (const char c : *text) {
    if (c == ' ') {
      out += by;
    } else {
      out += c;
    }
  }
  *text = std::move(out);
}

}  // namespace

StatusOr<PreTokenizer> PreTokenizer::Parse(const nlohmann::json& json, const std::string& name) {
  PreTokenizer pre;
  if (!json.is_null()) QUIRE_RETURN_IF_ERROR(pre.Add(json, name));
  return pre;
}

Status PreTokenizer::Add(const nlohmann::json& json, const std::string& name) {
  if (!json.is_object()) return InvalidArgument(name, " must be an object");
  const JsonFields fields(json, name);
  QUIRE_ASSIGN_OR_RETURN(const std::string type, fields.String("type", ""));
  if (type == "Sequence") {
    const nlohmann::json* const list = fields.Find("pretokenizers");
    if (list == nullptr || !list->is_array())
      return fields.Error("pretokenizers", "must be a list");
    for (const nlohmann::json& step : *list) QUIRE_RETURN_IF_ERROR(Add(step, name));
  } else if (type == "Split") {
    QUIRE_RETURN_IF_ERROR(AddSplit(fields));
  } else if (type == "ByteLevel") {
    QUIRE_RETURN_IF_ERROR(AddByteLevel(fields));
  } else if (type == "Metaspace") {
    QUIRE_RETURN_IF_ERROR(AddMetaspace(fields));
  } else if (type == "Digits") {
    QUIRE_ASSIGN_OR_RETURN(const bool each, fields.Bool("individual_digits", false));
    splits_.push_back([each](std::string_view text, Pieces* pieces) {
      SplitDigits(text, each, pieces);
      return OkStatus();
    });
  } else {
    return fields.Error("type", "is \"", type,
                        "\"; known are Split, ByteLevel, Metaspace, Digits, Sequence");
  }
  return fields.CheckAllRead();
}

Status PreTokenizer::AddSplit(const JsonFields& fields) {
  QUIRE_ASSIGN_OR_RETURN(const Regex pattern, ParsePattern(fields));
  QUIRE_ASSIGN_OR_RETURN(const std::string behavior, fields.String("behavior", ""));
  QUIRE_ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
  const std::optional<Delimiters> how = DelimitersOf(behavior);
  if (!how) return fields.Error("behavior", "is \"", behavior, "\", which is none of Split's");
  splits_.push_back([pattern, how = *how, invert](std::string_view text, Pieces* pieces) {
    if (how == Delimiters::kIsolated) return SplitIsolated(text, pattern, pieces);
    return SplitAt(text, pattern, how, invert, pieces);
  });
  return OkStatus();
}

Status PreTokenizer::AddByteLevel(const JsonFields& fields) {
  QUIRE_ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space", true));
  QUIRE_ASSIGN_OR_RETURN(const bool by_regex, fields.Bool("use_regex", true));
  QUIRE_RETURN_IF_ERROR(fields.Bool("trim_offsets", true).status());  // Offsets are not made here.
  byte_level_ = true;
  if (prefix) {
    const auto add_space = [](Section* section) {
      if (!section->text.starts_with(' ')) section->text.insert(0, 1, ' ');
    };
    QUIRE_RETURN_IF_ERROR(AddRewrite(add_space, fields));
  }
  if (!by_regex) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const Regex pattern, Regex::Compile(kGpt2));
  splits_.push_back([pattern](std::string_view text, Pieces* pieces) {
    return SplitIsolated(text, pattern, pieces);
  });
  return OkStatus();
}

Status PreTokenizer::AddMetaspace(const JsonFields& fields) {
  QUIRE_ASSIGN_OR_RETURN(const std::string mark, fields.String("replacement", "\u2581"));
  QUIRE_RETURN_IF_ERROR(fields.String("str_rep", mark).status());  // Older files say it twice.
  QUIRE_ASSIGN_OR_RETURN(const Prepend prepend, PrependOf(fields));
  QUIRE_ASSIGN_OR_RETURN(const bool split, fields.Bool("split", true));
  if (mark.empty()) return fields.Error("replacement", "must be a character");
  QUIRE_RETURN_IF_ERROR(AddRewrite(
      [mark, prepend](Section* section) {
        ReplaceSpaces(&section->text, mark);
        const bool wanted =
            prepend == Prepend::kAlways || (prepend == Prepend::kFirst && section->starts_input);
        if (wanted && !section->text.starts_with(mark)) section->text.insert(0, mark);
      },
      fields));
  if (!split) return OkStatus();
  splits_.push_back([pattern = Regex::Literal(mark)](std::string_view text, Pieces* pieces) {
    return SplitAt(text, pattern, Delimiters::kWithNext, /*invert=*/false, pieces);
  });
  return OkStatus();
}

Status PreTokenizer::AddRewrite(Rewrite rewrite, const JsonFields& fields) {
  if (!splits_.empty())
    return fields.Error("type", "rewrites text that is already divided, which is not done here");
  rewrites_.push_back(std::move(rewrite));
  return OkStatus();
}

StatusOr<Pieces> PreTokenizer::Divide(Section* section) const {
  for (const Rewrite& rewrite : rewrites_) rewrite(section);
  Pieces pieces;
  if (!section->text.empty()) pieces.emplace_back(section->text);
  for (const Split& split : splits_) {
    Pieces finer;
    for (const std::string_view piece : pieces) QUIRE_RETURN_IF_ERROR(split(piece, &finer));
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace quire::worker
