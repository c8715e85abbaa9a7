// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/read/digest_deriver.h"

#include <cstring>
#include <memory>
#include <vector>

#include "kvserver/store/unit_digests.h"

namespace quire::kvserver {
namespace {

using kernels::DigestKind;

/// Joins all units in one array, aligned for their dtype.
std::vector<std::byte> Join(std::span<const VerifiedBytes> units, uint64_t unit_bytes) {
  std::vector<std::byte> joined(units.size() * unit_bytes);
  for (size_t i = 0; i < units.size(); ++i) {
    std::memcpy(joined.data() + i * unit_bytes, units[i].bytes().data(), unit_bytes);
  }
  return joined;
}

}  // namespace

StatusOr<DigestBytes> DigestDeriver::Read(const DigestId& id, const SegmentRecord& record,
                                          Priority priority) {
  QUIRE_ASSIGN_OR_RETURN(DigestBytes digests, parts_.digests->Find(id, record, priority));
  if (digests != nullptr) return digests;
  if (id.kind == DigestKind::kRepresentatives) {
    return Read({id.extent, DigestKind::kMean}, record, priority);
  }
  QUIRE_ASSIGN_OR_RETURN(digests, Derive(id, record, priority));
  (id.kind == DigestKind::kMinMax ? mended_ : derived_).Add();
  Keep(id, record, digests);
  return digests;
}

StatusOr<DigestBytes> DigestDeriver::Derive(const DigestId& id, const SegmentRecord& record,
                                            Priority priority) {
  std::vector<UnitAddress> addresses;
  for (uint32_t unit = 0; unit < record.units_per_layer(); ++unit) {
    addresses.push_back({id.extent.segment, id.extent.layer, unit});
  }
  std::vector<VerifiedBytes> units;
  QUIRE_RETURN_IF_ERROR(parts_.reader->ReadVerified({record.tenant, priority}, addresses, &units));
  const std::vector<std::byte> joined = Join(units, quire::UnitBytes(record.spec));
  const std::vector<int32_t> rows = ValidRows(record);
  std::vector<std::byte> digests(DigestBytesPerLayer(record, id.kind));
  QUIRE_RETURN_IF_ERROR(ComputeDigests(
      record.spec, id.kind,
      {.units = joined.data(), .valid_rows = rows, .first_token = record.first_token},
      digests.data()));
  return std::make_shared<const KeptDigests>(std::move(digests));
}

Status DigestDeriver::Mend(const DigestId& id, const SegmentRecord& record) {
  if (id.kind == DigestKind::kRepresentatives) {
    const KeyedLock::Guard guard = parts_.writers->Acquire(id.extent.segment);
    QUIRE_RETURN_IF_ERROR(parts_.digests->Drop(id));
  } else {
    QUIRE_ASSIGN_OR_RETURN(const DigestBytes digests, Derive(id, record, Priority::kPrefetch));
    if (!Keep(id, record, digests)) {
      return Unavailable("there is no room for them, or somebody writes the segment");
    }
  }
  mended_.Add();
  return OkStatus();
}

// The writers' lock keeps a delete from finishing between the check and the put. Digests without a
// segment would be left otherwise.
bool DigestDeriver::Keep(const DigestId& id, const SegmentRecord& record,
                         const DigestBytes& digests) {
  const auto guard = parts_.writers->TryAcquire(id.extent.segment);
  if (!guard) return false;
  const StatusOr<SegmentRecordPtr> now = parts_.catalog->Find(record.tenant, id.extent.segment);
  if (!now.ok() || (*now)->unit_crc32c != record.unit_crc32c) return false;
  return parts_.digests->KeepDerived(id, record, digests);
}

void DigestDeriver::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("digests_derived",
                "Digests of one segment and layer computed from its stored units, for a kind that "
                "was not there.",
                derived_.Get());
  visit.Counter("digests_mended",
                "Digests of one segment and layer computed anew from its stored units, because "
                "what was stored of them was damaged or gone.",
                mended_.Get());
}

}  // namespace quire::kvserver
