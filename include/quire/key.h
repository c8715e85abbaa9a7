// SPDX-License-Identifier: Apache-2.0
//
// Segment keys and chains. A key names bytes by what produced them:
//   key = SHA-256("quire.segment.v1", tenant salt, KvSpec fingerprint, parent key, token ids)
// A common prefix of chains is therefore the same segments. No tenant can name another's segments,
// since each has its own salt.
#ifndef QUIRE_KEY_H_
#define QUIRE_KEY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/kv_spec.h"

namespace quire {

using TokenId = int32_t;

/// Secret of a tenant, mixed into all of its keys.
using TenantSalt = std::array<uint8_t, 32>;

struct SegmentKey {
  std::array<uint8_t, 32> bytes{};
  friend auto operator<=>(const SegmentKey&, const SegmentKey&) = default;

  std::string Hex() const;  ///< 64 lower-case digits.
  /// Parses 64 hex digits; nullopt for anything else.
  static std::optional<SegmentKey> FromHex(std::string_view hex);
  /// Takes 32 bytes; nullopt for any other number.
  static std::optional<SegmentKey> FromBytes(std::string_view raw);
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

struct SegmentKeyHash {
  size_t operator()(const SegmentKey& key) const {
    size_t h;  // Any 8 bytes of a cryptographic hash are a hash.
    std::memcpy(&h, key.bytes.data(), sizeof h);
    return h;
  }
};

/// Parent of a chain's first segment: all zero.
inline constexpr SegmentKey kRootKey{};

/// Key of the segment holding `tokens` (1 .. p*g ids) after `parent`.
[[nodiscard]] SegmentKey ComputeKey(const TenantSalt& salt, const SpecFingerprint& spec,
                                    const SegmentKey& parent, std::span<const TokenId> tokens);

/// Key of the segment that holds the object under `object_key`:
///   SHA-256("quire.object.v1", tenant salt, object key)
[[nodiscard]] SegmentKey ComputeObjectKey(const TenantSalt& salt, std::string_view object_key);

/// Keys of all segments of the chain of `tokens`. The last segment may be short. Empty for no
/// tokens.
[[nodiscard]] std::vector<SegmentKey> ChainKeys(const TenantSalt& salt, const KvSpec& spec,
                                                std::span<const TokenId> tokens);

}  // namespace quire

#endif  // QUIRE_KEY_H_
