// SPDX-License-Identifier: Apache-2.0
//
// Characters of Unicode 15 and 16. The regular expressions of `tokenizers` know them; PCRE2 10.42,
// whose tables are those of Unicode 14, does not.
#ifndef QUIRE_GPUWORKER_TEXT_NEW_CHARACTERS_H_
#define QUIRE_GPUWORKER_TEXT_NEW_CHARACTERS_H_

#include <string>
#include <string_view>

namespace quire::worker {

/// Ranges for a character class of PCRE2: the characters of `category`, as "L" or "Nd", that came
/// after Unicode 14. Empty for a category without any.
std::string NewCharacters(std::string_view category);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_NEW_CHARACTERS_H_
