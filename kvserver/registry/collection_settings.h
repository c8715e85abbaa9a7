// SPDX-License-Identifier: Apache-2.0
//
// CollectionSettings: what a tenant has set for one of its collections, and its stored record,
// versioned and checksummed. What is not set is the server's default.
#ifndef QUIRE_KVSERVER_REGISTRY_COLLECTION_SETTINGS_H_
#define QUIRE_KVSERVER_REGISTRY_COLLECTION_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvserver/store/codec/codec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Longest time to live, a hundred years.
inline constexpr uint64_t kMaxTtlSeconds = 3'155'760'000;

struct CollectionSettings {
  std::optional<CodecParams> codec = {};  ///< Of payload that is put into it from now on.
  /// Of documents without a time to live of their own; 1..kMaxTtlSeconds.
  std::optional<uint64_t> ttl_seconds = {};

  bool all_default() const { return !codec && !ttl_seconds; }
  friend bool operator==(const CollectionSettings&, const CollectionSettings&) = default;
};

/// Changes of settings. The outer optional says whether a setting is changed, the inner one is what
/// it becomes, nullopt being the default.
struct SettingsChange {
  std::optional<std::optional<CodecParams>> codec = {};
  std::optional<std::optional<uint64_t>> ttl_seconds = {};
};
CollectionSettings Apply(const SettingsChange& change, CollectionSettings settings);

/// OK, or INVALID_ARGUMENT when `seconds` is out of range.
[[nodiscard]] Status CheckTtl(uint64_t seconds);

/// When something that was created at `created_unix_micros` and lives `ttl_seconds` expires,
/// microseconds since the Unix epoch; 0 when it never does.
[[nodiscard]] int64_t ExpiryOf(int64_t created_unix_micros, std::optional<uint64_t> ttl_seconds);

[[nodiscard]] std::string EncodeCollection(const CollectionSettings& settings);
/// Reads any bytes safely; DATA_LOSS when they are not a collection's, FAILED_PRECONDITION when
/// they are of a newer version. `collection` is for messages.
[[nodiscard]] StatusOr<CollectionSettings> DecodeCollection(std::string_view collection,
                                                            std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_COLLECTION_SETTINGS_H_
