// SPDX-License-Identifier: Apache-2.0
//
// Database: the RocksDB instance of a data directory. Only this class uses RocksDB's types and
// converts its errors. Tables are column families. Payload tables keep their values in blob files,
// so compaction does not rewrite them.
//
// A Batch is the unit of atomicity: all of it survives a crash or none. Its commit through the
// write-ahead log is the commit point of the store.
//
// Ownership: values are copied out. Thread-safety: all methods may be called concurrently; a Batch
// belongs to one thread. Errors: NOT_FOUND (no such key), DATA_LOSS (RocksDB found corruption),
// RESOURCE_EXHAUSTED (no space), UNAVAILABLE (the device failed), INTERNAL.
//
// After a failed write the database answers reads and refuses writes until the cause is gone. The
// next write then recovers it. When a new log broke at its first write, or could not be made, only
// a reopen recovers it. Writes are UNAVAILABLE until then. A failed write stays in doubt until
// recovery: reads do not find it, but the log may hold it and a reopen may restore it.
#ifndef QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_
#define QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/shared_mutex.h"
#include "kvserver/store/stall_watch.h"
#include "quire/status.h"

namespace rocksdb {
class Env;
class Status;
}  // namespace rocksdb

namespace quire::kvserver {

/// Column families. Their names are persistent.
enum class Table : uint8_t { kSegments, kExtents, kDigests, kMetadata, kTenants };

class Database {
 public:
  struct Options {
    std::string path;             ///< Created when missing. Its parent must exist.
    rocksdb::Env* env = nullptr;  ///< The machine's when null. Tests inject faults through it.
    bool read_only = false;       ///< Requires an existing database; changes no file.
    /// Watches I/O of the database; may be null, outlives the database.
    StallWatch* watch = nullptr;
    /// Receives failed writes and damage found by reads; may be null, outlives the database.
    Health* health = nullptr;
    /// Receives results of file reads; may be null, outlives the database.
    RecurringTrouble* reads = nullptr;
    uint64_t limit_bytes = 0;  ///< Limit of all files; 0: none. Enforced by CheckRoom and MakeRoom.
    /// Upper bound of the memtable bytes of all tables. The log has at most twice as many.
    uint64_t buffer_bytes = uint64_t{64} << 20;
  };

  class Batch {
   public:
    Batch();
    ~Batch();
    Batch(Batch&&) noexcept;
    /// The value is the concatenation of `parts`; everything is copied.
    void Put(Table table, std::string_view key, std::initializer_list<std::string_view> parts);
    void Delete(Table table, std::string_view key);
    /// Deletes every key that starts with `prefix`, which is neither empty nor all 0xff. Every read
    /// checks all recently deleted prefixes: do not delete thousands this way.
    void DeletePrefix(Table table, std::string_view prefix);

   private:
    friend class Database;
    struct Rep;
    std::unique_ptr<Rep> rep_;
  };

  static StatusOr<std::unique_ptr<Database>> Open(const Options& options);
  /// Disk space at a path, before a database is opened there.
  struct Space {
    uint64_t free_bytes = 0;  ///< Free on the file system.
    uint64_t used_bytes = 0;  ///< Bytes of the database's files; 0 when there is none.
  };
  /// Measures the space at `path`.
  static StatusOr<Space> Measure(const std::string& path, rocksdb::Env* env);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// A batch for this database.
  Batch NewBatch();
  [[nodiscard]] StatusOr<std::string> Get(Table table, std::string_view key);
  /// False when there is no such key. True may be wrong: the device is not read.
  bool MayHave(Table table, std::string_view key);
  /// Calls visit(key, value) in key order, from `start` on, until it returns false.
  [[nodiscard]] Status Scan(Table table, std::string_view start,
                            const std::function<bool(std::string_view, std::string_view)>& visit);
  /// Applies all of `batch` or nothing. With `sync` it is durable when this returns.
  [[nodiscard]] Status Commit(Batch& batch, bool sync);
  /// Makes everything committed so far durable.
  [[nodiscard]] Status Sync();
  /// Resolves all failed writes: none is in doubt when this returns OK. Callers that acknowledge
  /// data they found, without a write, need it. Free unless a write failed.
  [[nodiscard]] Status Settle();
  /// Free bytes of the file system.
  [[nodiscard]] StatusOr<uint64_t> FreeBytes();

  /// OK when the files stay within the limit with `bytes` more, otherwise RESOURCE_EXHAUSTED.
  [[nodiscard]] Status CheckRoom(uint64_t bytes);
  /// As CheckRoom. If it does not fit and there were deletes, compacts first, which takes a while.
  [[nodiscard]] Status MakeRoom(uint64_t bytes);
  /// Upper bound of the bytes that Compact can free after everything was deleted. 0 when the file
  /// system has no room for the compaction itself.
  [[nodiscard]] StatusOr<uint64_t> ReclaimableBytes();
  /// Returns the space of deleted entries to the file system, which takes a while. Does nothing
  /// without deletes since the last time.
  [[nodiscard]] Status Compact();

  /// db_commits, db_commit_failures, db_recoveries (writes resumed after a failure),
  /// db_memtable_bytes (written, not yet in a table), db_block_cache_bytes, db_table_bytes (readers
  /// of open tables), db_file_bytes (all files).
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct Rep;
  explicit Database(std::unique_ptr<Rep> rep);
  rocksdb::Status Write(Batch& batch, bool sync);
  /// Reports the result of a commit.
  void Tell(const Status& written);
  /// Reports damage that a read of `table` found. Returns `read` as Get and Scan return it.
  Status ToldOfRead(Table table, const rocksdb::Status& read);
  Status Resume();
  /// Measures the size of the files.
  Status MeasureFiles();
  bool Fits(uint64_t bytes) const;

  const std::unique_ptr<Rep> rep_;
  SharedMutex resume_mutex_;  ///< Shared by writes. Recovery and compaction hold it exclusively.
  /// A write failed since the last recovery. Set with `resume_mutex_` shared, cleared with it
  /// exclusive.
  std::atomic<bool> in_doubt_{false};
  std::atomic<bool> failed_{false};   ///< The last commit failed.
  std::atomic<bool> gave_up_{false};  ///< Writes are refused until the database is reopened.
  /// Size of the files at the last measurement, and bytes logged since.
  std::atomic<uint64_t> measured_bytes_{0}, written_bytes_{0};
  Mutex room_mutex_;  ///< Held while files are measured or compacted to make room.
  std::atomic<bool> has_deleted_{
      false};  ///< There were deletes since the last compaction to make room.
  Counter commits_, failures_, recoveries_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_
