// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/unit_reader.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {
namespace {

Status CheckAddress(const UnitAddress& address, const SegmentRecord& record) {
  if (address.layer < record.spec.num_layers && address.unit < record.units_per_layer()) {
    return OkStatus();
  }
  return InvalidArgument("segment ", address.segment.Hex(), " has no unit ", address.unit,
                         " at layer ", address.layer, ": it has ", record.spec.num_layers,
                         " layers of ", record.units_per_layer(), " units");
}

uint32_t ExpectedCrc(const SegmentRecord& record, uint32_t layer, uint32_t unit) {
  return record.unit_crc32c[size_t{layer} * record.units_per_layer() + unit];
}

}  // namespace

Status UnitReader::Read(std::string_view tenant, std::span<const UnitAddress> units,
                        std::vector<UnitBytes>* out) {
  std::vector<UnitBytes> result(units.size());
  std::vector<Miss> misses;
  SegmentRecordPtr record;
  for (size_t i = 0; i < units.size(); ++i) {
    const UnitAddress& address = units[i];
    if (!record || units[i - 1].segment != address.segment) {
      QUIRE_ASSIGN_OR_RETURN(record, parts_.catalog->Find(tenant, address.segment));
    }
    QUIRE_RETURN_IF_ERROR(CheckAddress(address, *record));
    auto unit = parts_.dram->ReadUnit({address.segment, address.layer}, address.unit);
    if (unit.ok()) {
      result[i] = *std::move(unit);
    } else {
      misses.push_back({address, record, &result[i]});
    }
  }
  std::ranges::stable_sort(misses, {}, &Miss::extent);
  for (auto first = misses.begin(); first != misses.end();) {
    const auto last = std::find_if(
        first, misses.end(), [&](const Miss& miss) { return miss.extent() != first->extent(); });
    QUIRE_RETURN_IF_ERROR(ReadExtent(tenant, std::span(first, last)));
    first = last;
  }
  *out = std::move(result);
  return OkStatus();
}

Status UnitReader::ReadExtent(std::string_view tenant, std::span<const Miss> misses) {
  const ExtentId id = misses.front().extent();
  const bool promoted = WorthPromoting(id) && Promote(tenant, id);
  for (const Miss& miss : misses) {
    if (promoted) {
      // Somebody may have evicted the extent already; then the unit is read around DRAM after all.
      auto unit = parts_.dram->ReadUnit(id, miss.address.unit);
      if (unit.ok()) {
        *miss.out = *std::move(unit);
        continue;
      }
    }
    QUIRE_ASSIGN_OR_RETURN(*miss.out, ReadFromSsd(*miss.record, id, miss.address.unit));
  }
  return OkStatus();
}

StatusOr<UnitBytes> UnitReader::ReadFromSsd(const SegmentRecord& record, const ExtentId& id,
                                            uint32_t unit) {
  StatusOr<UnitBytes> read = parts_.ssd->ReadUnit(id, unit);
  if (read.ok() && read->crc32c == ExpectedCrc(record, id.layer, unit)) return read;
  if (read.ok()) {
    read = DataLoss("segment ", id.segment.Hex(), " layer ", id.layer, " unit ", unit,
                    ": the bytes on SSD are not the ones that were put; put the segment again");
  }
  const StatusCode code = read.status().code();
  if (code == StatusCode::kDataLoss || code == StatusCode::kNotFound) {
    parts_.catalog->MarkDamaged(id.segment);
  }
  return read;
}

bool UnitReader::WorthPromoting(const ExtentId& id) {
  MutexLock lock(promotion_mutex_);
  return promotion_->Touch(id);
}

// The writers' lock keeps a delete from finishing between the read and the put, which would leave
// bytes in DRAM that no record stands for.
bool UnitReader::Promote(std::string_view tenant, const ExtentId& id) {
  const auto guard = parts_.writers->TryAcquire(id.segment);
  if (!guard) return false;
  const auto record = parts_.catalog->Find(tenant, id.segment);
  if (!record.ok()) return false;
  const SegmentRecord& r = **record;
  const auto crcs =
      std::span(r.unit_crc32c).subspan(size_t{id.layer} * r.units_per_layer(), r.units_per_layer());
  std::vector<std::byte> bytes;
  bytes.reserve(ExtentBytes(r.spec, r.num_pages()));
  for (uint32_t unit = 0; unit < r.units_per_layer(); ++unit) {
    const StatusOr<UnitBytes> read = ReadFromSsd(r, id, unit);
    if (!read.ok()) return false;
    bytes.insert(bytes.end(), read->slice.bytes.begin(), read->slice.bytes.end());
  }
  const ExtentView view{.id = id,
                        .bytes = bytes,
                        .unit_crc32c = crcs,
                        .full_bytes = ExtentBytes(r.spec, r.spec.segment_pages)};
  const bool kept = parts_.dram->Put({&view, 1}).ok();
  (kept ? promotions_ : refused_).Add();
  return kept;
}

void UnitReader::VisitCounters(const CounterVisitor& visit) const {
  visit("promotions", promotions_.Get());
  visit("promotions_refused", refused_.Get());
}

}  // namespace quire::kvserver
