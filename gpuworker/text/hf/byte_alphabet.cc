// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "gpuworker/text/hf/unicode.h"

namespace quire::worker {
namespace {

constexpr int32_t kFirstOther = 0x100;
constexpr size_t kCharacters = 0x144;  ///< All code points of the alphabet are below.

bool IsItself(int32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<int32_t, 256> code{};          ///< By byte.
  std::array<int32_t, kCharacters> byte{};  ///< By code point; -1 for one that is not in it.
};

Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  int32_t other = kFirstOther;
  for (int32_t byte = 0; byte < 256; ++byte) {
    const int32_t code = IsItself(byte) ? byte : other++;
    alphabet.code[byte] = code;
    alphabet.byte[code] = byte;
  }
  return alphabet;
}

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = MakeAlphabet();
  return alphabet;
}

}  // namespace

std::optional<std::string> BytesOfSpelling(std::string_view token) {
  const Alphabet& alphabet = TheAlphabet();
  std::string bytes;
  while (!token.empty()) {
    const auto [code, size] = FirstCharacter(token);
    if (code < 0 || static_cast<size_t>(code) >= kCharacters || alphabet.byte[code] < 0)
      return std::nullopt;
    bytes += static_cast<char>(alphabet.byte[code]);
    token.remove_prefix(size);
  }
  return bytes;
}

std::string SpellingOfByte(unsigned char byte) { return Utf8Of(TheAlphabet().code[byte]); }

}  // namespace quire::worker
