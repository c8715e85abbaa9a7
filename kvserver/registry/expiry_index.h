// SPDX-License-Identifier: Apache-2.0
//
// ExpiryIndex: which document of which tenant expires next; a TtlIndex over the registry's keys.
// Pure bookkeeping: no clock, no I/O. Thread-safety: none.
#ifndef QUIRE_KVSERVER_REGISTRY_EXPIRY_INDEX_H_
#define QUIRE_KVSERVER_REGISTRY_EXPIRY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/store/policy/ttl_index.h"

namespace quire::kvserver {

class ExpiryIndex {
 public:
  /// Documents without a time to live of their own have this one, also those already there.
  void SetCollection(std::string_view tenant, std::string_view collection,
                     std::optional<uint64_t> ttl_seconds);

  /// Adds a document with its time of creation and its own time to live.
  void Add(std::string_view tenant, const Document& document);
  /// Adds a document that is to be looked at again at `unix_micros`.
  void AddAt(std::string_view tenant, const DocumentName& name, int64_t unix_micros);
  /// Nothing happens when it is not there.
  void Remove(std::string_view tenant, const DocumentName& name);

  /// Removes and returns what has expired by `now_unix_micros`, earliest first, at most `limit`.
  std::vector<TenantDocument> PopExpired(int64_t now_unix_micros, size_t limit);

 private:
  TtlIndex index_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EXPIRY_INDEX_H_
