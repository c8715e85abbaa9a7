// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/tag_text.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>

#include "common/documents/document_rules.h"

namespace quire::cli {
namespace {

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsQuoted(std::string_view text) {
  return text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
         text.back() == text.front();
}

TagValue ParseValue(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = ParseNumber<int64_t>(text)) return *integer;
  if (const auto number = ParseNumber<double>(text)) return *number;
  return std::string(IsQuoted(text) ? text.substr(1, text.size() - 2) : text);
}

std::string FormatNumber(double number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  const std::string_view digits(text.data(), static_cast<size_t>(end - text.data()));
  return std::string(digits) + (ParseNumber<int64_t>(digits) ? ".0" : "");
}

struct Format {
  std::string operator()(const std::string& text) const {
    const bool is_plain = std::holds_alternative<std::string>(ParseValue(text)) && !IsQuoted(text);
    return is_plain ? text : "'" + text + "'";
  }
  std::string operator()(int64_t integer) const { return std::to_string(integer); }
  std::string operator()(double number) const { return FormatNumber(number); }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
};

}  // namespace

StatusOr<Tags> ParseTags(std::span<const std::string> texts) {
  Tags tags;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return InvalidArgument("tag '", text, "' has no '='; write KEY=VALUE, as team=ops");
    }
    const auto [tag, is_new] = tags.try_emplace(
        text.substr(0, equals), ParseValue(std::string_view(text).substr(equals + 1)));
    if (!is_new) return InvalidArgument("tag '", tag->first, "' is given twice");
  }
  QUIRE_RETURN_IF_ERROR(CheckTags(tags));
  return tags;
}

std::string FormatTags(const Tags& tags) {
  std::string text;
  for (const auto& [key, value] : tags) {
    if (!text.empty()) text += ' ';
    text.append(key).append(1, '=').append(std::visit(Format(), value));
  }
  return text;
}

}  // namespace quire::cli
