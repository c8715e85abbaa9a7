// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/fsck.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/metadata/data_directory.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/engine/io_status.h"
#include "kvserver/store/payload/payload_store.h"
#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::kvserver {
namespace {

using Kind = FsckProblem::Kind;

constexpr size_t kKeyBytes = sizeof(SegmentKey::bytes);
constexpr uint32_t kCheckedAtOnce = 64;
constexpr const char* kSetAside = ".damaged";

/// An orphaned row of the database.
struct Row {
  Table table;
  std::string key;
};

Disk& DiskOf(const FsckOptions& options) {
  return options.disk != nullptr ? *options.disk : SystemDisk();
}

bool Exists(Disk& disk, const std::string& path) {
  DiskEntry entry;
  return disk.Examine(path, &entry) == 0;
}

bool IsNewer(const Status& status) { return status.code() == StatusCode::kFailedPrecondition; }

/// The layer at the end of an extent's key; nullopt for any other key.
std::optional<uint32_t> LayerIn(std::string_view key) {
  if (key.size() != kKeyBytes + sizeof(uint32_t)) return std::nullopt;
  uint32_t layer = 0;
  for (const char byte : key.substr(kKeyBytes)) layer = layer << 8 | static_cast<uint8_t>(byte);
  return layer;
}

/// Reads everything and changes nothing.
class Checker {
 public:
  Checker(const DataDirectory& directory, const FsckOptions& options, IoEngine* engine)
      : directory_(directory), options_(options), disk_(DiskOf(options)), engine_(engine) {}

  Status Run();
  /// Closes the database and the volumes. Findings stay.
  void Close() {
    digests_.reset();
    ssd_.reset();
    payload_.reset();
    database_.reset();
  }

  FsckReport report;
  std::set<SegmentKey> damaged;  ///< Segments with any damage.
  std::vector<Row> orphans;
  std::vector<std::string> bad_volumes;  ///< Paths.

 private:
  /// False when the database cannot be opened, which is then reported.
  StatusOr<bool> OpenDatabase();
  Status CheckVolumes();
  Status CheckTenants();
  /// Finds the segments that documents refer to.
  void FindNamed();
  Status CheckSegments();
  Status CheckSegment(std::string_view key, std::string_view value);
  /// Checks the record under `key` beyond its encoding.
  void CheckKey(const SegmentKey& key, const SegmentRecord& record);
  Status CheckExtent(const ExtentId& id, const SegmentRecord& record);
  /// Checks that no other extent has its space.
  void CheckSpace(const ExtentId& id, const ExtentRecord& extent);
  /// Checks the record of the segment's digests, if there is one.
  Status CheckDigestExtent(const SegmentKey& key);
  void CheckUnits(const ExtentId& id, const SegmentRecord& record);
  void CheckDigests(const ExtentId& id, const SegmentRecord& record);
  Status CheckOrphans(Table table, const std::string& name);
  /// Number of layers of the segment under this key; nullopt when there is no such segment.
  std::optional<uint32_t> LayersOf(std::string_view segment);
  /// Reports the error that ended the reading of a table.
  void TableFailed(const std::string& name, const Status& status);

  void Add(Kind kind, std::string what, bool can_drop);
  void AddDamage(Kind kind, const SegmentKey& key, const std::string& what);

  const DataDirectory& directory_;
  const FsckOptions& options_;
  Disk& disk_;
  IoEngine* const engine_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<PayloadStore> payload_;
  std::unique_ptr<SsdTier> ssd_;
  IoGate gate_{{}};
  std::unique_ptr<DigestStore> digests_;
  std::map<std::string, TenantSalt, std::less<>> salts_;
  std::set<std::string, std::less<>> unknown_tenants_;
  std::set<SegmentKey> named_;
  uint64_t of_segments_ = 0;
};

void Checker::Add(Kind kind, std::string what, bool can_drop) {
  ++report.problem_count;
  if (report.problems.size() >= FsckReport::kMostListed) return;
  report.problems.push_back({.kind = kind, .what = std::move(what), .can_drop = can_drop});
}

void Checker::AddDamage(Kind kind, const SegmentKey& key, const std::string& what) {
  damaged.insert(key);
  Add(kind, "segment " + key.Hex() + what, /*can_drop=*/true);
}

void Checker::TableFailed(const std::string& name, const Status& status) {
  if (status.ok()) return;
  Add(Kind::kMetadata,
      "table " + name + " cannot be read to its end: " + std::string(Message(status)),
      /*can_drop=*/false);
}

Status Checker::Run() {
  QUIRE_RETURN_IF_ERROR(CheckVolumes());
  QUIRE_ASSIGN_OR_RETURN(const bool opened, OpenDatabase());
  if (!opened) return OkStatus();
  QUIRE_RETURN_IF_ERROR(CheckTenants());
  FindNamed();
  QUIRE_RETURN_IF_ERROR(CheckSegments());
  QUIRE_RETURN_IF_ERROR(CheckOrphans(Table::kExtents, "extents"));
  return CheckOrphans(Table::kDigests, "digests");
}

Status Checker::CheckVolumes() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers,
                         VolumeSet::NumbersIn(directory_.payload_path(), disk_));
  for (const uint32_t number : numbers) {
    const std::string path = VolumeSet::PathIn(directory_.payload_path(), number);
    const auto volume = VolumeFile::Open(path, number, DirectIo::kNever, disk_);
    if (IsNewer(volume.status())) return volume.status();
    ++report.volumes;
    if (!volume.ok()) {
      const bool damage = volume.status().code() == StatusCode::kDataLoss;
      if (damage) bad_volumes.push_back(path);
      Add(damage ? Kind::kVolume : Kind::kDevice, std::string(Message(volume.status())), damage);
    } else if ((*volume)->present_bytes() < (*volume)->size_bytes()) {
      Add(Kind::kVolume,
          path + " has " + std::to_string((*volume)->present_bytes()) + " of " +
              std::to_string((*volume)->size_bytes()) + " bytes: its end was cut off",
          /*can_drop=*/false);
    }
  }
  return OkStatus();
}

StatusOr<bool> Checker::OpenDatabase() {
  // The store is empty.
  if (!Exists(disk_, directory_.metadata_path() + "/CURRENT")) return false;
  auto database =
      Database::Open({.path = directory_.metadata_path(), .env = options_.env, .read_only = true});
  if (!database.ok()) {
    Add(Kind::kMetadata,
        std::string(Message(database.status())) +
            "; restore the directory from a backup, or choose an empty one and put the documents "
            "again",
        /*can_drop=*/false);
    return false;
  }
  database_ = *std::move(database);
  const VolumeSet::Options volumes{
      .directory = directory_.payload_path(), .disk = &disk_, .read_only = true};
  QUIRE_ASSIGN_OR_RETURN(payload_,
                         PayloadStore::Open({.volumes = volumes, .buffers = {}}, engine_));
  ssd_ = std::make_unique<SsdTier>(database_.get(), payload_.get(), /*record_cache_bytes=*/1 << 20);
  digests_ = std::make_unique<DigestStore>(database_.get(), ssd_.get(), /*cache_bytes=*/0, &gate_);
  return true;
}

Status Checker::CheckTenants() {
  const auto visit = [&](std::string_view tenant, std::string_view value) {
    const auto checked = VerifyTrailer(value);
    TenantSalt salt;
    if (checked && checked->bytes.size() == salt.size()) {
      std::memcpy(salt.data(), checked->bytes.data(), salt.size());
      salts_.emplace(tenant, salt);
    } else {
      unknown_tenants_.emplace(tenant);
      Add(Kind::kTenant,
          "the salt of tenant '" + std::string(tenant) +
              "' is damaged: restore the directory from a backup, nobody can name its segments",
          /*can_drop=*/false);
    }
    return true;
  };
  TableFailed("tenants", database_->Scan(Table::kTenants, "", visit));
  return OkStatus();
}

void Checker::FindNamed() {
  const auto visit = [&](std::string_view key, std::string_view) {
    const auto segment = options_.reference ? options_.reference(key) : std::nullopt;
    if (segment) named_.insert(*segment);
    return true;
  };
  TableFailed("metadata", database_->Scan(Table::kMetadata, "", visit));
}

Status Checker::CheckSegments() {
  const auto count = [&](std::string_view, std::string_view) {
    ++of_segments_;
    return true;
  };
  (void)database_->Scan(Table::kSegments, "", count);  // Errors are reported below.
  Status newer;
  const auto visit = [&](std::string_view key, std::string_view value) {
    newer = CheckSegment(key, value);
    return newer.ok();
  };
  const Status scanned = database_->Scan(Table::kSegments, "", visit);
  QUIRE_RETURN_IF_ERROR(newer);
  TableFailed("segments", scanned);
  return OkStatus();
}

Status Checker::CheckSegment(std::string_view raw_key, std::string_view value) {
  ++report.segments;
  const auto key = SegmentKey::FromBytes(raw_key);
  if (!key) {
    orphans.push_back({Table::kSegments, std::string(raw_key)});
    Add(Kind::kSegment, "a segment's record has no key of a segment", /*can_drop=*/true);
    return OkStatus();
  }
  const StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
  if (IsNewer(record.status())) return record.status();
  if (!record.ok()) {
    AddDamage(Kind::kSegment, *key, ": " + std::string(Message(record.status())));
  } else {
    report.payload_bytes += record->stored_bytes();
    CheckKey(*key, *record);
    // Lost with their server: private segments were never synced.
    if (record->dram_only || record->private_pages) return OkStatus();
    if (!named_.contains(*key)) {
      ++report.cached_segments;
      report.cached_bytes += record->stored_bytes();
    }
    for (uint32_t layer = 0; layer < record->num_layers(); ++layer) {
      QUIRE_RETURN_IF_ERROR(CheckExtent({*key, layer}, *record));
      if (!record->object) CheckDigests({*key, layer}, *record);
    }
    if (!record->object) QUIRE_RETURN_IF_ERROR(CheckDigestExtent(*key));
  }
  if (options_.progress) options_.progress(report.segments, of_segments_);
  return OkStatus();
}

void Checker::CheckKey(const SegmentKey& key, const SegmentRecord& record) {
  if (record.parent != kRootKey && !LayersOf(record.parent.view())) ++report.detached;
  const auto salt = salts_.find(record.tenant);
  if (salt != salts_.end()) {
    if (record.private_pages) return;  // Its salt was lost with its server.
    const SegmentKey expected = record.object ? ComputeObjectKey(salt->second, record.object->key)
                                              : ComputeKey(salt->second, Fingerprint(record.spec),
                                                           record.parent, record.tokens);
    if (expected != key) {
      AddDamage(Kind::kSegment, key, ": its record is that of another segment");
    }
  } else if (unknown_tenants_.insert(record.tenant).second) {
    Add(Kind::kTenant,
        "tenant '" + record.tenant +
            "' has segments and no salt: restore the directory from a backup, nobody can name them",
        /*can_drop=*/false);
  }
}

Status Checker::CheckExtent(const ExtentId& id, const SegmentRecord& record) {
  const std::string where = " layer " + std::to_string(id.layer) + ": ";
  const StatusOr<std::string> value = database_->Get(Table::kExtents, SsdTier::RecordKey(id));
  if (!value.ok()) {
    const bool missing = value.status().code() == StatusCode::kNotFound;
    AddDamage(
        Kind::kExtent, id.segment,
        where + (missing ? "its extent has no record" : std::string(Message(value.status()))));
    return OkStatus();
  }
  ++report.extents;
  const StatusOr<ExtentRecord> extent = DecodeExtentRecord(*value);
  if (IsNewer(extent.status())) return extent.status();
  if (!extent.ok()) {
    AddDamage(Kind::kExtent, id.segment, where + std::string(Message(extent.status())));
    return OkStatus();
  }
  CheckSpace(id, *extent);
  CheckUnits(id, record);
  return OkStatus();
}

void Checker::CheckSpace(const ExtentId& id, const ExtentRecord& extent) {
  const auto lost = payload_->Recover(extent.location);
  if (lost.ok()) return;
  const std::string where =
      id.layer == kDigestsLayer ? " digests: " : " layer " + std::to_string(id.layer) + ": ";
  // The units tell which of two extents in one place is damaged.
  Add(Kind::kExtent,
      "segment " + id.segment.Hex() + where + "its space: " + std::string(Message(lost.status())),
      /*can_drop=*/false);
}

// Digests are found missing or damaged when they are read.
Status Checker::CheckDigestExtent(const SegmentKey& key) {
  const ExtentId id{key, kDigestsLayer};
  const StatusOr<std::string> value = database_->Get(Table::kExtents, SsdTier::RecordKey(id));
  if (!value.ok()) return OkStatus();
  const StatusOr<ExtentRecord> extent = DecodeExtentRecord(*value);
  if (IsNewer(extent.status())) return extent.status();
  if (extent.ok()) CheckSpace(id, *extent);
  return OkStatus();
}

void Checker::CheckUnits(const ExtentId& id, const SegmentRecord& record) {
  uint32_t bad = 0;
  Status first_bad;
  Status device;
  const uint32_t units = record.units_per_layer();
  for (uint32_t first = 0; first < units; first += kCheckedAtOnce) {
    std::vector<SsdTier::UnitRead> reads;
    for (uint32_t unit = first; unit < std::min(units, first + kCheckedAtOnce); ++unit) {
      reads.push_back({.id = id, .unit = unit});
    }
    ssd_->ReadUnits(reads);
    for (const SsdTier::UnitRead& read : reads) {
      Status status = read.result.status();
      const uint32_t put = record.unit_crc32c[size_t{id.layer} * units + read.unit];
      if (status.ok() && read.result->crc32c() != put) {
        status = DataLoss("unit ", read.unit, " is not the one that was put");
      }
      const bool damage =
          status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
      if (damage && bad++ == 0) first_bad = status;
      if (!damage && !status.ok()) device = status;
    }
  }
  report.units += units;
  if (bad > 0) {
    AddDamage(Kind::kUnits, id.segment,
              " layer " + std::to_string(id.layer) + ": " + std::to_string(bad) + " of " +
                  std::to_string(units) +
                  " units are damaged; the first: " + std::string(Message(first_bad)));
  }
  if (!device.ok()) Add(Kind::kDevice, std::string(Message(device)), /*can_drop=*/false);
}

void Checker::CheckDigests(const ExtentId& id, const SegmentRecord& record) {
  const StatusOr<DigestBytes> digests = digests_->Read(id, record);
  if (digests.ok()) return;
  const std::string what(Message(digests.status()));
  if (!IsDataLoss(digests.status())) return Add(Kind::kDevice, what, /*can_drop=*/false);
  AddDamage(Kind::kDigests, id.segment, ": " + what);
}

std::optional<uint32_t> Checker::LayersOf(std::string_view segment) {
  const StatusOr<std::string> value = database_->Get(Table::kSegments, segment);
  if (value.status().code() == StatusCode::kNotFound) return std::nullopt;
  const StatusOr<SegmentRecord> record =
      value.ok() ? DecodeSegmentRecord(*value) : StatusOr<SegmentRecord>(value.status());
  // A damaged record is reported by itself; everything under its key goes with it.
  return record.ok() ? record->num_layers() : UINT32_MAX;
}

Status Checker::CheckOrphans(Table table, const std::string& name) {
  std::string segment;
  std::optional<uint32_t> layers;
  const auto visit = [&](std::string_view key, std::string_view) {
    if (segment.empty() || key.substr(0, kKeyBytes) != segment) {
      segment = key.substr(0, kKeyBytes);
      layers = LayersOf(segment);
    }
    const std::optional<uint32_t> layer = LayerIn(key);
    const bool is_known = table == Table::kDigests
                              ? layers && DigestStore::IsKey(key, *layers)
                              : layers && layer && (*layer < *layers || *layer == kDigestsLayer);
    if (is_known) return true;
    orphans.push_back({table, std::string(key)});
    const auto hex = SegmentKey::FromBytes(segment);
    Add(Kind::kOrphan,
        "a record of table " + name + " belongs to no segment" +
            (hex ? ": " + hex->Hex() + " layer " + std::to_string(layer.value_or(0)) : ""),
        /*can_drop=*/true);
    return true;
  };
  TableFailed(name, database_->Scan(table, "", visit));
  return OkStatus();
}

/// Drops the checker's findings.
Status Drop(const DataDirectory& directory, const FsckOptions& options, const Checker& found,
            FsckReport* report) {
  Disk& disk = DiskOf(options);
  for (const std::string& path : found.bad_volumes) {
    int error = disk.Rename(path, path + kSetAside);
    // Keep the name from returning after a power failure.
    if (error == 0) error = SyncDirectory(disk, ParentDirectory(path));
    if (error != 0) return FromErrno(error, "set aside " + path);
    ++report->volumes_set_aside;
  }
  if (!found.damaged.empty() || !found.orphans.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const auto database,
                           Database::Open({.path = directory.metadata_path(), .env = options.env}));
    for (const SegmentKey& key : found.damaged) {
      Database::Batch batch = database->NewBatch();
      batch.Delete(Table::kSegments, key.view());
      batch.DeletePrefix(Table::kExtents, key.view());
      batch.DeletePrefix(Table::kDigests, key.view());
      QUIRE_RETURN_IF_ERROR(database->Commit(batch, /*sync=*/false));
      ++report->segments_dropped;
    }
    for (const Row& row : found.orphans) {
      Database::Batch batch = database->NewBatch();
      batch.Delete(row.table, row.key);
      QUIRE_RETURN_IF_ERROR(database->Commit(batch, /*sync=*/false));
      ++report->orphans_dropped;
    }
    QUIRE_RETURN_IF_ERROR(database->Sync());
  }
  for (FsckProblem& problem : report->problems) problem.dropped = problem.can_drop;
  return OkStatus();
}

}  // namespace

std::string_view Name(FsckProblem::Kind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "metadata", "tenant", "volume", "segment", "extent", "units", "digests", "orphan", "device"};
  return kNames[static_cast<size_t>(kind)];
}

StatusOr<FsckReport> Fsck(const std::string& path, const FsckOptions& options) {
  // Opening a data directory creates a missing one, and repairs a lost FORMAT.
  Disk& disk = DiskOf(options);
  if (!Exists(disk, path + "/FORMAT") && !Exists(disk, path + "/metadata/CURRENT")) {
    return InvalidArgument(
        path,
        " is no data directory, it has neither FORMAT nor a database; name the directory "
        "that the server was given with --data-dir");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto directory, DataDirectory::Open(path, disk, options.env));
  QUIRE_ASSIGN_OR_RETURN(const EngineChoice choice, ChooseEngine(EngineKind::kAuto, {}));
  IoEngine* const engine = options.engine != nullptr ? options.engine : choice.engine.get();
  Checker checker(*directory, options, engine);
  QUIRE_RETURN_IF_ERROR(checker.Run());
  FsckReport report = checker.report;
  if (options.repair && !report.clean()) {
    checker.Close();
    QUIRE_RETURN_IF_ERROR(Drop(*directory, options, checker, &report));
  }
  return report;
}

}  // namespace quire::kvserver
