// SPDX-License-Identifier: Apache-2.0
//
// Limits of computations on memory: a minimal single read of it, and the products alone, without
// reading. Thread-safety: pure functions.
#ifndef QUIRE_BENCH_KIT_STREAM_READERS_H_
#define QUIRE_BENCH_KIT_STREAM_READERS_H_

#include <cstdint>
#include <span>

namespace quire::bench {

/// Returns the sum of all words. `next`: the words to read next, prefetched meanwhile; may be
/// empty.
using StreamReader = uint64_t (*)(std::span<const uint64_t> words, std::span<const uint64_t> next);

/// Reads word by word, as the compiler builds it for every processor of the kind. It leaves
/// prefetching to the processor.
uint64_t SumWords(std::span<const uint64_t> words, std::span<const uint64_t> next);

/// A reader with the widest vectors of this processor, which prefetches a page ahead. Null if this
/// program was built without Highway.
StreamReader VectorReader();

/// Multiplies and adds f32 in registers, `products` times or up to one step more. Returns the sum:
/// 1/8 for each.
using ProductLoop = float (*)(uint64_t products);

/// Products with the widest vectors of this processor; null if this program was built without
/// Highway.
ProductLoop VectorProducts();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_STREAM_READERS_H_
