// SPDX-License-Identifier: Apache-2.0
#include "common/base/trace/trace_context.h"

#include <span>

namespace quire {
namespace {

constexpr size_t kTraceparentBytes = 55;
constexpr uint8_t kSampledFlag = 1;

void AppendHex(std::span<const uint8_t> bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const uint8_t byte : bytes) {
    out->push_back(kDigits[byte >> 4]);
    out->push_back(kDigits[byte & 15]);
  }
}

/// Nullopt unless `c` is a lower-case hex digit, the only ones that the standard has.
std::optional<uint8_t> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

/// Reads as many digits as `out` has room for. REQUIRES: `text` has them.
bool ReadHex(std::string_view text, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto high = HexDigit(text[2 * i]);
    const auto low = HexDigit(text[2 * i + 1]);
    if (!high || !low) return false;
    out[i] = static_cast<uint8_t>(*high << 4 | *low);
  }
  return true;
}

}  // namespace

std::string FormatTraceparent(const TraceContext& context) {
  std::string text = "00-";
  text.reserve(kTraceparentBytes);
  AppendHex(context.trace_id, &text);
  text.push_back('-');
  AppendHex(context.span_id, &text);
  text += context.sampled ? "-01" : "-00";
  return text;
}

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kTraceparentBytes) return std::nullopt;
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  std::array<uint8_t, 1> version = {}, flags = {};
  TraceContext context;
  const bool digits = ReadHex(text, version) && ReadHex(text.substr(3), context.trace_id) &&
                      ReadHex(text.substr(36), context.span_id) && ReadHex(text.substr(53), flags);
  if (!digits || version[0] == 0xff || !context.valid()) return std::nullopt;
  const bool more = text.size() > kTraceparentBytes;
  if (more && (version[0] == 0 || text[kTraceparentBytes] != '-')) return std::nullopt;
  context.sampled = (flags[0] & kSampledFlag) != 0;
  return context;
}

}  // namespace quire
