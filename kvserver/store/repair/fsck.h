// SPDX-License-Identifier: Apache-2.0
//
// Fsck: checks a data directory that no server has open. Every record is read and compared with
// those that belong to it (segment, extents, digests, volumes), every unit is read and verified
// against its checksum, and what belongs to nothing is found. Nothing is changed, but for a FORMAT
// that is missing and that the database proves (data_directory.h), unless it is told to repair:
// then segments that are damaged, records that belong to no segment, and volumes without a readable
// header are dropped. A dropped segment is missing afterwards, and a put brings it back.
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
#include "kvserver/store/payload/io_engine.h"
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
    kVolume,    ///< A volume has no readable header, or is shorter than it says.
    kSegment,   ///< A segment's record is damaged, or is not under its own key.
    kExtent,    ///< An extent's record is missing or damaged, or its space is not all its own.
    kUnits,     ///< Units fail their checksum or are gone.
    kDigests,   ///< A segment's digests are missing or damaged.
    kOrphan,    ///< A record that belongs to no segment.
    kDevice,    ///< The device failed; what it holds is not known to be damaged.
  };
  Kind kind = Kind::kMetadata;
  std::string what;       ///< Names the thing and what is wrong with it.
  bool can_drop = false;  ///< Whether a repair drops it.
  bool dropped = false;   ///< It was.
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
  /// Segments whose parent is not stored. That is no damage: a parent can be deleted first.
  uint64_t detached = 0;
  /// Segments that no document refers to, which a server keeps as a cache, and their payload.
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
  // Each is the machine's when null, and outlives the call.
  IoEngine* engine = nullptr;
  Disk* disk = nullptr;
  rocksdb::Env* env = nullptr;  ///< The same disk as RocksDB sees it.
  /// The segment that a document refers to by this key of the metadata, nullopt for any other key
  /// (registry/document_keys.h); without it no document refers to any.
  std::function<std::optional<SegmentKey>(std::string_view metadata_key)> reference = {};
  /// Told after each segment; may be empty.
  std::function<void(uint64_t segments, uint64_t of_segments)> progress = {};
};

/// What is wrong with the data is in the report. Errors: INVALID_ARGUMENT (no data directory),
/// FAILED_PRECONDITION (in use, or written by a newer version), PERMISSION_DENIED; of a repair also
/// RESOURCE_EXHAUSTED and UNAVAILABLE.
StatusOr<FsckReport> Fsck(const std::string& path, const FsckOptions& options);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_FSCK_H_
