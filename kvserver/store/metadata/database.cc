// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "kvserver/store/metadata/clocked_env.h"
#include "kvserver/store/policy/ssd_budget.h"

namespace quire::kvserver {
namespace {

// In order of Table. RocksDB's own default family, which holds only the anchor, follows.
constexpr std::array<const char*, 5> kTableNames = {"segments", "extents", "digests", "metadata",
                                                    "tenants"};
constexpr size_t kBlockCacheBytes = 32 << 20;
// Divisor of the memory of all tables together that gives what one table takes at a time, and the
// upper bound of that.
constexpr uint64_t kArenaBlockShare = 64;
constexpr uint64_t kLargestArenaBlock = 1 << 20;
// Multiples of the memory of all tables: the write-ahead log, and a blob file.
constexpr uint64_t kLogBuffers = 2;
constexpr uint64_t kBlobFileBuffers = 4;
// Disk space preallocated for the manifest.
constexpr size_t kManifestAheadBytes = 64 << 10;
// Upper bound of one file of RocksDB's own info log; it keeps two such files.
constexpr size_t kLogFileBytes = 512 << 10;
// Free bytes required for resuming, which writes the buffers. After a second failure only a restart
// helps.
constexpr uint64_t kResumeFreeBytes = 128 << 20;
constexpr size_t kResumeProbeBytes = 1 << 20;

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

/// Converts RocksDB's errors.
Status Convert(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return OkStatus();
  const std::string detail = status.ToString();
  if (status.IsNotFound()) return NotFound(what, ": no such key");
  if (status.IsCorruption()) {
    return DataLoss(what, ": ", detail, "; the stored bytes are damaged: put the data again");
  }
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit) {
    return ResourceExhausted(what, ": ", detail,
                             "; free space in the data directory or delete documents, then retry");
  }
  if (status.IsIOError()) {
    return Unavailable(what, ": ", detail,
                       "; check that the data directory can be written and that its device works; "
                       "when reads work and writes stay "
                       "refused, restart the server");
  }
  if (status.IsBusy() || status.IsTryAgain() || status.IsTimedOut()) {
    return Unavailable(what, ": ", detail, "; retry");
  }
  return Internal(what, ": ", detail);
}

rocksdb::ColumnFamilyOptions TableOptions(const std::shared_ptr<rocksdb::Cache>& cache,
                                          uint64_t buffer_bytes, bool payload) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  // A whole filter or index of many small records would not fit in a shard of the cache, and every
  // read would load it anew.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = payload ? rocksdb::kNoCompression : rocksdb::kLZ4Compression;
  // No table has a limit of its own: db_write_buffer_size limits all of them together. At a limit
  // of its own RocksDB 7.8 (ScheduleFlushes) refers to every table, and never releases those that
  // it had not reached when the manifest breaks. Closing such a database ends the process.
  options.write_buffer_size = std::numeric_limits<size_t>::max();
  options.arena_block_size = std::min(buffer_bytes / kArenaBlockShare, kLargestArenaBlock);
  if (payload) {
    options.enable_blob_files = true;
    options.blob_file_size = kBlobFileBuffers * buffer_bytes;
    options.enable_blob_garbage_collection = true;
    options.blob_garbage_collection_force_threshold = 0.5;
  }
  return options;
}

/// State of RocksDB's newest write-ahead log and of its buffer.
struct LogState {
  std::atomic<bool> anchored{false};  ///< The buffer has the anchor.
  std::atomic<bool> broken{false};    ///< A write to the log has failed.
  std::atomic<bool> missing{false};   ///< The log after it could not be made.
};

/// Callbacks of RocksDB. Thread-safe.
class Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(LogState* log) : log_(log) {}
  /// Keeps RocksDB from resuming by itself after it ran out of space. It would choose the time, and
  /// give up writing for good if space is still short then.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* automatic) override {
    *automatic = false;
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& sealed) override {
    if (sealed.cf_name == rocksdb::kDefaultColumnFamilyName) log_->anchored = false;
  }

 private:
  LogState* const log_;
};

/// Receivers of events of all files but the log. Either may be null.
struct FileObserver {
  StallWatch* watch = nullptr;
  RecurringTrouble* reads = nullptr;

  /// Reports and returns `status` of a read of the file `name`.
  rocksdb::IOStatus Report(const std::string& name, rocksdb::IOStatus status) const {
    if (reads == nullptr) return status;
    if (status.ok()) {
      reads->Succeeded();
    } else {
      reads->Failed("cannot read " + name + ": " + status.ToString());
    }
    return status;
  }
};

/// A watched file for reading.
class WatchedReadFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  WatchedReadFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, std::string name,
                  const FileObserver& observer)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        name_(std::move(name)),
        observer_(observer) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t bytes, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* debug) const override {
    const StallWatch::Operation operation(observer_.watch, "a read of the metadata");
    return observer_.Report(name_, FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options,
                                                                        result, scratch, debug));
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                              const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(observer_.watch, "reads of the metadata");
    rocksdb::IOStatus status =
        FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    for (size_t i = 0; status.ok() && i < count; ++i) {
      (void)observer_.Report(name_, requests[i].status);
    }
    return status.ok() ? status : observer_.Report(name_, std::move(status));
  }
  rocksdb::IOStatus Prefetch(uint64_t offset, size_t bytes, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(observer_.watch, "a read ahead of the metadata");
    return FSRandomAccessFileOwnerWrapper::Prefetch(offset, bytes, options, debug);
  }

 private:
  const std::string name_;
  const FileObserver observer_;
};

/// A watched file that RocksDB writes in a flush, a compaction or a recovery. It reports no
/// failure: the refused commits do.
class WatchedWriteFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  static constexpr std::string_view kWhat = "a write to the metadata's files";

  WatchedWriteFile(std::unique_ptr<rocksdb::FSWritableFile> file, StallWatch* watch)
      : FSWritableFileOwnerWrapper(std::move(file)), watch_(watch) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(watch_, kWhat);
    return FSWritableFileOwnerWrapper::Append(data, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& verification,
                           rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(watch_, kWhat);
    return FSWritableFileOwnerWrapper::Append(data, options, verification, debug);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(watch_, "a sync of the metadata's files");
    return FSWritableFileOwnerWrapper::Sync(options, debug);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(watch_, "a sync of the metadata's files");
    return FSWritableFileOwnerWrapper::Fsync(options, debug);
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    const StallWatch::Operation operation(watch_, kWhat);
    return FSWritableFileOwnerWrapper::Close(options, debug);
  }

 private:
  StallWatch* const watch_;
};

/// A write-ahead log that reports when it breaks. A log deleted under the process is broken: its
/// records do not survive a restart.
class WatchedLog final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  /// `files` and `log` outlive it.
  WatchedLog(std::unique_ptr<rocksdb::FSWritableFile> file, rocksdb::FileSystem* files,
             std::string name, LogState* log)
      : FSWritableFileOwnerWrapper(std::move(file)),
        files_(files),
        name_(std::move(name)),
        log_(log) {}

  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    return Watch(FSWritableFileOwnerWrapper::Append(data, options, debug));
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Sync(options, debug);
    if (status.ok() && files_->FileExists(name_, options, debug).IsNotFound()) {
      status = rocksdb::IOStatus::IOError(name_, "it was deleted");
    }
    return Watch(std::move(status));
  }

 private:
  rocksdb::IOStatus Watch(rocksdb::IOStatus status) {
    if (!status.ok()) log_->broken = true;
    return status;
  }

  rocksdb::FileSystem* const files_;
  const std::string name_;
  LogState* const log_;
};

/// A watched file system with the precautions that RocksDB 7.8 needs to survive a power failure and
/// a full disk.
class CarefulFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  /// `log` outlives the file system.
  CarefulFileSystem(const std::shared_ptr<rocksdb::FileSystem>& files, LogState* log,
                    const FileObserver& observer)
      : FileSystemWrapper(files), log_(log), observer_(observer) {}
  const char* Name() const override { return "CarefulFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    if (!name.ends_with(".log")) return NewWatchedFile(name, options, file, debug);
    std::unique_ptr<rocksdb::FSWritableFile> log;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &log, debug);
    log_->missing = !status.ok();
    if (!status.ok()) return status;
    log_->broken = false;
    *file = std::make_unique<WatchedLog>(std::move(log), target(), name, log_);
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
    rocksdb::IOStatus status =
        FileSystemWrapper::NewRandomAccessFile(name, options, &opened, debug);
    if (status.ok()) {
      *file = std::make_unique<WatchedReadFile>(std::move(opened), name, observer_);
    }
    return status;
  }

  /// RocksDB creates a manifest, names it in CURRENT and only then syncs the directory. A power
  /// failure in between may keep CURRENT and lose the manifest. Here earlier names become durable
  /// first.
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    constexpr std::string_view kCurrent = "/CURRENT";
    if (to.ends_with(kCurrent)) {
      std::unique_ptr<rocksdb::FSDirectory> directory;
      const std::string path = to.substr(0, to.size() - kCurrent.size());
      rocksdb::IOStatus status = NewDirectory(path, options, &directory, debug);
      if (status.ok()) status = directory->Fsync(options, debug);
      if (!status.ok()) return status;
    }
    return FileSystemWrapper::RenameFile(from, to, options, debug);
  }

 private:
  rocksdb::IOStatus NewWatchedFile(const std::string& name, const rocksdb::FileOptions& options,
                                   std::unique_ptr<rocksdb::FSWritableFile>* file,
                                   rocksdb::IODebugContext* debug) {
    const StallWatch::Operation operation(observer_.watch, WatchedWriteFile::kWhat);
    std::unique_ptr<rocksdb::FSWritableFile> made;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &made, debug);
    if (status.ok()) *file = std::make_unique<WatchedWriteFile>(std::move(made), observer_.watch);
    return status;
  }

  LogState* const log_;
  const FileObserver observer_;
};

std::unique_ptr<rocksdb::Env> MakeCarefulEnv(rocksdb::Env* env, LogState* log,
                                             const FileObserver& observer) {
  if (env == nullptr) env = rocksdb::Env::Default();
  return std::make_unique<ClockedEnv>(rocksdb::NewCompositeEnv(std::make_shared<CarefulFileSystem>(
                                          env->GetFileSystem(), log, observer)),
                                      env->GetSystemClock());
}

rocksdb::DBOptions DbOptions(rocksdb::Env* env, uint64_t buffer_bytes,
                             std::shared_ptr<Listener> listener) {
  rocksdb::DBOptions options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.avoid_flush_during_shutdown = true;  // the anchor alone is in no log
  options.atomic_flush = true;  // one table must not get ahead of a log that another still needs
  options.track_and_verify_wals_in_manifest = true;  // a log that lost synced bytes is noticed
  options.max_background_jobs = 2;
  options.max_total_wal_size = kLogBuffers * buffer_bytes;
  options.db_write_buffer_size = buffer_bytes;
  options.manifest_preallocation_size = kManifestAheadBytes;
  options.max_manifest_file_size = buffer_bytes;  // then it is rewritten
  options.max_log_file_size = kLogFileBytes;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.listeners.push_back(std::move(listener));
  return options;
}

/// 0 when there is no such directory.
StatusOr<uint64_t> BytesOfFiles(rocksdb::Env& env, const std::string& path) {
  std::vector<std::string> names;
  const rocksdb::Status listed = env.GetChildren(path, &names);
  if (listed.IsNotFound()) return uint64_t{0};
  QUIRE_RETURN_IF_ERROR(Convert(listed, "cannot list " + path));
  uint64_t total = 0;
  for (const std::string& name : names) {
    uint64_t bytes = 0;
    // A deleted file has no bytes.
    if (env.GetFileSize(path + "/" + name, &bytes).ok()) total += bytes;
  }
  return total;
}

/// The first key after every key that starts with `prefix`.
std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(end.back() + 1);
  return end;
}

/// True when tables are ahead of a torn record of an older log, without RocksDB knowing that they
/// need nothing of it. The device failed between the manifest's records that say so.
bool AreTablesAheadOfLogs(const rocksdb::Status& status) {
  return status.IsCorruption() &&
         status.ToString().find("SST file is ahead of WALs") != std::string::npos;
}

/// Opens the database. A flush takes all tables at once (atomic_flush), so a log older than a table
/// has no record that any table lacks. Its torn record may be skipped.
rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path, bool read_only,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             std::vector<rocksdb::ColumnFamilyHandle*>* tables, rocksdb::DB** db) {
  const auto open = [&] {
    return read_only ? rocksdb::DB::OpenForReadOnly(options, path, families, tables, db)
                     : rocksdb::DB::Open(options, path, families, tables, db);
  };
  const rocksdb::Status status = open();
  if (!AreTablesAheadOfLogs(status)) return status;
  tables->clear();
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  return open();
}

}  // namespace

struct Database::Rep {
  std::string path;
  uint64_t limit_bytes = 0;
  uint64_t buffer_bytes = 0;
  bool read_only = false;
  StallWatch* watch = nullptr;
  Health* health = nullptr;
  LogState log;  // `log` and `env` outlive the database.
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
  std::shared_ptr<rocksdb::Cache> cache;
  std::vector<rocksdb::ColumnFamilyHandle*> tables;

  ~Rep() {
    for (rocksdb::ColumnFamilyHandle* table : tables) db->DestroyColumnFamilyHandle(table);
  }
  rocksdb::ColumnFamilyHandle* Of(Table table) const { return tables[static_cast<size_t>(table)]; }
  void Anchor();
  /// A byte-counting property of RocksDB, summed over all tables.
  uint64_t MemoryOf(const std::string& property) const {
    uint64_t bytes = 0;
    return db->GetAggregatedIntProperty(property, &bytes) ? bytes : 0;
  }
};

struct Database::Batch::Rep {
  const Database::Rep* database = nullptr;
  rocksdb::WriteBatch batch;
  bool deletes = false;
};

Database::Batch::Batch() : rep_(std::make_unique<Rep>()) {}
Database::Batch::~Batch() = default;
Database::Batch::Batch(Batch&&) noexcept = default;

void Database::Batch::Put(Table table, std::string_view key,
                          std::initializer_list<std::string_view> parts) {
  const rocksdb::Slice key_slice = ToSlice(key);
  std::vector<rocksdb::Slice> slices;
  for (std::string_view part : parts) slices.push_back(ToSlice(part));
  rep_->batch.Put(rep_->database->Of(table), rocksdb::SliceParts(&key_slice, 1),
                  rocksdb::SliceParts(slices.data(), static_cast<int>(slices.size())));
}

void Database::Batch::Delete(Table table, std::string_view key) {
  rep_->deletes = true;
  rep_->batch.Delete(rep_->database->Of(table), ToSlice(key));
}

void Database::Batch::DeletePrefix(Table table, std::string_view prefix) {
  rep_->deletes = true;
  rep_->batch.DeleteRange(rep_->database->Of(table), ToSlice(prefix), PrefixEnd(prefix));
}

StatusOr<std::unique_ptr<Database>> Database::Open(const Options& options) {
  const auto cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kTableNames.size(); ++i) {
    const auto table = static_cast<Table>(i);
    const bool payload = table == Table::kDigests;
    families.emplace_back(kTableNames[i], TableOptions(cache, options.buffer_bytes, payload));
  }
  families.emplace_back(rocksdb::kDefaultColumnFamilyName,
                        TableOptions(cache, options.buffer_bytes, false));
  auto rep = std::make_unique<Rep>();
  rep->path = options.path;
  rep->limit_bytes = options.limit_bytes;
  rep->buffer_bytes = options.buffer_bytes;
  rep->cache = cache;
  rocksdb::DB* db = nullptr;
  rep->read_only = options.read_only;
  rep->watch = options.watch;
  rep->health = options.health;
  rep->env =
      MakeCarefulEnv(options.env, &rep->log, {.watch = options.watch, .reads = options.reads});
  const rocksdb::DBOptions db_options =
      DbOptions(rep->env.get(), options.buffer_bytes, std::make_shared<Listener>(&rep->log));
  const rocksdb::Status status =
      OpenDatabase(db_options, options.path, options.read_only, families, &rep->tables, &db);
  rep->db.reset(db);
  QUIRE_RETURN_IF_ERROR(Convert(status, "cannot open the database in " + options.path));
  std::unique_ptr<Database> database(new Database(std::move(rep)));
  QUIRE_RETURN_IF_ERROR(database->MeasureFiles());
  // Deletions before this open count like later ones: a compaction may make room.
  database->has_deleted_ = true;
  return database;
}

Database::Database(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

// Makes acknowledged unsynced writes durable at a clean shutdown. A failure is not reported: the
// promise at that level still holds.
Database::~Database() {
  if (!rep_->read_only) (void)Sync();
}

Database::Batch Database::NewBatch() {
  Batch batch;
  batch.rep_->database = rep_.get();
  return batch;
}

StatusOr<std::string> Database::Get(Table table, std::string_view key) {
  std::string value;
  const rocksdb::Status status =
      rep_->db->Get(rocksdb::ReadOptions(), rep_->Of(table), ToSlice(key), &value);
  QUIRE_RETURN_IF_ERROR(ToldOfRead(table, status));
  return value;
}

bool Database::MayHave(Table table, std::string_view key) {
  std::string value;
  return rep_->db->KeyMayExist(rocksdb::ReadOptions(), rep_->Of(table), ToSlice(key), &value);
}

Status Database::Scan(Table table, std::string_view start,
                      const std::function<bool(std::string_view, std::string_view)>& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(rep_->db->NewIterator(options, rep_->Of(table)));
  for (it->Seek(ToSlice(start)); it->Valid(); it->Next()) {
    if (!visit(ToView(it->key()), ToView(it->value()))) break;
  }
  return ToldOfRead(table, it->status());
}

Status Database::ToldOfRead(Table table, const rocksdb::Status& read) {
  Status status = Convert(read, kTableNames[static_cast<size_t>(table)]);
  if (IsDataLoss(status) && rep_->health != nullptr) {
    rep_->health->Raise(Trouble::kRecordsDamaged, Message(status));
  }
  return status;
}

Status Database::Commit(Batch& batch, bool sync) {
  rocksdb::Status status = Write(batch, sync);
  Status resumed;
  if (!status.ok()) {
    resumed = Resume();
    // A write may fail for an older reason that is gone by now.
    if (resumed.ok()) status = Write(batch, sync);
  }
  (status.ok() ? commits_ : failures_).Add();
  Status ended = gave_up_ ? std::move(resumed) : Convert(status, "cannot write to " + rep_->path);
  Tell(ended);
  return ended;
}

void Database::Tell(const Status& written) {
  if (rep_->health == nullptr || (written.ok() && !failed_)) return;
  failed_ = !written.ok();
  if (!written.ok()) {
    const Trouble trouble = IsResourceExhausted(written) ? Trouble::kDiskFull
                            : gave_up_                   ? Trouble::kSyncFailed
                                                         : Trouble::kDeviceFailed;
    return rep_->health->Raise(trouble, Message(written));
  }
  rep_->health->Clear(Trouble::kDiskFull);
  rep_->health->Clear(Trouble::kDeviceFailed);
}

rocksdb::Status Database::Write(Batch& batch, bool sync) {
  SharedLock lock(resume_mutex_);
  const StallWatch::Operation operation(rep_->watch, "a write to the metadata");
  rep_->Anchor();
  rocksdb::WriteOptions options;
  options.sync = sync;
  written_bytes_ += batch.rep_->batch.GetDataSize();
  if (batch.rep_->deletes) has_deleted_ = true;
  rocksdb::Status status = rep_->db->Write(options, &batch.rep_->batch);
  if (!status.ok()) in_doubt_ = true;
  return status;
}

// Resuming leaves the broken log behind, but only when something is buffered. With empty buffers
// RocksDB 7.8 continues with the broken log. The next write then ends the process or, without
// assertions, the database. One row that no log has is therefore always buffered.
void Database::Rep::Anchor() {
  if (log.anchored) return;
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  log.anchored = true;  // Set first: sealing the buffer meanwhile clears it.
  if (!db->Put(options, tables.back(), "anchor", "").ok()) log.anchored = false;
}

// After a failed write RocksDB refuses all others until Resume, which starts a new log. Nothing is
// thus ever appended after a torn record. A failed Resume is final, so it is only called once a
// probe shows that the device takes writes.
Status Database::Resume() {
  ExclusiveLock lock(resume_mutex_);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeBytes());
  if (free_bytes < kResumeFreeBytes) {
    return ResourceExhausted("cannot resume writing to ", rep_->path, " with ", free_bytes,
                             " bytes free, it needs ", kResumeFreeBytes,
                             "; free space on that file system, then retry");
  }
  rocksdb::Env* const env = rep_->db->GetEnv();
  const std::string probe = rep_->path + "/PROBE";
  const rocksdb::Status written = rocksdb::WriteStringToFile(
      env, std::string(kResumeProbeBytes, '\0'), probe, /*should_sync=*/true);
  (void)env->DeleteFile(probe);  // gone or never there
  QUIRE_RETURN_IF_ERROR(Convert(written, "cannot write " + probe));
  const bool broke_when_new = rep_->log.broken && !rep_->log.anchored;
  rocksdb::Status resumed;
  if (!broke_when_new) resumed = rep_->db->Resume();
  if (broke_when_new || (!resumed.ok() && rep_->log.missing)) {
    gave_up_ = true;
    return Unavailable("cannot resume writing to ", rep_->path,
                       ", whose log broke or could not be made; restart the server, which loses "
                       "nothing that was acknowledged");
  }
  QUIRE_RETURN_IF_ERROR(Convert(resumed, "cannot resume writing to " + rep_->path));
  rep_->Anchor();
  in_doubt_ = false;
  recoveries_.Add();
  return OkStatus();
}

// A write rather than FlushWAL: only writes are ordered with the failure of another write.
Status Database::Sync() {
  Batch batch = NewBatch();
  batch.rep_->batch.PutLogData("sync");
  return Commit(batch, /*sync=*/true);
}

Status Database::Settle() { return in_doubt_ ? Resume() : OkStatus(); }

StatusOr<Database::Space> Database::Measure(const std::string& path, rocksdb::Env* env) {
  if (env == nullptr) env = rocksdb::Env::Default();
  Space space;
  const std::string parent = path.substr(0, path.rfind('/'));
  QUIRE_RETURN_IF_ERROR(Convert(env->GetFreeSpace(parent, &space.free_bytes),
                                "cannot ask for the free space of " + parent));
  QUIRE_ASSIGN_OR_RETURN(space.used_bytes, BytesOfFiles(*env, path));
  return space;
}

// --- Room.

Status Database::MeasureFiles() {
  // Reset before the measurement: concurrent writes count twice, rather than not at all.
  written_bytes_ = 0;
  QUIRE_ASSIGN_OR_RETURN(measured_bytes_, BytesOfFiles(*rep_->db->GetEnv(), rep_->path));
  return OkStatus();
}

bool Database::Fits(uint64_t bytes) const {
  return rep_->limit_bytes == 0 || MetadataFits(measured_bytes_ + written_bytes_ + bytes,
                                                rep_->limit_bytes, rep_->buffer_bytes);
}

Status Database::CheckRoom(uint64_t bytes) {
  if (Fits(bytes)) return OkStatus();
  MutexLock lock(room_mutex_);
  // Counted logs may be gone.
  QUIRE_RETURN_IF_ERROR(MeasureFiles());
  if (Fits(bytes)) return OkStatus();
  return ResourceExhausted("the metadata in ", rep_->path, " has ", measured_bytes_.load(),
                           " bytes, and ssd_bytes leaves ", rep_->limit_bytes,
                           " to it and its compaction; delete documents or raise ssd_bytes, then "
                           "retry");
}

Status Database::MakeRoom(uint64_t bytes) {
  Status room = CheckRoom(bytes);
  if (!IsResourceExhausted(room) || !has_deleted_) return room;
  QUIRE_RETURN_IF_ERROR(Compact());
  return CheckRoom(bytes);
}

StatusOr<uint64_t> Database::ReclaimableBytes() {
  MutexLock lock(room_mutex_);
  QUIRE_RETURN_IF_ERROR(MeasureFiles());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeBytes());
  const uint64_t bytes = measured_bytes_ + written_bytes_;
  return free_bytes > bytes ? bytes : 0;
}

// Writes wait: the compaction leaves the log behind. RocksDB 7.8 gives up writing for good when a
// write to that log has failed outside of a Resume.
Status Database::Compact() {
  MutexLock lock(room_mutex_);
  QUIRE_RETURN_IF_ERROR(Settle());
  ExclusiveLock writes(resume_mutex_);
  if (in_doubt_) return Unavailable("a write to ", rep_->path, " has just failed; retry");
  if (!has_deleted_.exchange(false)) return OkStatus();  // Another caller has just done it.
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  options.blob_garbage_collection_age_cutoff = 1;
  for (rocksdb::ColumnFamilyHandle* const table : rep_->tables) {
    QUIRE_RETURN_IF_ERROR(Convert(rep_->db->CompactRange(options, table, nullptr, nullptr),
                                  "cannot compact " + rep_->path));
  }
  return OkStatus();
}

StatusOr<uint64_t> Database::FreeBytes() {
  const StallWatch::Operation operation(rep_->watch, "a look at the free space");
  uint64_t bytes = 0;
  const rocksdb::Status status = rep_->db->GetEnv()->GetFreeSpace(rep_->path, &bytes);
  QUIRE_RETURN_IF_ERROR(Convert(status, "cannot ask for the free space of " + rep_->path));
  return bytes;
}

void Database::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("db_commits", "Batches committed to the database.", commits_.Get());
  visit.Counter("db_commit_failures", "Batches that the database refused.", failures_.Get());
  visit.Counter("db_recoveries", "Times the database resumed writing after a failure.",
                recoveries_.Get());
  visit.Gauge("db_memtable_bytes", "Metadata in memory that is not in a table yet.",
              rep_->MemoryOf(rocksdb::DB::Properties::kSizeAllMemTables));
  visit.Gauge("db_table_bytes", "Memory of the readers of open tables of metadata.",
              rep_->MemoryOf(rocksdb::DB::Properties::kEstimateTableReadersMem));
  visit.Gauge("db_file_bytes", "Files of metadata, logs included, about.",
              measured_bytes_ + written_bytes_);
  visit.Gauge("db_block_cache_bytes", "Memory of cached blocks of metadata.",
              rep_->cache->GetUsage());
}

}  // namespace quire::kvserver
