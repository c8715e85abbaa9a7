// SPDX-License-Identifier: Apache-2.0
//
// DigestTable: which digests are held in memory, for whom and how often, within a bound of bytes
// for all tenants and one for each. Room is taken for everything that a holder wants before any of
// it is read, so that the bounds hold at any moment and a refusal costs no I/O. One holder loads an
// entry; the others wait for it. Thread-safety: all methods may be called concurrently. No lock is
// held while somebody loads.
#ifndef QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_
#define QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

/// Digests of the bytes that a segment has now (PageStore::WrittenAs): when damaged ones were
/// replaced, those who hold digests of the old bytes share with nobody who comes later.
struct ResidentId {
  DigestId id;
  uint64_t written_as = 0;
  friend auto operator<=>(const ResidentId&, const ResidentId&) = default;
};

struct ResidentIdHash {
  size_t operator()(const ResidentId& resident) const {
    return DigestIdHash()(resident.id) ^ (resident.written_as * 0x9e3779b97f4a7c15ull);
  }
};

/// Digests of one kind of an extent, held for a tenant, with the checksum that they came with.
class ResidentBlock {
 public:
  ResidentBlock(std::string_view tenant, const ResidentId& id,
                std::shared_ptr<const std::vector<std::byte>> bytes, uint32_t crc32c)
      : tenant_(tenant), id_(id), bytes_(std::move(bytes)), crc32c_(crc32c) {}

  const std::string& tenant() const { return tenant_; }
  const ResidentId& id() const { return id_; }
  const std::vector<std::byte>& bytes() const { return *bytes_; }
  uint32_t crc32c() const { return crc32c_; }
  /// Whether the bytes were found not to match: nothing is made of them any more.
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }
  void MarkDamaged() { damaged_.store(true, std::memory_order_relaxed); }

 private:
  const std::string tenant_;
  const ResidentId id_;
  const std::shared_ptr<const std::vector<std::byte>> bytes_;
  const uint32_t crc32c_;
  std::atomic<bool> damaged_{false};
};
using ResidentBytes = std::shared_ptr<ResidentBlock>;

class DigestTable {
 public:
  struct Limits {
    uint64_t max_bytes = 0;             ///< Of all tenants together.
    uint64_t max_bytes_per_tenant = 0;  ///< Of any one of them.
  };
  explicit DigestTable(const Limits& limits) : limits_(limits) {}

  /// One holder more for each of `ids`, which are distinct; those that are new take `entry_bytes`
  /// each. All or none: false when they do not fit.
  [[nodiscard]] bool Hold(std::string_view tenant, std::span<const ResidentId> ids,
                          uint64_t entry_bytes) QUIRE_EXCLUDES(mutex_);
  /// One holder less for each; an entry goes with its last one.
  void Release(std::string_view tenant, std::span<const ResidentId> ids) QUIRE_EXCLUDES(mutex_);

  /// The bytes of an entry that the caller holds. Null: the caller is the one to load it and must
  /// call Loaded or Failed. Waits while somebody else loads it.
  ResidentBytes Take(std::string_view tenant, const ResidentId& id) QUIRE_EXCLUDES(mutex_);
  /// `bytes` are at most what Hold took; the rest is given back.
  void Loaded(std::string_view tenant, const ResidentId& id, ResidentBytes bytes)
      QUIRE_EXCLUDES(mutex_);
  void Failed(std::string_view tenant, const ResidentId& id) QUIRE_EXCLUDES(mutex_);

  /// Everything that is loaded now.
  std::vector<std::weak_ptr<ResidentBlock>> Blocks() const QUIRE_EXCLUDES(mutex_);
  /// `block` is damaged: whoever takes its entry next loads it anew, and holders are told by the
  /// block itself.
  void Drop(const ResidentBytes& block) QUIRE_EXCLUDES(mutex_);

  uint64_t used_bytes() const QUIRE_EXCLUDES(mutex_);
  /// Times that room was given back: what was refused may fit when this has changed.
  uint64_t frees() const QUIRE_EXCLUDES(mutex_);

 private:
  enum class State : uint8_t { kWanted, kLoading, kLoaded };
  struct Entry {
    ResidentBytes bytes;
    uint64_t charged = 0;
    uint64_t holders = 0;
    State state = State::kWanted;
  };
  /// Keys are hashes with a salt of the tenant, but nobody may share by naming another's key.
  struct Tenant {
    std::unordered_map<ResidentId, Entry, ResidentIdHash> entries;
    uint64_t used_bytes = 0;
  };

  /// Of an entry that is held.
  Entry& Find(std::string_view tenant, const ResidentId& id) QUIRE_REQUIRES(mutex_);
  void GiveBack(Tenant& tenant, uint64_t bytes) QUIRE_REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  CondVar settled_;  ///< An entry is no longer being loaded.
  std::map<std::string, Tenant, std::less<>> tenants_ QUIRE_GUARDED_BY(mutex_);
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t frees_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_
