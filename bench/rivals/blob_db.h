// SPDX-License-Identifier: Apache-2.0
//
// BlobDb: units as values of RocksDB with values in blob files, the baseline that the SSD tier is
// measured against. It is given what serves it best: no log, direct I/O, several threads that read,
// a cache for its index. Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_BLOB_DB_H_
#define QUIRE_BENCH_RIVALS_BLOB_DB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "quire/status.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace quire::bench {

class BlobDb {
 public:
  static StatusOr<std::unique_ptr<BlobDb>> Open(const std::string& path);
  ~BlobDb();

  /// Stores each `unit_bytes` of `bytes` under the numbers from `first` on, in one batch.
  Status Put(uint64_t first, std::span<const std::byte> bytes, uint64_t unit_bytes);
  /// Everything that was put is on the device when this returns.
  Status Flush();
  /// Reads all of them, checked, with `threads` threads. NOT_FOUND when one is missing.
  Status Read(std::span<const uint64_t> units, uint32_t threads);

 private:
  explicit BlobDb(std::unique_ptr<rocksdb::DB> db);
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_BLOB_DB_H_
