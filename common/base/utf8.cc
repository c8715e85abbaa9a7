// SPDX-License-Identifier: Apache-2.0
#include "common/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace quire {
namespace {

enum class Kind : uint8_t { kWhole, kBeginning, kInvalid };

/// First bytes of a text: a character, an incomplete one, or invalid bytes.
struct Sequence {
  Kind kind = Kind::kInvalid;
  size_t bytes = 0;  ///< Length of the character, of the incomplete one, or of the replaced bytes.
};

/// Bytes of a character with this first byte; 0 when none has it.
size_t LengthByLead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
}

/// True when `next` may follow `lead`. The second byte excludes overlong forms, surrogates and
/// values past U+10FFFF.
bool MaySecondFollow(unsigned char lead, unsigned char next) {
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return next >= low && next <= high;
}

/// REQUIRES: `text` is not empty.
Sequence First(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = LengthByLead(byte(0));
  if (length == 0) return {Kind::kInvalid, 1};
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Kind::kBeginning, i};
    const bool follows = i == 1 ? MaySecondFollow(byte(0), byte(1)) : (byte(i) & 0xc0) == 0x80;
    if (!follows) return {Kind::kInvalid, i};
  }
  return {Kind::kWhole, length};
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const Sequence first = First(text);
  return first.kind == Kind::kWhole ? first.bytes : 0;
}

std::optional<size_t> FirstInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  Utf8Joiner joiner;
  std::string whole = joiner.Add(text);
  whole += joiner.Finish();
  return whole;
}

std::string_view CutUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  const size_t earliest = max_bytes - std::min<size_t>(max_bytes, 3);
  while (end > earliest && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::string Utf8Joiner::Add(std::string_view bytes) {
  const std::string all = std::exchange(held_, {}).append(bytes);
  std::string whole;
  for (std::string_view rest = all; !rest.empty();) {
    const Sequence first = First(rest);
    if (first.kind == Kind::kBeginning) {
      held_ = rest;
      break;
    }
    whole += first.kind == Kind::kWhole ? rest.substr(0, first.bytes) : kReplacementCharacter;
    rest.remove_prefix(first.bytes);
  }
  return whole;
}

std::string Utf8Joiner::Finish() {
  return std::exchange(held_, {}).empty() ? std::string() : std::string(kReplacementCharacter);
}

}  // namespace quire
