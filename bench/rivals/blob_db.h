// SPDX-License-Identifier: Apache-2.0
//
// BlobDb: units as values of RocksDB in blob files, the baseline of the SSD tier. It gets
// favourable settings: no log, direct I/O, several reading threads, a cache for its index.
// Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_BLOB_DB_H_
#define QUIRE_BENCH_RIVALS_BLOB_DB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

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
  /// Returns once all units are on the device.
  Status Flush();
  /// Reads `units`, checked, with `threads` threads. NOT_FOUND if one is missing.
  Status Read(std::span<const uint64_t> units, uint32_t threads);

 private:
  explicit BlobDb(std::unique_ptr<rocksdb::DB> db);
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_BLOB_DB_H_
