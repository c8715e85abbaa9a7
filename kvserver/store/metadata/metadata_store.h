// SPDX-License-Identifier: Apache-2.0
//
// MetadataStore: a small ordered map from strings to strings with atomic, conditional batches.
// RocksDB stands behind it on one machine, etcd in a cluster; so a batch is compare-then-write, and
// there are no locks to hold across calls. Thread-safety: every implementation is safe for
// concurrent use. Errors: NOT_FOUND (Get), FAILED_PRECONDITION (a condition of a batch does not
// hold: nothing was written), INVALID_ARGUMENT (an empty key or one above the limit), else as the
// backend's. metadata_conformance.h is the test suite that every implementation passes.
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

/// What to write, and under which conditions. Operations apply in order.
struct MetadataBatch {
  struct Condition {
    std::string key;
    std::optional<std::string> value;  ///< nullopt: the key must be absent
  };
  struct Operation {
    std::string key;
    std::optional<std::string> value;  ///< nullopt: delete; a missing key is no error
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

  /// Checks every condition, then applies every operation; both together are atomic. When it
  /// returns OK the batch is durable, and so is all that was applied before: with an empty batch,
  /// that alone.
  [[nodiscard]] virtual Status Apply(const MetadataBatch& batch) = 0;

  /// Entries whose key starts with `prefix` and is greater than `after` (all of them when `after`
  /// is empty), in order of keys; at most min(limit, kMaxScanEntries).
  [[nodiscard]] virtual StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix,
                                                                  std::string_view after,
                                                                  uint32_t limit) = 0;
};

/// What is wrong with the keys of `batch`; OK when a store can apply it.
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
