// SPDX-License-Identifier: Apache-2.0
//
// Corpus: the segments that a torture run may put. The seed and the segment's place determine every
// token and byte. A reader with the seed can therefore tell what a store should hold.
// Thread-safety: immutable. Segments of a chain count from 0.
#ifndef QUIRE_BENCH_TORTURE_STORE_CORPUS_H_
#define QUIRE_BENCH_TORTURE_STORE_CORPUS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire::torture {

struct SegmentId {
  uint32_t chain = 0;
  uint32_t index = 0;  ///< Index in the chain.
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
};

class Corpus {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t chains = 96;
    /// Segments of each chain; every fourth chain has a short last one.
    uint32_t segments = 4;
    std::vector<KvSpec> specs;  ///< At least one; chains take turns.
  };
  explicit Corpus(Options options) : options_(std::move(options)) {}

  uint32_t chains() const { return options_.chains; }
  uint32_t segments() const { return options_.segments; }
  const KvSpec& Spec(uint32_t chain) const { return options_.specs[chain % options_.specs.size()]; }
  std::vector<TokenId> Tokens(SegmentId id) const;
  /// Tokens of the chain up to and including segment `id`.
  std::vector<TokenId> TokensUpTo(SegmentId id) const;
  /// Finite numbers of the spec's dtype, which is 16 bits wide.
  std::vector<std::byte> Payload(SegmentId id) const;
  /// Keys of the chain's segments in a store with this salt.
  std::vector<SegmentKey> Keys(uint32_t chain, const TenantSalt& salt) const;

 private:
  uint64_t SeedOf(SegmentId id, uint64_t purpose) const;

  const Options options_;
};

/// Specs with small units: 4 KiB, a multiple of a block, and 3200 bytes, which is not.
std::vector<KvSpec> SmallSpecs();
/// Units of 16 KiB in segments of 1 MiB, the shape of real models.
KvSpec LargeSpec();

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_CORPUS_H_
