// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/blob_db.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <thread>
#include <utility>
#include <vector>

namespace quire::bench {
namespace {

Status ToStatus(const rocksdb::Status& status) {
  return status.ok() ? OkStatus() : Unavailable("BlobDB: ", status.ToString());
}

/// Keys order like their numbers.
std::string Key(uint64_t unit) {
  std::string key(sizeof unit, '\0');
  for (size_t i = sizeof unit; i > 0; --i, unit >>= 8) key[i - 1] = static_cast<char>(unit);
  return key;
}

rocksdb::Options DbOptions() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(64 << 20);
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 64 << 20;
  options.max_background_jobs = 2;
  options.enable_blob_files = true;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  return options;
}

}  // namespace

StatusOr<std::unique_ptr<BlobDb>> BlobDb::Open(const std::string& path) {
  rocksdb::DB* db = nullptr;
  QUIRE_RETURN_IF_ERROR(ToStatus(rocksdb::DB::Open(DbOptions(), path, &db)));
  return std::unique_ptr<BlobDb>(new BlobDb(std::unique_ptr<rocksdb::DB>(db)));
}

BlobDb::BlobDb(std::unique_ptr<rocksdb::DB> db) : db_(std::move(db)) {}
BlobDb::~BlobDb() = default;

Status BlobDb::Put(uint64_t first, std::span<const std::byte> bytes, uint64_t unit_bytes) {
  rocksdb::WriteBatch batch;
  for (uint64_t at = 0; at < bytes.size(); at += unit_bytes) {
    const rocksdb::Slice value(reinterpret_cast<const char*>(bytes.data() + at), unit_bytes);
    QUIRE_RETURN_IF_ERROR(ToStatus(batch.Put(Key(first + at / unit_bytes), value)));
  }
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return ToStatus(db_->Write(options, &batch));
}

Status BlobDb::Flush() { return ToStatus(db_->Flush({})); }

Status BlobDb::Read(std::span<const uint64_t> units, uint32_t threads) {
  std::vector<Status> results(threads);
  const auto read_share = [&](uint32_t share) {
    rocksdb::PinnableSlice value;
    for (size_t i = share; i < units.size() && results[share].ok(); i += threads) {
      value.Reset();
      results[share] = ToStatus(db_->Get({}, db_->DefaultColumnFamily(), Key(units[i]), &value));
    }
  };
  std::vector<std::thread> readers;
  for (uint32_t share = 1; share < threads; ++share) readers.emplace_back(read_share, share);
  read_share(0);
  for (std::thread& reader : readers) reader.join();
  for (const Status& result : results) QUIRE_RETURN_IF_ERROR(result);
  return OkStatus();
}

}  // namespace quire::bench
