// SPDX-License-Identifier: Apache-2.0
//
// DigestTable: the digests held in memory with their numbers of holders, bounded in total and per
// tenant. Room is charged for all of a holder's digests before any is read. The bounds thus hold at
// any moment, and a refusal costs no I/O. One holder loads an entry while the others wait.
// Thread-safety: all methods may be called concurrently. No lock is held during a load.
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

#include "common/base/threads/mutex.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

/// Digests of the current bytes of a segment (PageStore::WrittenAs). Once damaged bytes are
/// replaced, holders of old digests share with no later holder.
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

/// Digests of one kind of an extent, held for a tenant, with their original checksum.
class ResidentBlock {
 public:
  ResidentBlock(std::string_view tenant, const ResidentId& id,
                std::shared_ptr<const std::vector<std::byte>> bytes, uint32_t crc32c)
      : tenant_(tenant), id_(id), bytes_(std::move(bytes)), crc32c_(crc32c) {}

  const std::string& tenant() const { return tenant_; }
  const ResidentId& id() const { return id_; }
  const std::vector<std::byte>& bytes() const { return *bytes_; }
  uint32_t crc32c() const { return crc32c_; }
  /// True when the bytes were found damaged. They must not be used any more.
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
    uint64_t max_bytes = 0;             ///< Bound of all tenants together.
    uint64_t max_bytes_per_tenant = 0;  ///< Bound of each tenant.
  };
  explicit DigestTable(const Limits& limits) : limits_(limits) {}

  /// Adds one holder to each of `ids`, which are distinct. New ones are charged `entry_bytes` each.
  /// All or none: false when they do not fit.
  [[nodiscard]] bool Hold(std::string_view tenant, std::span<const ResidentId> ids,
                          uint64_t entry_bytes) QUIRE_EXCLUDES(mutex_);
  /// Removes one holder of each. An entry is deleted with its last one.
  void Release(std::string_view tenant, std::span<const ResidentId> ids) QUIRE_EXCLUDES(mutex_);

  /// Returns the bytes of an entry that the caller holds. Waits while another holder loads it.
  /// Null: the caller must load it and call Loaded or Failed.
  ResidentBytes Take(std::string_view tenant, const ResidentId& id) QUIRE_EXCLUDES(mutex_);
  /// `bytes` take at most the size charged by Hold; the rest is released.
  void Loaded(std::string_view tenant, const ResidentId& id, ResidentBytes bytes)
      QUIRE_EXCLUDES(mutex_);
  void Failed(std::string_view tenant, const ResidentId& id) QUIRE_EXCLUDES(mutex_);

  /// All loaded blocks.
  std::vector<std::weak_ptr<ResidentBlock>> Blocks() const QUIRE_EXCLUDES(mutex_);
  /// Drops a damaged block. The next holder loads its entry again. Present holders see the block's
  /// mark.
  void Drop(const ResidentBytes& block) QUIRE_EXCLUDES(mutex_);

  uint64_t used_bytes() const QUIRE_EXCLUDES(mutex_);
  /// Number of times that room was freed. A refused hold may fit when it has changed.
  uint64_t frees() const QUIRE_EXCLUDES(mutex_);

 private:
  enum class State : uint8_t { kWanted, kLoading, kLoaded };
  struct Entry {
    ResidentBytes bytes;
    uint64_t charged = 0;
    uint64_t holders = 0;
    State state = State::kWanted;
  };
  /// Keys are salted hashes, but naming another tenant's key must not share its entries.
  struct Tenant {
    std::unordered_map<ResidentId, Entry, ResidentIdHash> entries;
    uint64_t used_bytes = 0;
  };

  /// Finds an entry that is held.
  Entry& Find(std::string_view tenant, const ResidentId& id) QUIRE_REQUIRES(mutex_);
  void GiveBack(Tenant& tenant, uint64_t bytes) QUIRE_REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  CondVar settled_;  ///< Notified when an entry's loading ends.
  std::map<std::string, Tenant, std::less<>> tenants_ QUIRE_GUARDED_BY(mutex_);
  uint64_t used_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t frees_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_DIGEST_TABLE_H_
