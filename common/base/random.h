// SPDX-License-Identifier: Apache-2.0
//
// Random: the only source of randomness. The same seed gives the same sequence on every machine
// (SplitMix64); not for secrets, use SecureRandomBytes for those.
// Thread-safety: none; give each thread its own.
#ifndef QUIRE_COMMON_BASE_RANDOM_H_
#define QUIRE_COMMON_BASE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <span>

namespace quire {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound); bound > 0. The modulo bias is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  /// Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  /// Standard normal (Box-Muller, one value a call).
  float Normal() {
    const double u = 1.0 - Uniform();
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) *
                              std::cos(6.283185307179586 * Uniform()));
  }

 private:
  uint64_t state_;
};

/// Fills `out` from the operating system's generator; for session ids and tenant salts.
void SecureRandomBytes(std::span<uint8_t> out);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_RANDOM_H_
