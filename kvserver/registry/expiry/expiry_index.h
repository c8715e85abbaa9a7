// SPDX-License-Identifier: Apache-2.0
//
// ExpiryIndex: documents of all tenants in order of expiry; a TtlIndex over the registry's keys.
// Pure bookkeeping: no clock, no I/O. Thread-safety: none.
#ifndef QUIRE_KVSERVER_REGISTRY_EXPIRY_EXPIRY_INDEX_H_
#define QUIRE_KVSERVER_REGISTRY_EXPIRY_EXPIRY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/policy/ttl_index.h"

namespace quire::kvserver {

class ExpiryIndex {
 public:
  /// Sets the time to live of present and future documents without their own.
  void SetCollection(std::string_view tenant, std::string_view collection,
                     std::optional<uint64_t> ttl_seconds);

  /// Adds a document with its time of creation and its own time to live.
  void Add(std::string_view tenant, const Document& document);
  /// Adds a document to be examined again at `unix_micros`.
  void AddAt(std::string_view tenant, const DocumentName& name, int64_t unix_micros);
  /// Removes a document. Ignores an unknown one.
  void Remove(std::string_view tenant, const DocumentName& name);

  /// Removes and returns at most `limit` documents expired by `now_unix_micros`, earliest first.
  std::vector<TenantDocument> PopExpired(int64_t now_unix_micros, size_t limit);

 private:
  TtlIndex index_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EXPIRY_EXPIRY_INDEX_H_
