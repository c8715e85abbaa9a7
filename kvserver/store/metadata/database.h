// SPDX-License-Identifier: Apache-2.0
//
// Database: the RocksDB instance of a data directory, the only place that knows RocksDB's types and
// the one function that converts its errors. Tables are column families; payload tables keep their
// values in blob files, so that compaction does not rewrite them.
//
// A Batch is the unit of atomicity: all of it survives a crash or none. Its commit through the
// write-ahead log is the commit point of the store.
//
// Ownership: values are copied out, so nothing handed out refers to the database.
// Thread-safety: all methods may be called concurrently; a Batch belongs to one thread.
// Errors: NOT_FOUND (no such key), DATA_LOSS (RocksDB found corruption), RESOURCE_EXHAUSTED (no
// space), UNAVAILABLE (the device failed), INTERNAL. After a failed write the database answers
// reads and refuses writes until the cause is gone; it then recovers by itself at the next write,
// except from a failure of the first write to a new log: then it has to be opened again, as
// UNAVAILABLE says from there on. What failed is in doubt until then: reads do not find it, and the
// log may hold it, so that it is there when the database is opened again.
#ifndef QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_
#define QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/shared_mutex.h"
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
    std::string path;             ///< Created when missing; its parent exists.
    rocksdb::Env* env = nullptr;  ///< The machine's when null; tests inject faults through it.
    bool read_only = false;       ///< The database exists and no file of it is changed.
    StallWatch* watch = nullptr;  ///< Watches its I/O; may be null, outlives the database.
    /// Told of writes that fail and of damage that reads find; may be null, outlives the database.
    Health* health = nullptr;
    RecurringTrouble* reads = nullptr;  ///< Told how reads of files end; the same.
    uint64_t limit_bytes = 0;  ///< Limit of its files; 0: none. Kept by CheckRoom, MakeRoom.
    /// Upper bound of the bytes of all tables in memory, not yet in a file. The log has at most
    /// twice as many.
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
    /// Deletes every key that starts with `prefix`, which is not empty nor all 0xff. Every read
    /// looks through all prefixes that were deleted lately: not for what is deleted by the
    /// thousand.
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
    uint64_t used_bytes = 0;  ///< Size of the database's files; 0 when there is none.
  };
  /// Measures the space at `path`.
  static StatusOr<Space> Measure(const std::string& path, rocksdb::Env* env);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// A batch for this database.
  Batch NewBatch();
  [[nodiscard]] StatusOr<std::string> Get(Table table, std::string_view key);
  /// False when there is no such key; told without reading from the device, so that true may be
  /// wrong.
  bool MayHave(Table table, std::string_view key);
  /// Calls visit(key, value) in order of keys from `start` on until it returns false.
  [[nodiscard]] Status Scan(Table table, std::string_view start,
                            const std::function<bool(std::string_view, std::string_view)>& visit);
  /// Applies all of `batch` or nothing. With `sync` it has reached the device when this returns.
  [[nodiscard]] Status Commit(Batch& batch, bool sync);
  /// Everything committed so far has reached the device when this returns OK.
  [[nodiscard]] Status Sync();
  /// Nothing that failed so far is in doubt when this returns OK. For who acknowledges what it
  /// found and writes nothing; it costs nothing unless a write failed.
  [[nodiscard]] Status Settle();
  /// Bytes that the file system has left.
  [[nodiscard]] StatusOr<uint64_t> FreeBytes();

  /// OK when the files stay within the limit with `bytes` more, whatever the database does;
  /// otherwise RESOURCE_EXHAUSTED.
  [[nodiscard]] Status CheckRoom(uint64_t bytes);
  /// The same; where it does not fit and something was deleted, compacts first, which takes a
  /// while.
  [[nodiscard]] Status MakeRoom(uint64_t bytes);
  /// Upper bound of what Compact can give back to the file system after everything was deleted; 0
  /// where the file system has no room for what a compaction writes before it gives back.
  [[nodiscard]] StatusOr<uint64_t> ReclaimableBytes();
  /// Gives the space of what was deleted back to the file system, which takes a while. Does nothing
  /// when nothing was deleted since the last time.
  [[nodiscard]] Status Compact();

  /// db_commits, db_commit_failures, db_recoveries (writes resumed after a failure); memory:
  /// db_memtable_bytes (written and not yet in a table), db_block_cache_bytes, db_table_bytes (of
  /// readers of open tables). db_file_bytes: of all its files.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct Rep;
  explicit Database(std::unique_ptr<Rep> rep);
  rocksdb::Status Write(Batch& batch, bool sync);
  /// Posts how a commit ended.
  void Tell(const Status& written);
  /// Posts damage that a read of `table` found; `read` as Get and Scan return it.
  Status ToldOfRead(Table table, const rocksdb::Status& read);
  Status Resume();
  /// Measures the size of the files.
  Status MeasureFiles();
  bool Fits(uint64_t bytes) const;

  const std::unique_ptr<Rep> rep_;
  SharedMutex resume_mutex_;  ///< Shared by writes; a recovery and a compaction run alone.
  /// A write failed since the last recovery. Set with `resume_mutex_` shared, cleared under it.
  std::atomic<bool> in_doubt_{false};
  std::atomic<bool> failed_{false};   ///< The last commit did.
  std::atomic<bool> gave_up_{false};  ///< Writes are refused until the database is opened again.
  /// Size of the files when they were last measured, and bytes written to the log since.
  std::atomic<uint64_t> measured_bytes_{0}, written_bytes_{0};
  Mutex room_mutex_;  ///< Held while files are looked at or compacted to make room.
  std::atomic<bool> has_deleted_{false};  ///< Since the last compaction to make room.
  Counter commits_, failures_, recoveries_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_DATABASE_H_
