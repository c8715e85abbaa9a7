// SPDX-License-Identifier: Apache-2.0
//
// Table: columns for people, padded to the widest cell, two spaces apart. Also the one place that
// turns numbers into text for people (bytes, durations, times). Programs read --json instead.
// Thread-safety: none.
//
//   Table table({{"NAME"}, {"TOKENS", Table::kRight}});
//   table.AddRow({"alice", FormatCount(4096)});
//   table.Print(std::cout);
#ifndef QUIRE_APPS_KIT_OUTPUT_TABLE_H_
#define QUIRE_APPS_KIT_OUTPUT_TABLE_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "quire/clock.h"

namespace quire::cli {

class Table {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Missing cells stay empty; cells past the last column are dropped.
  void AddRow(std::vector<std::string> cells);
  size_t num_rows() const { return rows_.size(); }
  /// Titles, then the rows in the order they were added; no trailing spaces.
  void Print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// 1536 -> "1.5 KiB"; below 1 KiB "512 B".
std::string FormatBytes(uint64_t bytes);
/// 1234567 -> "1,234,567".
std::string FormatCount(uint64_t count);
/// Three significant digits with the unit that fits: "850 ns", "12.3 us", "4.56 ms", "7.89 s", "2
/// min 5 s".
std::string FormatDuration(Duration duration);
/// UTC, "2024-05-17 13:45:09"; "-" for 0.
std::string FormatTime(int64_t unix_micros);
/// Fixed point with `digits` decimals: FormatRatio(0.12345, 3) == "0.123".
std::string FormatRatio(double value, int digits = 3);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_TABLE_H_
