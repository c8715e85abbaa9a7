// SPDX-License-Identifier: Apache-2.0
//
// Digests: summaries of a unit's keys, by which a server scores the unit without reading it. Value
// types.
#ifndef QUIRE_DIGEST_H_
#define QUIRE_DIGEST_H_

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

/// Kinds of summaries of a unit's keys. Values are stored and sent; never renumber.
enum class DigestKind : uint8_t {
  kMinMax = 1,           ///< Minimum and maximum of each channel (Quest).
  kMean = 2,             ///< Mean of each channel (ShadowKV).
  kCentreDeviation = 3,  ///< Centre and mean deviation of each channel (ArkVale).
  kCentreRadius = 4,     ///< Centre, and the radius of the ball around it.
  kDisc = 5,             ///< Centre, and the radius of the disc of each pair of channels.
  kRepresentatives = 6,  ///< Mean over the tokens that represent the page (InfLLM).
  kContent = 7,          ///< Mean of each channel of the keys without their rotation (SamKV).
};

inline constexpr DigestKind kDigestKinds[] = {
    DigestKind::kMinMax,       DigestKind::kMean, DigestKind::kCentreDeviation,
    DigestKind::kCentreRadius, DigestKind::kDisc, DigestKind::kRepresentatives,
    DigestKind::kContent};
/// Kinds that recalls select by: those of keys as they are stored.
inline constexpr std::span<const DigestKind> kSelectingKinds = std::span(kDigestKinds).first(6);

constexpr bool IsKnown(DigestKind kind) {
  return kind >= DigestKind::kMinMax && kind <= DigestKind::kContent;
}
/// True for kSelectingKinds.
constexpr bool Selects(DigestKind kind) { return IsKnown(kind) && kind != DigestKind::kContent; }

/// Digests that the server reads into memory as the sequences of a session are opened. The first
/// recall by query finds them there. Digests without room in memory are read for each query.
struct HeldDigests {
  DigestKind kind = DigestKind::kMinMax;
  std::vector<uint32_t> layers = {};  ///< Distinct managed layers, in reading order; empty: all.
};

}  // namespace quire

#endif  // QUIRE_DIGEST_H_
