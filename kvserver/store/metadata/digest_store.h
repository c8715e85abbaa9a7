// SPDX-License-Identifier: Apache-2.0
//
// DigestStore: digests of stored units, on SSD and in a bounded cache. One value holds one
// segment's digests of one kind at one layer: [pages][n_kv][DigestElements(kind, key_dim)] in the
// KV dtype.
//
// A put writes minima and maxima as an extent of the segment (kDigestsLayer), beside the others.
// All other digests are rows of the database: other kinds, minima and maxima of a segment only in
// DRAM, and those that were computed anew. A row comes before the extent.
//
// Digests of other kinds are derived (digest_deriver.h), or given by a client (representatives).
// They carry the checksum of their source units, and are stale once those are no longer stored. All
// digests have their own checksum, on SSD and in the cache, which every read verifies.
//
// Thread-safety: all methods may be called concurrently. I/O happens outside the lock.
#ifndef QUIRE_KVSERVER_STORE_METADATA_DIGEST_STORE_H_
#define QUIRE_KVSERVER_STORE_METADATA_DIGEST_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "kvserver/store/metadata/bounded_cache.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/read/io_gate.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/unit.h"
#include "quire/priority.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Digests in memory with their checksum, taken when they were made or verified from the database.
class KeptDigests {
 public:
  explicit KeptDigests(std::vector<std::byte> bytes)
      : bytes_(std::move(bytes)), crc32c_(Crc32c(bytes_)) {}

  const std::vector<std::byte>& bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc32c_; }
  /// True when the bytes match their checksum now.
  bool Matches() const { return Crc32c(bytes_) == crc32c_; }

 private:
  const std::vector<std::byte> bytes_;
  const uint32_t crc32c_;
};
using DigestBytes = std::shared_ptr<const KeptDigests>;

/// Bytes of the digests of one kind of a segment at one layer.
uint64_t DigestBytesPerLayer(const SegmentRecord& record, kernels::DigestKind kind);
/// Rows with tokens, for every unit of one of the segment's extents.
std::vector<int32_t> ValidRows(const SegmentRecord& record);

class DigestStore {
 public:
  /// `database`, `ssd` and `gate` outlive the store. Reads of SSD pass the gate.
  DigestStore(Database* database, SsdTier* ssd, uint64_t cache_bytes, IoGate* gate)
      : database_(database), ssd_(ssd), gate_(gate), cache_(cache_bytes) {}

  /// Adds rows with minima and maxima of a segment only in DRAM to `batch`: `digests` of all
  /// layers, DigestBytesPerLayer each.
  void StageRows(const SegmentKey& key, const SegmentRecord& record,
                 std::span<const std::byte> digests, Database::Batch& batch);
  /// Removes rows with minima and maxima of replaced bytes. REQUIRES: no writer keeps digests of
  /// the segment meanwhile.
  void StageDropRows(const SegmentKey& key, const SegmentRecord& record, Database::Batch& batch);
  /// Removes rows of every kind; the extent goes with the others of the segment. `record` is null
  /// when it could not be read. REQUIRES: as StageDropRows.
  void StageErase(const SegmentKey& key, const SegmentRecord* record, Database::Batch& batch);
  /// Drops cached digests after a commit that erased or replaced the segment.
  void Forget(const SegmentKey& key, const SegmentRecord& record);
  /// As Forget, for a segment whose record could not be read.
  void ForgetAll() { cache_.Clear(); }

  /// Returns minima and maxima. DATA_LOSS when they are missing or damaged; otherwise as Find.
  StatusOr<DigestBytes> Read(const ExtentId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);
  /// Returns digests of any kind, from the cache when possible. Null when there are none that match
  /// their checksum and the units of `record`. RESOURCE_EXHAUSTED from the gate.
  StatusOr<DigestBytes> Find(const DigestId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);
  /// Stores digests derived from the units of `record`, if there is room. Returns true when they
  /// are in the database now. REQUIRES: the caller is the segment's only writer.
  bool KeepDerived(const DigestId& id, const SegmentRecord& record, const DigestBytes& digests);
  /// Stores a client's representatives, [layers][pages][n_kv][key_dim], of the units of `record`.
  /// Find returns them from then on. RESOURCE_EXHAUSTED when the file system is full. REQUIRES: as
  /// KeepDerived.
  [[nodiscard]] Status KeepRepresentatives(const SegmentKey& key, const SegmentRecord& record,
                                           std::span<const std::byte> digests);

  /// Removes digests of one kind of one extent. REQUIRES: as KeepDerived.
  [[nodiscard]] Status Drop(const DigestId& id);

  /// Database key of a row of digests.
  static std::string KeyOf(const DigestId& id);
  /// Parses the database key `key`; nullopt when it is no digests' key.
  static std::optional<DigestId> IdOf(std::string_view key);
  /// True when `key` belongs to digests of any kind of `layers` layers.
  static bool IsKey(std::string_view key, uint32_t layers);

  /// Returns the digests in a database row; nullopt when it is damaged, or its units are gone.
  static std::optional<std::span<const std::byte>> StoredIn(std::string_view value,
                                                            const DigestId& id,
                                                            const SegmentRecord& record);

  /// digest_reads, digest_cache_hits, digests_damaged, digest_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Adds the removal of the row to `batch`, if there may be one.
  void StageDropRow(const DigestId& id, Database::Batch& batch);
  /// Reads digests of any kind from their row. Null as Find.
  StatusOr<DigestBytes> ReadRow(const DigestId& id, const SegmentRecord& record);
  /// Reads minima and maxima from the segment's extent of them. Null as Find.
  StatusOr<DigestBytes> ReadExtent(const ExtentId& id, const SegmentRecord& record);
  void Remember(const DigestId& id, const DigestBytes& digests, uint64_t epoch);
  /// RESOURCE_EXHAUSTED when the file system has no room for `bytes`.
  [[nodiscard]] Status CheckRoom(uint64_t bytes) const;
  /// Adds `digests` of the units of `record` to `batch`. `crc32c` is their checksum.
  static void StageKept(const DigestId& id, const SegmentRecord& record,
                        std::span<const std::byte> digests, uint32_t crc32c,
                        Database::Batch& batch);

  Database* const database_;
  SsdTier* const ssd_;
  IoGate* const gate_;
  BoundedCache<DigestId, DigestBytes, DigestIdHash> cache_;  ///< Null value: no such digests.
  Counter reads_, hits_, damaged_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_DIGEST_STORE_H_
