// SPDX-License-Identifier: Apache-2.0
//
// UTF-8: where a text stops being whole characters, and text that is made whole although its bytes
// come in pieces. Characters are those of RFC 3629: no overlong forms, no surrogates, nothing past
// U+10FFFF. Thread-safety: pure functions; a joiner belongs to one thread.
#ifndef QUIRE_COMMON_BASE_UTF8_H_
#define QUIRE_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Stands for bytes that are no character: U+FFFD.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// Bytes of the character that `text` begins with; 0 when it begins with none or is empty.
size_t Utf8Length(std::string_view text);

/// Offset of the first byte that is no part of a whole character; nullopt when there is none.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

/// `text` with kReplacementCharacter in place of what is no character: one for each longest run of
/// bytes that begins a character, one for every other byte.
std::string ReplaceInvalidUtf8(std::string_view text);

/// The first bytes of `text`, at most `max_bytes`, cut where a character ends.
std::string_view CutUtf8(std::string_view text, size_t max_bytes);

/// Text whose bytes come in pieces that may end inside a character. What it gives out is whole
/// characters: the beginning of one is held back, three bytes at most, until the rest comes.
class Utf8Joiner {
 public:
  /// Takes `bytes`. Returns the characters that are whole now; bytes that can belong to none are
  /// replaced as in ReplaceInvalidUtf8.
  std::string Add(std::string_view bytes);
  /// No more bytes come. Returns kReplacementCharacter for a beginning that is held back, otherwise
  /// nothing.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_UTF8_H_
