// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/stream_readers.h"

namespace quire::bench {

uint64_t SumWords(std::span<const uint64_t> words, std::span<const uint64_t>) {
  // Four independent sums, so that none waits for the one before.
  uint64_t a = 0, b = 0, c = 0, d = 0;
  size_t i = 0;
  for (; i + 4 <= words.size(); i += 4) {
    a += words[i];
    b += words[i + 1];
    c += words[i + 2];
    d += words[i + 3];
  }
  for (; i < words.size(); ++i) a += words[i];
  return a + b + c + d;
}

}  // namespace quire::bench
