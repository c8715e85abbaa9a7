// SPDX-License-Identifier: Apache-2.0
//
// Random: the source of all randomness. SeededRandom repeats the same sequence for a seed on every
// machine; it serves tests, samplers and jitter. SystemRandom is the operating system's generator,
// for secrets.
#ifndef QUIRE_COMMON_BASE_RANDOM_H_
#define QUIRE_COMMON_BASE_RANDOM_H_

#include <cstdint>
#include <span>

namespace quire {

class Random {
 public:
  virtual ~Random() = default;

  /// Returns a uniform 64-bit value.
  virtual uint64_t Next() = 0;

  /// Uniform in [0, bound); bound > 0. The modulo bias is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  /// Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  /// Standard normal (Box-Muller, one value a call).
  float Normal();
  void Fill(std::span<uint8_t> out);
};

/// SplitMix64. Thread-safety: none; give each thread its own.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

/// The operating system's generator. Thread-safe. The process aborts when it fails: no session id
/// and no salt can be trusted without it.
Random& SystemRandom();

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_RANDOM_H_
