// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/filter/filter_value.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

namespace quire::kvserver {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

template <typename T>
std::optional<T> Parse(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || text.empty()) return std::nullopt;
  return value;
}

/// Reads the fields of a time from left to right. The first failure stays.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}
  /// Exactly `digits` digits, with a value in [low, high].
  int Number(size_t digits, int low, int high) {
    const auto value = rest_.size() < digits || rest_[0] == '-'
                           ? std::nullopt
                           : Parse<int>(rest_.substr(0, digits));
    if (!value || *value < low || *value > high) return Fail();
    rest_.remove_prefix(digits);
    return *value;
  }
  bool Skip(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Expect(char c) {
    if (!Skip(c)) Fail();
  }
  /// Digits of a fraction of a second, in microseconds; finer ones are cut.
  int64_t Fraction() {
    int64_t micros = 0, unit = kSecond / 10;
    size_t digits = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; ++digits) {
      micros += (rest_[0] - '0') * unit;
      unit /= 10;
      rest_.remove_prefix(1);
    }
    return digits == 0 ? Fail() : micros;
  }
  int Fail() {
    ok_ = false;
    return 0;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

/// Midnight of a date; fails for one that no month has.
int64_t ReadDate(TimeReader& in) {
  const int year = in.Number(4, 1970, 9999);
  in.Expect('-');
  const int month = in.Number(2, 1, 12);
  in.Expect('-');
  const int day = in.Number(2, 1, 31);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!in.ok() || !date.ok()) return in.Fail();
  return std::chrono::sys_days(date).time_since_epoch().count() * kDay;
}

/// "Z", "+01:00": what to subtract.
int64_t ReadOffset(TimeReader& in) {
  if (in.Skip('Z') || in.Skip('z')) return 0;
  const bool east = in.Skip('+');
  if (!east) in.Expect('-');
  const int hours = in.Number(2, 0, 23);
  in.Expect(':');
  const int minutes = in.Number(2, 0, 59);
  return (east ? 1 : -1) * (hours * 3600 + minutes * 60) * kSecond;
}

}  // namespace

std::optional<uint64_t> CountOf(std::string_view text) { return Parse<uint64_t>(text); }

std::optional<double> NumberOf(std::string_view text) {
  const auto value = Parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<uint64_t> SizeOf(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{
      {"KiB", 1024.0},
      {"MiB", 1048576.0},
      {"GiB", 1073741824.0},
      {"TiB", 1099511627776.0},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9},
      {"TB", 1e12},
      {"B", 1.0},
  }};
  if (const auto plain = CountOf(text)) return plain;
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = NumberOf(text.substr(0, text.size() - unit.size()));
    if (!number || *number < 0 || *number * factor >= 0x1p63) return std::nullopt;
    return static_cast<uint64_t>(std::llround(*number * factor));
  }
  return std::nullopt;
}

std::optional<bool> TruthOf(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<TimeSpan> TimeOf(std::string_view text) {
  TimeReader in(text);
  const int64_t midnight = ReadDate(in);
  if (!in.ok()) return std::nullopt;
  if (in.at_end()) return TimeSpan{midnight, midnight + kDay - 1};
  if (!in.Skip('T') && !in.Skip('t')) return std::nullopt;
  const int hours = in.Number(2, 0, 23);
  in.Expect(':');
  const int minutes = in.Number(2, 0, 59);
  in.Expect(':');
  const int seconds = in.Number(2, 0, 60);
  const bool exact = in.Skip('.');
  const int64_t fraction = exact ? in.Fraction() : 0;
  const int64_t offset = ReadOffset(in);
  if (!in.ok() || !in.at_end()) return std::nullopt;
  const int64_t first =
      midnight + (hours * 3600 + minutes * 60 + seconds) * kSecond + fraction - offset;
  return TimeSpan{first, exact ? first : first + kSecond - 1};
}

}  // namespace quire::kvserver
