// SPDX-License-Identifier: Apache-2.0
#include "common/base/quantity.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace quire {
namespace {

using Unit = std::pair<std::string_view, uint64_t>;

constexpr uint64_t Power(uint64_t base, int exponent) {
  return exponent == 0 ? 1 : base * Power(base, exponent - 1);
}

constexpr std::array<Unit, 17> kByteUnits = {{{"", 1},
                                              {"b", 1},
                                              {"k", Power(1000, 1)},
                                              {"kb", Power(1000, 1)},
                                              {"kib", Power(1024, 1)},
                                              {"m", Power(1000, 2)},
                                              {"mb", Power(1000, 2)},
                                              {"mib", Power(1024, 2)},
                                              {"g", Power(1000, 3)},
                                              {"gb", Power(1000, 3)},
                                              {"gib", Power(1024, 3)},
                                              {"t", Power(1000, 4)},
                                              {"tb", Power(1000, 4)},
                                              {"tib", Power(1024, 4)},
                                              {"p", Power(1000, 5)},
                                              {"pb", Power(1000, 5)},
                                              {"pib", Power(1024, 5)}}};

constexpr std::array<Unit, 6> kSecondUnits = {
    {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}}};

/// nullopt when `text` is not a number and unit, or above `max`.
std::optional<uint64_t> Parse(std::string_view text, std::span<const Unit> units, uint64_t max) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  std::string suffix(stopped, end);
  for (char& c : suffix) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const auto& [name, factor] : units) {
    if (name != suffix) continue;
    if (number > max / factor) return std::nullopt;
    return number * factor;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<uint64_t> ParseBytes(std::string_view text) {
  const auto bytes = Parse(text, kByteUnits, std::numeric_limits<uint64_t>::max());
  if (bytes) return *bytes;
  return InvalidArgument("'", text, "' is no size: write a whole number and a unit, as in 64KiB, ",
                         "512MiB, 4GiB or 1TB");
}

StatusOr<std::chrono::seconds> ParseSeconds(std::string_view text) {
  const auto seconds = Parse(text, kSecondUnits, std::numeric_limits<int64_t>::max());
  if (seconds) return std::chrono::seconds(static_cast<int64_t>(*seconds));
  return InvalidArgument("'", text, "' is no duration: write a whole number and a unit, as in ",
                         "90s, 15m, 12h, 7d or 2w");
}

std::string FormatSeconds(std::chrono::seconds seconds) {
  const int64_t count = seconds.count();
  for (const auto& [unit, factor] : {Unit{"d", 86400}, Unit{"h", 3600}, Unit{"m", 60}}) {
    const auto whole = static_cast<int64_t>(factor);
    if (count != 0 && count % whole == 0) return std::to_string(count / whole).append(unit);
  }
  return std::to_string(count) + "s";
}

}  // namespace quire
