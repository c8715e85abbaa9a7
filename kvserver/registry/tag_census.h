// SPDX-License-Identifier: Apache-2.0
//
// TagCensus: how many documents of each tenant have each tag. A filter's typing error is thereby
// found without a look at every document. Memory is bounded by distinct keys. Thread-safety: safe
// for concurrent use.
#ifndef QUIRE_KVSERVER_REGISTRY_TAG_CENSUS_H_
#define QUIRE_KVSERVER_REGISTRY_TAG_CENSUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/documents.h"

namespace quire::kvserver {

class TagCensus {
 public:
  void Add(std::string_view tenant, const Tags& tags) QUIRE_EXCLUDES(mutex_);
  /// Takes back an Add of the same tags.
  void Remove(std::string_view tenant, const Tags& tags) QUIRE_EXCLUDES(mutex_);
  bool Has(std::string_view tenant, std::string_view key) const QUIRE_EXCLUDES(mutex_);
  /// At most `limit` keys in order.
  std::vector<std::string> Keys(std::string_view tenant, size_t limit) const QUIRE_EXCLUDES(mutex_);

 private:
  using Counts = std::map<std::string, uint64_t, std::less<>>;

  mutable Mutex mutex_;
  std::map<std::string, Counts, std::less<>> tenants_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_TAG_CENSUS_H_
