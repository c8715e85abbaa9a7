// SPDX-License-Identifier: Apache-2.0
//
// Conversions between wire messages and values that client and server share. FromProto functions
// check all limits (limits.h, KvSpecLimits) before any arithmetic. They answer INVALID_ARGUMENT
// naming the field, its value and the allowed values. ToProto functions take valid values and
// cannot fail. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_WIRE_CONVERT_H_
#define QUIRE_COMMON_WIRE_CONVERT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/page/key.h"
#include "common/page/kv_spec.h"
#include "quire/v1/types.pb.h"

namespace quire::wire {

/// Returns a spec that passes Problem().
[[nodiscard]] StatusOr<KvSpec> KvSpecFromProto(const v1::KvSpec& proto);
void KvSpecToProto(const KvSpec& spec, v1::KvSpec* proto);

/// Returns a key of exactly 32 bytes. `field` names it in the error.
[[nodiscard]] StatusOr<SegmentKey> KeyFromBytes(std::string_view bytes, std::string_view field);
/// As KeyFromBytes; no bytes mean kRootKey.
[[nodiscard]] StatusOr<SegmentKey> KeyOrRootFromBytes(std::string_view bytes,
                                                      std::string_view field);
/// As KeyFromBytes; no bytes mean nullopt.
[[nodiscard]] StatusOr<std::optional<SegmentKey>> OptionalKeyFromBytes(std::string_view bytes,
                                                                       std::string_view field);
/// Returns at most `max_keys` keys.
[[nodiscard]] StatusOr<std::vector<SegmentKey>> KeysFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& proto, uint64_t max_keys,
    std::string_view field);
void KeysToProto(std::span<const SegmentKey> keys,
                 google::protobuf::RepeatedPtrField<std::string>* proto);
inline std::string KeyToBytes(const SegmentKey& key) { return std::string(key.view()); }

/// 1..64 bytes of [A-Za-z0-9_.-].
[[nodiscard]] Status CheckTenantName(std::string_view tenant);
/// A document's name: 1..255 bytes of UTF-8 without control characters or '/', not all spaces.
[[nodiscard]] Status CheckName(std::string_view name, std::string_view field);
/// A collection's name: as a document's, and its first byte is not '-'.
[[nodiscard]] Status CheckCollection(std::string_view name);
/// Accepts 0 or 32 bytes.
[[nodiscard]] Status CheckContentHash(std::string_view hash);
/// A time to live on the wire, in seconds: 0 (nullopt), or 1..kMaxTtlSeconds.
[[nodiscard]] StatusOr<std::optional<uint64_t>> TtlFromProto(uint64_t seconds);

/// Returns between `min` and `max` token ids, none negative. The span points into `proto`.
[[nodiscard]] StatusOr<std::span<const TokenId>> TokensFromProto(
    const google::protobuf::RepeatedField<int32_t>& proto, uint64_t min, uint64_t max,
    std::string_view field);

/// Returns distinct numbers in ascending order, all below `end`.
[[nodiscard]] StatusOr<std::vector<uint32_t>> AscendingFromProto(
    const google::protobuf::RepeatedField<uint32_t>& proto, uint32_t end, std::string_view field);

/// Returns `count` little-endian float32 values, all finite.
[[nodiscard]] StatusOr<std::vector<float>> FloatsFromBytes(std::string_view bytes, uint64_t count,
                                                           std::string_view field);
[[nodiscard]] std::string FloatsToBytes(std::span<const float> values);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_H_
