// SPDX-License-Identifier: Apache-2.0
//
// The 256 characters that spell bytes in GPT-2's vocabulary (Radford et al., 2019). A byte that
// prints in Latin-1 is that character. The others are U+0100 and on, in order.
#ifndef QUIRE_GPUWORKER_TEXT_HF_BYTE_ALPHABET_H_
#define QUIRE_GPUWORKER_TEXT_HF_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace quire::worker {

/// The bytes that `token` spells; nullopt when a character of it is not of the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view token);

/// The character, in UTF-8, that spells `byte`.
std::string SpellingOfByte(unsigned char byte);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_BYTE_ALPHABET_H_
