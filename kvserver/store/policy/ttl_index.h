// SPDX-License-Identifier: Apache-2.0
//
// TtlIndex: documents in order of expiry. A document has its own time to live, or its collection's,
// or none. Pure bookkeeping over names: no clock, no I/O. Times are microseconds since the Unix
// epoch, since documents outlive the process.
//
// The caller chooses the names of collections and documents, which include tenant and version.
// Every call is O(log n) in the documents; SetCollectionTtl for each document without its own time
// to live. Memory is bounded by the documents. Thread-safety: none.
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

  /// Sets the time to live of present and future documents of `collection` without their own, from
  /// their creation; nullopt: for ever.
  void SetCollectionTtl(std::string_view collection, std::optional<int64_t> ttl_micros);

  /// Adds or replaces a document. `ttl_micros` is its own time to live; nullopt: its collection's.
  void Add(const Name& name, int64_t created_micros, std::optional<int64_t> ttl_micros);
  /// Removes a document. Ignores an unknown one.
  void Remove(const Name& name);

  /// Time of the next expiry; nullopt when no document expires.
  std::optional<int64_t> NextExpiry() const;
  /// Removes and returns at most `limit` documents expired by `now_micros`, earliest first.
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
