// SPDX-License-Identifier: Apache-2.0
//
// TtlIndex: which document expires next. A document has a time to live of its own, or that of its
// collection, or lives for ever. Pure bookkeeping over names: no clock, no I/O; times are
// microseconds since the Unix epoch, since documents outlive the process.
//
// Collections and documents are named by strings that the caller chooses (tenant and version are
// part of them). Every call is O(log n) in the documents; SetCollectionTtl too, for each document
// that has none of its own. Memory is bounded by the documents. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_TTL_INDEX_H_
#define QUIRE_KVSERVER_STORE_POLICY_TTL_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::kvserver {

class TtlIndex {
 public:
  struct Name {
    std::string collection;
    std::string document;
    friend auto operator<=>(const Name&, const Name&) = default;
  };

  /// Documents of `collection` without a time to live of their own, also those already there, live
  /// `ttl_micros` from their creation; nullopt: for ever.
  void SetCollectionTtl(std::string_view collection, std::optional<int64_t> ttl_micros);

  /// Adds a document, or replaces what is known of it. `ttl_micros` is its own; nullopt: that of
  /// its collection.
  void Add(const Name& name, int64_t created_micros, std::optional<int64_t> ttl_micros);
  /// Nothing happens when it is not there.
  void Remove(const Name& name);

  /// When the next document expires; nullopt when none ever does.
  std::optional<int64_t> NextExpiry() const;
  /// Removes and returns what has expired by `now_micros`, earliest first, at most `limit`.
  std::vector<Name> PopExpired(int64_t now_micros, size_t limit);

  size_t size() const { return documents_.size(); }

 private:
  struct Document {
    int64_t created_micros = 0;
    std::optional<int64_t> own_ttl_micros;
    std::optional<int64_t> expiry_micros;
  };
  using Documents = std::map<Name, Document>;

  void Reschedule(Documents::iterator it);
  void Unschedule(Documents::iterator it);

  Documents documents_;
  std::map<std::string, int64_t, std::less<>> collection_ttl_micros_;
  std::set<std::pair<int64_t, Name>> by_expiry_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_TTL_INDEX_H_
