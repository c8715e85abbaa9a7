// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "common/json/json.h"
#include "gpuworker/text/hf/new_characters.h"
#include "gpuworker/text/hf/pattern.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker {
namespace {

/// Appends the normal form of `text`.
Status AppendComposed(std::string_view text, int options, std::string* all) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (size < 0) return Internal("cannot normalize the text: ", utf8proc_errmsg(size));
  all->append(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  return OkStatus();
}

/// The offset of the first new mark; all of the text when there is none.
size_t FindNewMark(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character character = FirstCharacter(text.substr(at));
    if (IsNewMark(character.code)) return at;
    at += character.bytes;
  }
  return at;
}

Status ComposeInto(std::string* text, int options) {
  if (IsAscii(*text)) return OkStatus();
  std::string all;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t size = FindNewMark(rest);
    QUIRE_RETURN_IF_ERROR(AppendComposed(rest.substr(0, size), options, &all));
    rest.remove_prefix(size);
    if (rest.empty()) break;
    const size_t mark = FirstCharacter(rest).bytes;
    all += rest.substr(0, mark);
    rest.remove_prefix(mark);
  }
  *text = std::move(all);
  return OkStatus();
}

/// utf8proc's options of a Unicode normalization form; 0 for another name.
int OptionsOf(std::string_view form) {
  if (form == "NFC") return UTF8PROC_COMPOSE;
  if (form == "NFD") return UTF8PROC_DECOMPOSE;
  if (form == "NFKC") return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  if (form == "NFKD") return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  return 0;
}

Status ReplaceInto(std::string* text, const Regex& pattern, const std::string& content) {
  std::string out;
  size_t copied = 0;
  QUIRE_RETURN_IF_ERROR(pattern.ForEach(*text, [&](size_t begin, size_t end) {
    out.append(*text, copied, begin - copied).append(content);
    copied = end;
  }));
  if (copied == 0 && out.empty()) return OkStatus();
  out.append(*text, copied);
  *text = std::move(out);
  return OkStatus();
}

void StripInto(std::string* text, bool left, bool right) {
  std::string_view rest = *text;
  while (left && !rest.empty()) {
    const auto [c, bytes] = FirstCharacter(rest);
    if (!IsWhiteSpace(c)) break;
    rest.remove_prefix(bytes);
  }
  while (right && !rest.empty()) {
    const auto [c, bytes] = LastCharacter(rest);
    if (!IsWhiteSpace(c)) break;
    rest.remove_suffix(bytes);
  }
  *text = std::string(rest);
}

}  // namespace

StatusOr<Normalizer> Normalizer::Parse(const nlohmann::json& json, const std::string& name) {
  Normalizer normalizer;
  if (!json.is_null()) QUIRE_RETURN_IF_ERROR(normalizer.Add(json, name));
  return normalizer;
}

Status Normalizer::Add(const nlohmann::json& json, const std::string& name) {
  if (!json.is_object()) return InvalidArgument(name, " must be an object");
  const JsonFields fields(json, name);
  QUIRE_ASSIGN_OR_RETURN(const std::string type, fields.String("type", ""));
  if (type == "Sequence") {
    const nlohmann::json* const list = fields.Find("normalizers");
    if (list == nullptr || !list->is_array()) return fields.Error("normalizers", "must be a list");
    for (const nlohmann::json& step : *list) QUIRE_RETURN_IF_ERROR(Add(step, name));
  } else if (const int options = OptionsOf(type); options != 0) {
    steps_.push_back([options](std::string* text) { return ComposeInto(text, options); });
  } else if (type == "Prepend") {
    QUIRE_ASSIGN_OR_RETURN(const std::string prefix, fields.String("prepend", ""));
    steps_.push_back([prefix](std::string* text) {
      if (!text->empty()) text->insert(0, prefix);
      return OkStatus();
    });
  } else if (type == "Replace") {
    QUIRE_ASSIGN_OR_RETURN(const Regex pattern, ParsePattern(fields));
    QUIRE_ASSIGN_OR_RETURN(const std::string content, fields.String("content", ""));
    steps_.push_back(
        [pattern, content](std::string* text) { return ReplaceInto(text, pattern, content); });
  } else if (type == "Strip") {
    QUIRE_ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left", true));
    QUIRE_ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right", true));
    steps_.push_back([left, right](std::string* text) {
      StripInto(text, left, right);
      return OkStatus();
    });
  } else {
    return fields.Error("type", "is \"", type,
                        "\"; known are NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, Sequence");
  }
  return fields.CheckAllRead();
}

StatusOr<std::string> Normalizer::Apply(std::string text) const {
  for (const Step& step : steps_) QUIRE_RETURN_IF_ERROR(step(&text));
  return text;
}

}  // namespace quire::worker
