// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/use/statistics_table.h"

#include <vector>

#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kStatisticsFormat = 1;
constexpr Duration kFlushPeriod = std::chrono::minutes(1);
/// Rows of one batch.
constexpr size_t kFlushSlice = 1000;

}  // namespace

std::string EncodeStatistics(const DocumentStatistics& statistics) {
  ByteWriter out;
  out.Number(kStatisticsFormat);
  out.Number(statistics.questions);
  out.Number(statistics.hits);
  out.Number(statistics.tokens_saved);
  out.Number(statistics.bytes_served);
  out.Number(statistics.last_used_unix_micros);
  return CloseRecord(out);
}

DocumentStatistics DecodeStatistics(std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const bool known = in.Number<uint8_t>() == kStatisticsFormat;
  DocumentStatistics statistics;
  statistics.questions = in.Number<uint64_t>();
  statistics.hits = in.Number<uint64_t>();
  statistics.tokens_saved = in.Number<uint64_t>();
  statistics.bytes_served = in.Number<uint64_t>();
  statistics.last_used_unix_micros = in.Number<int64_t>();
  return known && in.ok() ? statistics : DocumentStatistics();
}

Status StatisticsTable::Load() {
  MutexLock lock(mutex_);
  flushed_ = clock_->Now();
  return ForEachEntry(*metadata_, AllStatisticsPrefix(),
                      [&](const MetadataEntry& entry) QUIRE_REQUIRES(mutex_) {
                        rows_[entry.key] = DecodeStatistics(entry.value);
                      });
}

void StatisticsTable::Add(std::string_view tenant, const DocumentName& name,
                          const DocumentStatistics& more) {
  const std::string key = StatisticsKey(tenant, name);
  MutexLock lock(mutex_);
  DocumentStatistics& row = rows_[key];
  row.questions += more.questions;
  row.hits += more.hits;
  row.tokens_saved += more.tokens_saved;
  row.bytes_served += more.bytes_served;
  row.last_used_unix_micros = clock_->UnixMicros();
  changed_.insert(key);
}

DocumentStatistics StatisticsTable::Get(std::string_view tenant, const DocumentName& name) const {
  const std::string key = StatisticsKey(tenant, name);
  MutexLock lock(mutex_);
  const auto row = rows_.find(key);
  return row == rows_.end() ? DocumentStatistics() : row->second;
}

void StatisticsTable::Forget(std::string_view tenant, const DocumentName& name) {
  const std::string key = StatisticsKey(tenant, name);
  MutexLock lock(mutex_);
  rows_.erase(key);
  changed_.erase(key);
}

MetadataBatch StatisticsTable::NextBatch() {
  MetadataBatch batch;
  MutexLock lock(mutex_);
  while (!changed_.empty() && batch.operations.size() < kFlushSlice) {
    const auto key = changed_.extract(changed_.begin());
    const auto named = ParseStatisticsKey(key.value());
    const bool exists = named && metadata_->Get(DocumentKey(named->tenant, named->name)).ok();
    if (exists) {
      batch.Put(key.value(), EncodeStatistics(rows_[key.value()]));
    } else {
      rows_.erase(key.value());  // It was used while it was deleted.
    }
  }
  return batch;
}

Status StatisticsTable::Flush(bool now) {
  {
    MutexLock lock(mutex_);
    if (!now && clock_->Now() < flushed_ + kFlushPeriod) return OkStatus();
    flushed_ = clock_->Now();
  }
  for (;;) {
    const MetadataBatch batch = NextBatch();
    if (batch.operations.empty()) return OkStatus();
    const Status applied = metadata_->Apply(batch);
    if (applied.ok()) continue;
    MutexLock lock(mutex_);
    for (const auto& operation : batch.operations) changed_.insert(operation.key);
    return applied;
  }
}

}  // namespace quire::kvserver
