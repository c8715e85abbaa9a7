// SPDX-License-Identifier: Apache-2.0
//
// Damage to files that nobody has open. UNAVAILABLE when a file cannot be changed.
#ifndef QUIRE_BENCH_TORTURE_FILE_DAMAGE_H_
#define QUIRE_BENCH_TORTURE_FILE_DAMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::torture {

/// Overwrites `bytes.size()` bytes at `offset`.
[[nodiscard]] Status Overwrite(const std::string& file, uint64_t offset, std::string_view bytes);

/// Flips bit `bit`, 0 to 7, of the byte at `offset`, which the file has.
[[nodiscard]] Status FlipBit(const std::string& file, uint64_t offset, uint64_t bit);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_FILE_DAMAGE_H_
