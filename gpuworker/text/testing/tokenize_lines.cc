// SPDX-License-Identifier: Apache-2.0
//
// tokenize_lines TOKENIZER_JSON [--seconds]: reads texts in hexadecimal, one a line. For each it
// prints the ids, a tab, and their text in hexadecimal. tools/golden/make_text_golden.py --check
// compares that with `tokenizers`. With --seconds it prints how long encoding all texts takes: the
// shortest of five times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

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

/// The shortest of five times in seconds.
double TimeAll(const quire::worker::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& text : texts) (void)tokenizer.Encode(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const bool timed = argc == 3 && std::string(argv[2]) == "--seconds";
  if (argc != 2 && !timed) {
    std::cerr << "usage: tokenize_lines TOKENIZER_JSON [--seconds] < LINES\n";
    return 2;
  }
  const auto tokenizer = quire::worker::Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << quire::Message(tokenizer.status()) << "\n";
    return 1;
  }
  if (timed) {
    std::vector<std::string> texts;
    for (std::string line; std::getline(std::cin, line);) texts.push_back(FromHex(line));
    std::cout << TimeAll(*tokenizer, texts) << '\n';
    return 0;
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
