// SPDX-License-Identifier: Apache-2.0
//
// Fsck: checks a data directory that no server has open. It reads every record and compares it with
// the related ones (segment, extents, digests, volumes). It verifies every unit against its
// checksum, and finds orphaned records. It changes nothing, except for a missing FORMAT that the
// database proves (data_directory.h). With repair it drops damaged segments, orphaned records, and
// volumes without a readable header. A dropped segment is missing afterwards, and a put restores
// it.
//
// Units: bytes. Thread-safety: one call at a time for a directory, which its lock ensures.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_FSCK_H_
#define QUIRE_KVSERVER_STORE_REPAIR_FSCK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/payload/disk.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "quire/key.h"
#include "quire/status.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace quire::kvserver {

struct FsckProblem {
  enum class Kind : uint8_t {
    kMetadata,  ///< The database, or a table of it, cannot be read.
    kTenant,    ///< A salt is damaged or missing.
    kVolume,    ///< A volume has no readable header, or is shorter than its header says.
    kSegment,   ///< A segment's record is damaged, or has a wrong key.
    kExtent,    ///< An extent's record is missing or damaged, or shares its space.
    kUnits,     ///< Units fail their checksum or are missing.
    kDigests,   ///< A segment's digests are missing or damaged.
    kOrphan,    ///< A record without a segment.
    kDevice,    ///< The device failed; its contents may be intact.
  };
  Kind kind = Kind::kMetadata;
  std::string what;       ///< Names the object and its problem.
  bool can_drop = false;  ///< A repair drops it.
  bool dropped = false;   ///< The repair dropped it.
};

/// "metadata", "units" and so on.
std::string_view Name(FsckProblem::Kind kind);

struct FsckReport {
  static constexpr size_t kMostListed = 1000;

  uint64_t volumes = 0;
  uint64_t segments = 0;
  uint64_t extents = 0;
  uint64_t units = 0;
  uint64_t payload_bytes = 0;
  /// Segments whose parent is not stored. This is no damage: a parent can be deleted first.
  uint64_t detached = 0;
  /// Segments without a document, which a server keeps as a cache, and their payload.
  uint64_t cached_segments = 0;
  uint64_t cached_bytes = 0;

  uint64_t problem_count = 0;
  std::vector<FsckProblem> problems;  ///< The first kMostListed.
  uint64_t segments_dropped = 0;
  uint64_t orphans_dropped = 0;
  uint64_t volumes_set_aside = 0;  ///< Renamed, with ".damaged" at the end.

  bool clean() const { return problem_count == 0; }
};

struct FsckOptions {
  bool repair = false;
  // Null: the machine's. Each outlives the call.
  IoEngine* engine = nullptr;
  Disk* disk = nullptr;
  rocksdb::Env* env = nullptr;  ///< RocksDB's view of the same disk; null: the machine's.
  /// Returns the segment that a document refers to by this key of the metadata, nullopt for any
  /// other key (registry/document_keys.h). Without it no segment has documents.
  std::function<std::optional<SegmentKey>(std::string_view metadata_key)> reference = {};
  /// Called after each segment; may be empty.
  std::function<void(uint64_t segments, uint64_t of_segments)> progress = {};
};

/// The report has all problems of the data. Errors: INVALID_ARGUMENT (no data directory),
/// FAILED_PRECONDITION (in use, or written by a newer version), PERMISSION_DENIED; with repair also
/// RESOURCE_EXHAUSTED and UNAVAILABLE.
StatusOr<FsckReport> Fsck(const std::string& path, const FsckOptions& options);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_FSCK_H_
