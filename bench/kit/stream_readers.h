// SPDX-License-Identifier: Apache-2.0
//
// Limits of what computes with memory: as little as it takes to read it once, and the products
// alone, without reading. Thread-safety: pure functions.
#ifndef QUIRE_BENCH_KIT_STREAM_READERS_H_
#define QUIRE_BENCH_KIT_STREAM_READERS_H_

#include <cstdint>
#include <span>

namespace quire::bench {

/// The sum of all words. `next`: what is read next, to be fetched meanwhile; may be empty.
using StreamReader = uint64_t (*)(std::span<const uint64_t> words, std::span<const uint64_t> next);

/// Word by word, and what the compiler makes of that for every processor of the kind; what is next
/// is left to the processor.
uint64_t SumWords(std::span<const uint64_t> words, std::span<const uint64_t> next);

/// In the widest vectors that this processor has, a page ahead of itself; null when this program
/// was built without Highway.
StreamReader VectorReader();

/// Multiplies and adds f32 out of registers, `products` times or up to one step more, and returns
/// the sum: 1/8 for each.
using ProductLoop = float (*)(uint64_t products);

/// In the widest vectors that this processor has; null when this program was built without Highway.
ProductLoop VectorProducts();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_STREAM_READERS_H_
