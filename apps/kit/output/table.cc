// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <utility>

namespace quire::cli {
namespace {

template <typename... Args>
std::string Printf(const char* format, Args... args) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

/// Characters that a UTF-8 string takes on a terminal, counting each code point as one.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void PrintRow(std::ostream& out, const std::vector<std::string>& cells,
              const std::vector<size_t>& widths, const std::vector<Table::Align>& aligns) {
  std::string line;
  for (size_t i = 0; i < widths.size(); ++i) {
    const size_t padding = widths[i] - Width(cells[i]);
    if (i > 0) line.append(2, ' ');
    if (aligns[i] == Table::kRight) line.append(padding, ' ');
    line.append(cells[i]);
    if (aligns[i] == Table::kLeft) line.append(padding, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out) const {
  std::vector<std::string> titles;
  std::vector<Align> aligns;
  std::vector<size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    aligns.push_back(column.align);
    widths.push_back(Width(column.title));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  PrintRow(out, titles, widths, aligns);
  for (const auto& row : rows_) PrintRow(out, row, widths, aligns);
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return Printf("%llu B", static_cast<unsigned long long>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return Printf("%.1f %s", value, kUnits[unit]);
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string FormatDuration(Duration duration) {
  struct Unit {
    const char* name;
    double nanoseconds;
  };
  static constexpr std::array<Unit, 4> kUnits = {{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  const double ns = static_cast<double>(duration.count());
  if (ns >= 120e9) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
    return Printf("%lld min %lld s", static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  }
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && ns >= 999.5 * kUnits[unit].nanoseconds) ++unit;
  return Printf("%.3g %s", ns / kUnits[unit].nanoseconds, kUnits[unit].name);
}

std::string FormatTime(int64_t unix_micros) {
  if (unix_micros == 0) return "-";
  const std::time_t seconds = unix_micros / 1'000'000;
  std::tm utc;
  if (gmtime_r(&seconds, &utc) == nullptr) return "-";
  std::array<char, 32> text;
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &utc);
  return std::string(text.data(), size);
}

std::string FormatRatio(double value, int digits) { return Printf("%.*f", digits, value); }

}  // namespace quire::cli
