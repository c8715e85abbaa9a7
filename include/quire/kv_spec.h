// SPDX-License-Identifier: Apache-2.0
//
// KvSpec: everything that decides what the bytes of a KV page mean. Two caches are interchangeable
// exactly when their specs are equal. The fingerprint is part of every segment key, so caches of
// different specs never meet. Plain values, no I/O, no dependencies beyond the standard library.
#ifndef QUIRE_KV_SPEC_H_
#define QUIRE_KV_SPEC_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quire/dtype.h"

namespace quire {

/// Persistent values.
enum class AttentionKind : uint8_t { kMha = 1, kGqa = 2, kMqa = 3, kMla = 4 };
/// Rotation state of stored keys. Persistent values.
enum class RopeState : uint8_t { kPost = 1, kPre = 2 };
/// Persistent values. kDynamic stands for every scheme whose frequencies depend on the length.
enum class RopeScaling : uint8_t {
  kNone = 1,
  kLinear = 2,
  kLlama3 = 3,
  kYarn = 4,
  kDynamic = 5,
  kLongRope = 6,  ///< Any scheme with a constant factor for each pair.
};

/// Rotation of keys by position. Fields that a scaling does not use stay zero.
struct RopeSpec {
  RopeState state = RopeState::kPost;
  RopeScaling scaling = RopeScaling::kNone;
  bool interleaved = false;  ///< Pairs are (2i, 2i+1) instead of (i, i + rotary_dim/2).
  /// Channels of K that are rotated: the leading ones, or those behind an MLA latent. Even.
  uint32_t rotary_dim = 0;
  double theta = 10000.0;       ///< Base of the frequencies.
  double factor = 1.0;          ///< Scaling factor (linear, llama3, yarn).
  double low_freq_factor = 0;   ///< For llama3.
  double high_freq_factor = 0;  ///< For llama3.
  double original_context = 0;  ///< Tokens; for llama3 and yarn.
  double beta_fast = 0;         ///< For yarn.
  double beta_slow = 0;         ///< For yarn.
  /// Factor of cos and sin, for yarn and longrope. The stored keys include it.
  double attention_factor = 1.0;
  /// Divisor of the frequency of each pair, [rotary_dim/2], for longrope.
  std::vector<double> pair_factors = {};
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;

  /// True when a rotation can move a stored key to another position.
  bool CanRebase() const { return state == RopeState::kPost && scaling != RopeScaling::kDynamic; }
};

struct KvSpec {
  std::string model;  ///< Name for people; part of the fingerprint. 1..256 bytes.
  std::array<uint8_t, 32> weights_hash{};  ///< Identifies the weights (SHA-256 of the checkpoint).
  AttentionKind attention = AttentionKind::kGqa;
  DType dtype = DType::kF16;
  uint32_t num_layers = 0;
  uint32_t num_query_heads = 0;  ///< A multiple of num_kv_heads (any number for MLA).
  uint32_t num_kv_heads = 0;     ///< 1 for MQA and MLA.
  uint32_t head_dim = 0;         ///< Elements of one K row (and one V row); 0 for MLA.
  uint32_t latent_dim = 0;       ///< MLA only: d_c.
  uint32_t latent_rope_dim = 0;  ///< MLA only: d_rope.
  uint32_t page_tokens = 32;     ///< Tokens of a page, p.
  uint32_t segment_pages = 8;    ///< Pages of a segment, g.
  RopeSpec rope;
  friend bool operator==(const KvSpec&, const KvSpec&) = default;

  /// p * g.
  uint32_t segment_tokens() const { return page_tokens * segment_pages; }
  /// G = query heads per KV head.
  uint32_t group_size() const { return num_query_heads / num_kv_heads; }
  /// Elements of a token row that digests and scores cover: K for MHA/GQA/MQA, the latent row for
  /// MLA.
  uint32_t key_dim() const {
    return attention == AttentionKind::kMla ? latent_dim + latent_rope_dim : head_dim;
  }
  /// False for MLA: a latent is key and value.
  bool has_values() const { return attention != AttentionKind::kMla; }
  /// Elements of a value row: those of the latent for MLA, which are the first of its row.
  uint32_t value_dim() const { return has_values() ? head_dim : latent_dim; }
  /// Rows of a unit: p keys then p values, or p latent rows for MLA.
  uint32_t rows_per_unit() const {
    return attention == AttentionKind::kMla ? page_tokens : 2 * page_tokens;
  }
};

/// Limits of every spec. A spec from outside is checked against them before any arithmetic, so
/// products of its fields fit in 63 bits.
struct KvSpecLimits {
  static constexpr uint32_t kMaxLayers = 1024;
  static constexpr uint32_t kMaxHeads = 1024;
  static constexpr uint32_t kMaxHeadDim = 4096;
  static constexpr uint32_t kMaxPageTokens = 1024;
  static constexpr uint32_t kMaxSegmentPages = 256;
  static constexpr size_t kMaxModelNameBytes = 256;
};

/// Describes the first invalid field of `spec`, for people. Empty when the spec is valid.
[[nodiscard]] std::string Problem(const KvSpec& spec);

/// SHA-256 over a canonical encoding of every field: equal exactly when the specs are equal.
using SpecFingerprint = std::array<uint8_t, 32>;
[[nodiscard]] SpecFingerprint Fingerprint(const KvSpec& spec);

/// Returns the first difference between two specs as "field: a vs b", for error messages. Empty
/// when equal.
[[nodiscard]] std::string FirstDifference(const KvSpec& a, const KvSpec& b);

}  // namespace quire

#endif  // QUIRE_KV_SPEC_H_
