// SPDX-License-Identifier: Apache-2.0
//
// tokenize_lines TOKENIZER_JSON: reads texts in hexadecimal, one a line, and prints for each its
// ids, a tab, and their text in hexadecimal. tools/golden/make_text_golden.py --check compares that
// with `tokenizers`.
#include <array>
#include <cstdio>
#include <iostream>
#include <string>

#include "gpuworker/text/tokenizer.h"

namespace {

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string ToHex(const std::string& bytes) {
  std::string digits;
  for (const char c : bytes) {
    std::array<char, 3> pair{};
    std::snprintf(pair.data(), pair.size(), "%02x", static_cast<unsigned char>(c));
    digits += pair.data();
  }
  return digits;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines TOKENIZER_JSON < LINES\n";
    return 2;
  }
  const auto tokenizer = quire::worker::Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << quire::Message(tokenizer.status()) << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto ids = tokenizer->Encode(FromHex(line));
    if (!ids.ok()) {
      std::cerr << quire::Message(ids.status()) << "\n";
      return 1;
    }
    for (size_t i = 0; i < ids->size(); ++i) std::cout << (i > 0 ? " " : "") << (*ids)[i];
    std::cout << '\t' << ToHex(*tokenizer->Decode(*ids)) << '\n';
  }
  return 0;
}
