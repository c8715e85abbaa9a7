// SPDX-License-Identifier: Apache-2.0
//
// CollectionSettings: a tenant's settings of one collection, and its versioned, checksummed record.
// Unset fields mean the server's default.
#ifndef QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_SETTINGS_H_
#define QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_SETTINGS_H_

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
  std::optional<CodecParams> codec = {};  ///< Codec of payload put from now on.
  /// Time to live of documents without their own; 1..kMaxTtlSeconds.
  std::optional<uint64_t> ttl_seconds = {};

  bool all_default() const { return !codec && !ttl_seconds; }
  friend bool operator==(const CollectionSettings&, const CollectionSettings&) = default;
};

/// Changes of settings. Outer optional: the setting changes. Inner one: its new value, nullopt for
/// the default.
struct SettingsChange {
  std::optional<std::optional<CodecParams>> codec = {};
  std::optional<std::optional<uint64_t>> ttl_seconds = {};
};
CollectionSettings Apply(const SettingsChange& change, CollectionSettings settings);

/// INVALID_ARGUMENT when `seconds` is out of range.
[[nodiscard]] Status CheckTtl(uint64_t seconds);

/// Returns the expiry in microseconds since the Unix epoch, `ttl_seconds` after
/// `created_unix_micros`; 0 for never.
[[nodiscard]] int64_t ExpiryOf(int64_t created_unix_micros, std::optional<uint64_t> ttl_seconds);

[[nodiscard]] std::string EncodeCollection(const CollectionSettings& settings);
/// Decodes untrusted bytes safely. DATA_LOSS when they are not a collection's, FAILED_PRECONDITION
/// for a newer version. `collection` is for messages.
[[nodiscard]] StatusOr<CollectionSettings> DecodeCollection(std::string_view collection,
                                                            std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_COLLECTIONS_COLLECTION_SETTINGS_H_
