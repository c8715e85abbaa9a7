// SPDX-License-Identifier: Apache-2.0
//
// MetadataStore: a small ordered map from strings to strings with atomic, conditional batches.
// RocksDB implements it. A batch is compare-then-write, and no locks are held across calls. In a
// cluster each server has its own; servers agree on names by DocumentAgreement.
//
// Thread-safety: every implementation is safe for concurrent use. Errors: NOT_FOUND (Get),
// FAILED_PRECONDITION (a condition does not hold; nothing was written), INVALID_ARGUMENT (an empty
// key or one above the limit), otherwise as the backend's. Every implementation passes
// metadata_conformance.h.
#ifndef QUIRE_KVSERVER_STORE_METADATA_METADATA_STORE_H_
#define QUIRE_KVSERVER_STORE_METADATA_METADATA_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quire/status.h"

namespace quire::kvserver {

/// Writes and their conditions. Operations apply in order.
struct MetadataBatch {
  struct Condition {
    std::string key;
    std::optional<std::string> value;  ///< Null: the key must be absent.
  };
  struct Operation {
    std::string key;
    std::optional<std::string> value;  ///< Null: delete. A missing key is no error.
  };
  std::vector<Condition> conditions;
  std::vector<Operation> operations;

  void ExpectAbsent(std::string key) { conditions.push_back({std::move(key), std::nullopt}); }
  void ExpectValue(std::string key, std::string value) {
    conditions.push_back({std::move(key), std::move(value)});
  }
  void Put(std::string key, std::string value) {
    operations.push_back({std::move(key), std::move(value)});
  }
  void Delete(std::string key) { operations.push_back({std::move(key), std::nullopt}); }
};

struct MetadataEntry {
  std::string key;
  std::string value;
  friend bool operator==(const MetadataEntry&, const MetadataEntry&) = default;
};

class MetadataStore {
 public:
  static constexpr size_t kMaxKeyBytes = 4096;
  static constexpr uint32_t kMaxScanEntries = 10000;

  virtual ~MetadataStore() = default;

  [[nodiscard]] virtual StatusOr<std::string> Get(std::string_view key) = 0;

  /// Checks every condition, then applies every operation, atomically. OK means that the batch and
  /// everything applied before are durable. An empty batch only does the latter.
  [[nodiscard]] virtual Status Apply(const MetadataBatch& batch) = 0;

  /// Returns entries whose key starts with `prefix` and is greater than `after` (empty: no bound),
  /// in key order. At most min(limit, kMaxScanEntries).
  [[nodiscard]] virtual StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix,
                                                                  std::string_view after,
                                                                  uint32_t limit) = 0;
};

/// Returns an error for invalid keys in `batch`.
[[nodiscard]] inline Status CheckKeys(const MetadataBatch& batch) {
  const auto check = [](const std::string& key) {
    if (!key.empty() && key.size() <= MetadataStore::kMaxKeyBytes) return OkStatus();
    return InvalidArgument("a metadata key has ", key.size(), " bytes, must have 1..",
                           MetadataStore::kMaxKeyBytes);
  };
  for (const auto& condition : batch.conditions) QUIRE_RETURN_IF_ERROR(check(condition.key));
  for (const auto& operation : batch.operations) QUIRE_RETURN_IF_ERROR(check(operation.key));
  return OkStatus();
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_METADATA_STORE_H_
