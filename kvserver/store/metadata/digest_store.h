// SPDX-License-Identifier: Apache-2.0
//
// DigestStore: digests of stored units, in the database and in a bounded cache. One value holds one
// segment's digests of one kind at one layer: [pages][n_kv][DigestElements(kind, key_dim)] in the
// KV dtype. Minima and maxima (FreeKV, page digests) are made once when a segment is put and
// committed with it. Digests of other kinds are derived (digest_deriver.h) or, representatives,
// given by a client, and kept here; they carry the checksum of the units that they were made of,
// and do not count when those are no longer stored. All carry their own checksum, in the database
// and in the cache, and are compared with it whenever they are found. Thread-safety: all methods
// may be called concurrently. I/O happens outside the lock.
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

#include "common/base/checksum.h"
#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "kvserver/store/io_gate.h"
#include "kvserver/store/metadata/bounded_cache.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/unit.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Digests in memory, and the checksum that they had when they were made, or when the database
/// gave them and they had been verified.
class KeptDigests {
 public:
  explicit KeptDigests(std::vector<std::byte> bytes)
      : bytes_(std::move(bytes)), crc32c_(Crc32c(bytes_)) {}

  const std::vector<std::byte>& bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc32c_; }
  /// Whether the bytes match their checksum now.
  bool Matches() const { return Crc32c(bytes_) == crc32c_; }

 private:
  const std::vector<std::byte> bytes_;
  const uint32_t crc32c_;
};
using DigestBytes = std::shared_ptr<const KeptDigests>;

/// Bytes of the digests of one kind of a segment at one layer.
uint64_t DigestBytesPerLayer(const SegmentRecord& record, kernels::DigestKind kind);
/// Rows that hold tokens, for every unit of one of the segment's extents.
std::vector<int32_t> ValidRows(const SegmentRecord& record);
/// Digests of one kind of units of `spec` that follow each other, aligned for their dtype, over the
/// rows of each that hold tokens. `digests` has room for them. INTERNAL when the kernels refuse.
[[nodiscard]] Status ComputeDigests(const KvSpec& spec, kernels::DigestKind kind,
                                    const std::byte* units, std::span<const int32_t> valid_rows,
                                    std::byte* digests);

class DigestStore {
 public:
  /// `database` and `gate`, which reads of the database pass, outlive the store.
  DigestStore(Database* database, uint64_t cache_bytes, IoGate* gate)
      : database_(database), gate_(gate), cache_(cache_bytes) {}

  /// Adds minima and maxima of the segment's units to `batch`: `digests` of all layers,
  /// DigestBytesPerLayer each.
  void StagePut(const SegmentKey& key, const SegmentRecord& record,
                std::span<const std::byte> digests, Database::Batch& batch);
  /// Digests of every kind. `record`: null where it could not be read. Nobody keeps digests of the
  /// segment meanwhile.
  void StageErase(const SegmentKey& key, const SegmentRecord* record, Database::Batch& batch);
  /// After a commit that erased or replaced the segment.
  void Forget(const SegmentKey& key, const SegmentRecord& record);
  /// The same where the segment's record could not be read.
  void ForgetAll() { cache_.Clear(); }

  /// Minima and maxima. DATA_LOSS when there are none that match their checksum; the rest as Find.
  StatusOr<DigestBytes> Read(const ExtentId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);
  /// Digests of any kind, from memory when a recent call looked; null when there are none that
  /// match their checksum, of the units that `record` describes. RESOURCE_EXHAUSTED of the gate.
  StatusOr<DigestBytes> Find(const DigestId& id, const SegmentRecord& record,
                             Priority priority = Priority::kNormal);
  /// Keeps what was derived from the units that `record` describes. What does not find room is not
  /// kept. Whether it is in the database now. REQUIRES: no writer of the segment but the caller.
  bool KeepDerived(const DigestId& id, const SegmentRecord& record, const DigestBytes& digests);
  /// Keeps representatives that a client made, [layers][pages][n_kv][key_dim] of the units that
  /// `record` describes; Find finds them from then on. RESOURCE_EXHAUSTED when the file system
  /// is full. REQUIRES: as KeepDerived.
  [[nodiscard]] Status KeepRepresentatives(const SegmentKey& key, const SegmentRecord& record,
                                           std::span<const std::byte> digests);

  /// Removes digests of one kind of one extent. REQUIRES: as KeepDerived.
  [[nodiscard]] Status Drop(const DigestId& id);

  /// Which digests have the key `key` in the database; nullopt when none can.
  static std::optional<DigestId> IdOf(std::string_view key);
  /// Whether `key` is one of digests of `layers` layers, of any kind.
  static bool IsKey(std::string_view key, uint32_t layers);

  /// The digests in a row of the database; nullopt when it is damaged, or of units that are gone.
  static std::optional<std::span<const std::byte>> StoredIn(std::string_view value,
                                                            const DigestId& id,
                                                            const SegmentRecord& record);

  /// digest_reads, digest_cache_hits, digests_damaged, digest_bytes_cached.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  void Remember(const DigestId& id, const DigestBytes& digests, uint64_t epoch);
  /// Whether the file system has room for `bytes`.
  [[nodiscard]] Status CheckRoom(uint64_t bytes) const;
  /// Adds `digests`, of what `record` describes and with this checksum, to `batch`.
  static void StageKept(const DigestId& id, const SegmentRecord& record,
                        std::span<const std::byte> digests, uint32_t crc32c,
                        Database::Batch& batch);

  Database* const database_;
  IoGate* const gate_;
  BoundedCache<DigestId, DigestBytes, DigestIdHash> cache_;  ///< Null: there are none.
  Counter reads_, hits_, damaged_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_DIGEST_STORE_H_
