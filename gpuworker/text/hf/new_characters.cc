// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/new_characters.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

namespace quire::worker {
namespace {

/// Code points in hexadecimal. tools/golden/make_text_golden.py --unicode prints them.
// clang-format off
constexpr std::pair<std::string_view, std::string_view> kRanges[] = {
    {"L",
     "1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D4A-10D65 10D6F-10D85 10EC2-10EC4 "
     "1123F-11240 11380-11389 1138B 1138E 11390-113B5 113B7 113D1 113D3 11BC0-11BE0 11F02 "
     "11F04-11F10 11F12-11F33 1342F 13441-13446 13460-143FA 16100-1611D 16D40-16D6C 18CFF "
     "1B132 1B155 1DF25-1DF2A 1E030-1E06D 1E4D0-1E4EB 1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D "
     "31350-323AF"},
    {"Lu",
     "1C89 A7CB-A7CC A7DA A7DC 10D50-10D65"},
    {"Ll",
     "1C8A A7CD A7DB 10D70-10D85 1DF25-1DF2A"},
    {"Lm",
     "10D4E 10D6F 16D40-16D42 16D6B-16D6C 1E030-1E06D 1E4EB"},
    {"Lo",
     "105C0-105F3 10D4A-10D4D 10D4F 10EC2-10EC4 1123F-11240 11380-11389 1138B 1138E "
     "11390-113B5 113B7 113D1 113D3 11BC0-11BE0 11F02 11F04-11F10 11F12-11F33 1342F "
     "13441-13446 13460-143FA 16100-1611D 16D43-16D6A 18CFF 1B132 1B155 1E4D0-1E4EA "
     "1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D 31350-323AF"},
    {"M",
     "897 CF3 ECE 10D69-10D6D 10EFC-10EFF 11241 113B8-113C0 113C2 113C5 113C7-113CA "
     "113CC-113D0 113D2 113E1-113E2 11F00-11F01 11F03 11F34-11F3A 11F3E-11F42 11F5A 13440 "
     "13447-13455 1611E-1612F 1E08F 1E4EC-1E4EF 1E5EE-1E5EF"},
    {"N",
     "10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9 "
     "1D2C0-1D2D3 1E4F0-1E4F9 1E5F1-1E5FA"},
    {"Nd",
     "10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9 "
     "1E4F0-1E4F9 1E5F1-1E5FA"},
};

/// First and last code points, in order. The script prints them, too.
constexpr std::pair<int32_t, int32_t> kNewMarks[] = {
    {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C},
    {0xD3B, 0xD3C}, {0xEBA, 0xEBA}, {0x1715, 0x1715}, {0x1ABF, 0x1ACE}, {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x16FF0, 0x16FF1}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
};
// clang-format on

}  // namespace

bool IsNewMark(int32_t code) {
  if (code < kNewMarks[0].first) return false;
  const auto after = std::ranges::upper_bound(
      kNewMarks, code, {}, [](const std::pair<int32_t, int32_t>& range) { return range.first; });
  return code <= std::prev(after)->second;
}

bool IsNewWordCharacter(int32_t code) {
  static const std::vector<std::pair<int32_t, int32_t>> words = [] {
    std::vector<std::pair<int32_t, int32_t>> all;
    for (const auto& [name, ranges] : kRanges) {
      if (name != "L" && name != "M" && name != "Nd") continue;
      std::istringstream texts{std::string(ranges)};
      for (std::string text; texts >> text;) {
        const size_t dash = text.find('-');
        const auto last = dash == text.npos ? text : text.substr(dash + 1);
        all.emplace_back(std::stoi(text, nullptr, 16), std::stoi(last, nullptr, 16));
      }
    }
    return all;
  }();
  return std::ranges::any_of(words, [code](const std::pair<int32_t, int32_t>& range) {
    return range.first <= code && code <= range.second;
  });
}

std::string NewCharacters(std::string_view category) {
  for (const auto& [name, ranges] : kRanges) {
    if (name != category) continue;
    std::istringstream words{std::string(ranges)};
    std::string out;
    for (std::string word; words >> word;) {
      const size_t dash = word.find('-');
      out += "\\x{" + word.substr(0, dash) + "}";
      if (dash != word.npos) out += "-\\x{" + word.substr(dash + 1) + "}";
    }
    return out;
  }
  return "";
}

}  // namespace quire::worker
