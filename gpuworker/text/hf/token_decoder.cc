// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/token_decoder.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/utf8.h"
#include "common/json/json.h"
#include "gpuworker/text/hf/byte_alphabet.h"

namespace quire::worker {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0; (at = text.find(from)) != text.npos;) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

/// The byte of a token <0xNN>.
std::optional<char> FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

/// A run of byte tokens becomes its characters, or U+FFFD for each byte when it is not whole.
void AddRun(const std::string& bytes, std::vector<std::string>* out) {
  if (bytes.empty()) return;
  if (!FirstInvalidUtf8(bytes)) {
    out->push_back(bytes);
    return;
  }
  for (size_t i = 0; i < bytes.size(); ++i) out->emplace_back(kReplacementCharacter);
}

void JoinBytes(std::vector<std::string>* tokens) {
  std::vector<std::string> out;
  std::string run;
  for (std::string& token : *tokens) {
    if (const auto byte = FallbackByte(token)) {
      run += *byte;
      continue;
    }
    AddRun(run, &out);
    run.clear();
    out.push_back(std::move(token));
  }
  AddRun(run, &out);
  *tokens = std::move(out);
}

void SpellOut(std::vector<std::string>* tokens) {
  std::string bytes;
  for (const std::string& token : *tokens) bytes += BytesOfSpelling(token).value_or(token);
  *tokens = {ReplaceInvalidUtf8(bytes)};
}

void Fuse(std::vector<std::string>* tokens) {
  std::string text;
  for (const std::string& token : *tokens) text += token;
  *tokens = {std::move(text)};
}

std::string StripStart(std::string_view text, std::string_view what, size_t most) {
  for (size_t i = 0; i < most && text.starts_with(what); ++i) text.remove_prefix(what.size());
  return std::string(text);
}

std::string StripEnd(std::string_view text, std::string_view what, size_t most) {
  for (size_t i = 0; i < most && text.ends_with(what); ++i) text.remove_suffix(what.size());
  return std::string(text);
}

}  // namespace

StatusOr<TokenDecoder> TokenDecoder::Parse(const nlohmann::json& json, const std::string& name) {
  TokenDecoder decoder;
  QUIRE_RETURN_IF_ERROR(decoder.Add(json, name));
  return decoder;
}

Status TokenDecoder::Add(const nlohmann::json& json, const std::string& name) {
  if (!json.is_object()) return InvalidArgument(name, " must be an object");
  const JsonFields fields(json, name);
  QUIRE_ASSIGN_OR_RETURN(const std::string type, fields.String("type", ""));
  if (type == "Sequence") {
    const nlohmann::json* const list = fields.Find("decoders");
    if (list == nullptr || !list->is_array()) return fields.Error("decoders", "must be a list");
    for (const nlohmann::json& step : *list) QUIRE_RETURN_IF_ERROR(Add(step, name));
  } else {
    QUIRE_RETURN_IF_ERROR(AddStep(type, fields));
  }
  return fields.CheckAllRead();
}

Status TokenDecoder::AddStep(const std::string& type, const JsonFields& fields) {
  if (type == "ByteLevel") {
    for (const char* const field : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      QUIRE_RETURN_IF_ERROR(fields.Bool(field, true).status());  // They are about the way there.
    }
    byte_level_ = true;
    steps_.emplace_back(SpellOut);
  } else if (type == "ByteFallback") {
    byte_fallback_ = true;
    steps_.emplace_back(JoinBytes);
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse);
  } else if (type == "Replace") {
    const nlohmann::json* const pattern = fields.Find("pattern");
    if (pattern == nullptr || !pattern->is_object() || !pattern->contains("String") ||
        !(*pattern)["String"].is_string()) {
      return fields.Error("pattern", "must be {\"String\": text}");
    }
    const std::string from = (*pattern)["String"].get<std::string>();
    if (from.empty()) return fields.Error("pattern", "must not be empty");
    QUIRE_ASSIGN_OR_RETURN(const std::string to, fields.String("content", ""));
    replaced_.emplace_back(from, to);
    steps_.emplace_back([from, to](std::vector<std::string>* tokens) {
      for (std::string& token : *tokens) token = ReplaceAll(token, from, to);
    });
  } else if (type == "Strip") {
    QUIRE_ASSIGN_OR_RETURN(const std::string what, fields.String("content", " "));
    QUIRE_ASSIGN_OR_RETURN(const uint32_t start, fields.UInt("start", 0, 1 << 20, 0));
    QUIRE_ASSIGN_OR_RETURN(const uint32_t stop, fields.UInt("stop", 0, 1 << 20, 0));
    if (what.empty()) return fields.Error("content", "must not be empty");
    stripped_ = what;
    most_stripped_ = start;
    steps_.emplace_back([what, start, stop](std::vector<std::string>* tokens) {
      for (std::string& token : *tokens)
        token = StripEnd(StripStart(token, what, start), what, stop);
    });
  } else if (type == "Metaspace") {
    QUIRE_ASSIGN_OR_RETURN(const std::string mark, fields.String("replacement", "\u2581"));
    QUIRE_RETURN_IF_ERROR(fields.String("str_rep", mark).status());
    QUIRE_ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space", true));
    QUIRE_ASSIGN_OR_RETURN(const std::string scheme,
                           fields.String("prepend_scheme", prefix ? "always" : "never"));
    QUIRE_RETURN_IF_ERROR(fields.Bool("split", true).status());
    const bool strips = scheme != "never";
    replaced_.emplace_back(mark, " ");
    if (strips) stripped_ = " ", most_stripped_ = std::numeric_limits<size_t>::max();
    steps_.emplace_back([mark, strips](std::vector<std::string>* tokens) {
      for (size_t i = 0; i < tokens->size(); ++i) {
        (*tokens)[i] = ReplaceAll((*tokens)[i], mark, i == 0 && strips ? "" : " ");
      }
    });
  } else {
    return fields.Error(
        "type", "is \"", type,
        "\"; known are ByteLevel, ByteFallback, Replace, Fuse, Strip, Metaspace, Sequence");
  }
  return OkStatus();
}

std::string TokenDecoder::Decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) step(&tokens);
  Fuse(&tokens);
  return std::move(tokens.front());
}

std::string TokenDecoder::BytesOf(std::string_view token, bool first) const {
  if (byte_level_) return BytesOfSpelling(token).value_or(std::string(token));
  if (byte_fallback_) {
    if (const auto byte = FallbackByte(token)) return std::string(1, *byte);
  }
  std::string text(token);
  for (const auto& [from, to] : replaced_) text = ReplaceAll(text, from, to);
  return first ? StripStart(text, stripped_, most_stripped_) : text;
}

}  // namespace quire::worker
