// SPDX-License-Identifier: Apache-2.0
//
// Characters of text that is valid UTF-8. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_TEXT_HF_UNICODE_H_
#define QUIRE_GPUWORKER_TEXT_HF_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::worker {

struct Character {
  int32_t code = 0;  ///< Its code point.
  size_t bytes = 0;
};

/// First and last character of `text`, which is not empty.
Character FirstCharacter(std::string_view text);
Character LastCharacter(std::string_view text);

bool IsAscii(std::string_view text);
/// Unicode's property White_Space.
bool IsWhiteSpace(int32_t code);
/// A letter, mark, decimal digit, connector or joiner, as `\w` of Unicode's regular expressions.
bool IsWordCharacter(int32_t code);
/// Any number: Unicode's categories Nd, Nl and No.
bool IsNumeric(int32_t code);

/// UTF-8 of a code point.
std::string Utf8Of(int32_t code);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_UNICODE_H_
