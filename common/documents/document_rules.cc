// SPDX-License-Identifier: Apache-2.0
#include "common/documents/document_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "common/base/utf8.h"

namespace quire {
namespace {

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsKeyByte(char c) {
  return IsLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/// UTF-8 without control characters, at most `most` bytes.
bool IsPrintable(std::string_view text, size_t most) {
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
  };
  return text.size() <= most && std::ranges::none_of(text, is_control) && !FirstInvalidUtf8(text);
}

Status CheckTagValue(std::string_view key, const TagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (IsPrintable(*text, kMaxTagTextBytes)) return OkStatus();
    return InvalidArgument("tag '", key, "' has a text that is not UTF-8 of at most ",
                           kMaxTagTextBytes, " bytes without control characters");
  }
  if (const auto* number = std::get_if<double>(&value); number && !std::isfinite(*number)) {
    return InvalidArgument("tag '", key, "' is not a finite number");
  }
  return OkStatus();
}

}  // namespace

StatusOr<uint64_t> VersionAfter(uint64_t highest) {
  if (highest < std::numeric_limits<uint64_t>::max()) return highest + 1;
  return ResourceExhausted("version ", highest,
                           " is the last one; delete it, or name a lower version");
}

Status CheckTagKey(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxTagKeyBytes && IsLetter(key[0]) &&
      std::ranges::all_of(key, IsKeyByte)) {
    return OkStatus();
  }
  return InvalidArgument("a tag's key must be 1..", kMaxTagKeyBytes,
                         " bytes of a-z, 0-9, '_', '.' and '-', and begin with a letter; got ",
                         key.size(), " bytes: '", ReplaceInvalidUtf8(key.substr(0, 64)), "'");
}

Status CheckTags(const Tags& tags) {
  if (tags.size() > kMaxTags) {
    return InvalidArgument(tags.size(), " tags: a document has at most ", kMaxTags);
  }
  for (const auto& [key, value] : tags) {
    QUIRE_RETURN_IF_ERROR(CheckTagKey(key));
    QUIRE_RETURN_IF_ERROR(CheckTagValue(key, value));
  }
  return OkStatus();
}

Status CheckSource(std::string_view source) {
  if (IsPrintable(source, kMaxSourceBytes)) return OkStatus();
  return InvalidArgument("the source is not UTF-8 of at most ", kMaxSourceBytes,
                         " bytes without control characters; it has ", source.size(), " bytes");
}

Status CheckFailure(std::string_view reason) {
  if (!reason.empty() && IsPrintable(reason, kMaxFailureBytes)) return OkStatus();
  return InvalidArgument("the reason of a failure must be 1..", kMaxFailureBytes,
                         " bytes of UTF-8 without control characters; it has ", reason.size());
}

Status CheckExtraName(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxExtraNameBytes && std::ranges::all_of(name, IsKeyByte)) {
    return OkStatus();
  }
  return InvalidArgument("an extra's name must be 1..", kMaxExtraNameBytes,
                         " bytes of a-z, 0-9, '_', '.' and '-'");
}

}  // namespace quire
