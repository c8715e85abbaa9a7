// SPDX-License-Identifier: Apache-2.0
//
// SsdTier: units one by one in the database's payload table, each with its checksum, so that a
// sparse read pulls no neighbours. Key: segment key, layer and unit number, both big endian.
//
// Stage* add to a batch instead of writing, so that PageStore commits payload and record together.
// Thread-safety: all methods may be called concurrently.
// Errors: as Tier and Database.
#ifndef QUIRE_KVSERVER_STORE_SSD_TIER_H_
#define QUIRE_KVSERVER_STORE_SSD_TIER_H_

#include <string>

#include "kvserver/store/database.h"
#include "kvserver/store/tier.h"

namespace quire::kvserver {

class SsdTier final : public Tier {
 public:
  /// `database` outlives the tier.
  explicit SsdTier(Database* database) : database_(database) {}

  Status Put(std::span<const ExtentView> extents) override;
  StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) override;
  StatusOr<bool> Has(const ExtentId& id) override;
  Status Erase(const SegmentKey& segment) override;
  /// ssd_unit_reads, ssd_read_bytes, ssd_write_bytes (payload), ssd_checksum_failures.
  void VisitCounters(const CounterVisitor& visit) const override;

  void StagePut(std::span<const ExtentView> extents, Database::Batch& batch);
  void StageErase(const SegmentKey& segment, Database::Batch& batch);

  /// Database key of one unit.
  static std::string UnitKey(const ExtentId& id, uint32_t unit);

 private:
  Database* const database_;
  Counter unit_reads_, read_bytes_, write_bytes_, checksum_failures_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_TIER_H_
