// SPDX-License-Identifier: Apache-2.0
//
// Characters that one library knows and another does not. The regular expressions of `tokenizers`
// know Unicode 16, PCRE2 10.42 knows 14. The normalizers of `tokenizers` know Unicode 8 or 9,
// utf8proc knows 14. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_TEXT_HF_NEW_CHARACTERS_H_
#define QUIRE_GPUWORKER_TEXT_HF_NEW_CHARACTERS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::worker {

/// Ranges for a character class of PCRE2: the characters of `category`, as "L" or "Nd", that came
/// after Unicode 14. Empty for a category without any.
std::string NewCharacters(std::string_view category);

/// A letter, mark or digit that came after Unicode 14.
bool IsNewWordCharacter(int32_t code);

/// A combining mark that the normalizers of `tokenizers` take for a letter: no mark moves past it.
bool IsNewMark(int32_t code);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_NEW_CHARACTERS_H_
