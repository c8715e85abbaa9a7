// SPDX-License-Identifier: Apache-2.0
//
// Quantities as people write them on command lines and in configuration files. A quantity is a
// whole number and a unit, without a space or a sign; units are read in either case.
//
//   bytes     512, 512B, 64KiB, 4GiB, 1TB   KiB, MiB, ... are powers of 1024; KB (and K), MB (and
//   M),
//                                           ... powers of 1000; no unit means bytes
//   seconds   90s, 15m, 12h, 7d, 2w         no unit means seconds
//
// Thread-safety: pure functions. Errors: INVALID_ARGUMENT quoting the text and saying what to
// write.
#ifndef QUIRE_COMMON_BASE_QUANTITY_H_
#define QUIRE_COMMON_BASE_QUANTITY_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace quire {

[[nodiscard]] StatusOr<uint64_t> ParseBytes(std::string_view text);
[[nodiscard]] StatusOr<std::chrono::seconds> ParseSeconds(std::string_view text);

/// Formats `seconds` in the largest unit, up to days, that divides it: "7d", "36h", "90s".
/// ParseSeconds reads it back. REQUIRES: not negative.
[[nodiscard]] std::string FormatSeconds(std::chrono::seconds seconds);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_QUANTITY_H_
