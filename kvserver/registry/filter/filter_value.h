// SPDX-License-Identifier: Apache-2.0
//
// Values of a filter: numbers, sizes with units, and times. Pure functions on untrusted text;
// nullopt for what is not such a value.
#ifndef QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_VALUE_H_
#define QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_VALUE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire::kvserver {

/// A whole number, not negative.
std::optional<uint64_t> CountOf(std::string_view text);
/// A finite number.
std::optional<double> NumberOf(std::string_view text);
/// A whole number of bytes: "4096", "1.5GiB", "20MB". Units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB.
std::optional<uint64_t> SizeOf(std::string_view text);
/// "true" or "false".
std::optional<bool> TruthOf(std::string_view text);

/// A span of time, in microseconds since 1970 in UTC.
struct TimeSpan {
  int64_t first = 0;
  int64_t last = 0;  ///< Inclusive.
};
/// A date, which is its whole day in UTC, or a time of RFC 3339, which is its whole second, or one
/// instant when it has a fraction.
std::optional<TimeSpan> TimeOf(std::string_view text);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_VALUE_H_
