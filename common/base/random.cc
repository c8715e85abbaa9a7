// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace quire {
namespace {

class OsRandom final : public Random {
 public:
  uint64_t Next() override {
    uint64_t value = 0;
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&value), sizeof value) != 1) std::abort();
    return value;
  }
};

}  // namespace

float Random::Normal() {
  const double u = 1.0 - Uniform();
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) *
                            std::cos(6.283185307179586 * Uniform()));
}

void Random::Fill(std::span<uint8_t> out) {
  while (!out.empty()) {
    const uint64_t value = Next();
    const size_t count = std::min(out.size(), sizeof value);
    std::memcpy(out.data(), &value, count);
    out = out.subspan(count);
  }
}

Random& SystemRandom() {
  static OsRandom random;
  return random;
}

}  // namespace quire
