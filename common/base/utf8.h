// SPDX-License-Identifier: Apache-2.0
//
// UTF-8: validation, and joining of text whose bytes arrive in pieces. Characters are those of RFC
// 3629: no overlong forms, no surrogates, nothing past U+10FFFF. Thread-safety: pure functions; a
// joiner belongs to one thread.
#ifndef QUIRE_COMMON_BASE_UTF8_H_
#define QUIRE_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Replacement for invalid bytes: U+FFFD.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// Bytes of the first character of `text`. 0 when it is invalid or `text` is empty.
size_t Utf8Length(std::string_view text);

/// Offset of the first byte outside a whole character; nullopt when there is none.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

/// Returns `text` with kReplacementCharacter for invalid bytes: one for each longest truncated
/// character, one for every other byte.
std::string ReplaceInvalidUtf8(std::string_view text);

/// Returns the longest prefix of whole characters of at most `max_bytes`.
std::string_view CutUtf8(std::string_view text, size_t max_bytes);

/// Joins text whose pieces may end inside a character. It returns whole characters and holds back
/// at most three bytes of an incomplete one.
class Utf8Joiner {
 public:
  /// Adds `bytes` and returns the characters that are complete now. Invalid bytes are replaced as
  /// in ReplaceInvalidUtf8.
  std::string Add(std::string_view bytes);
  /// Ends the text. Returns kReplacementCharacter for an incomplete character, otherwise nothing.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_UTF8_H_
