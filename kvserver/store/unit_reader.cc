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
  LatencyTimer timer(parts_.latencies->dram_read, parts_.latencies->clock);
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
  if (!misses.empty()) {
    timer.CountAs(parts_.latencies->ssd_read);
    QUIRE_RETURN_IF_ERROR(ReadMisses(tenant, std::move(misses)));
  }
  *out = std::move(result);
  return OkStatus();
}

Status UnitReader::ReadMisses(std::string_view tenant, std::vector<Miss> misses) {
  QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, parts_.gate->Enter(tenant));
  std::ranges::stable_sort(misses, {}, &Miss::extent);
  PromoteWorthy(tenant, misses);
  std::erase_if(misses, [&](const Miss& miss) {
    // Somebody may have evicted a promoted extent already; then the unit is read around DRAM.
    auto unit = miss.promoted ? parts_.dram->ReadUnit(miss.extent(), miss.address.unit)
                              : StatusOr<UnitBytes>(NotFound(""));
    if (unit.ok()) *miss.out = *std::move(unit);
    return unit.ok();
  });
  return ReadFromSsd(misses);
}

void UnitReader::PromoteWorthy(std::string_view tenant, std::span<Miss> misses) {
  for (auto first = misses.begin(); first != misses.end();) {
    const ExtentId id = first->extent();
    const bool promoted = WorthPromoting(id) && Promote(tenant, *first->record, id);
    for (; first != misses.end() && first->extent() == id; ++first) first->promoted = promoted;
  }
}

Status UnitReader::ReadFromSsd(std::span<const Miss> misses) {
  std::vector<SsdTier::UnitRead> reads;
  reads.reserve(misses.size());
  for (const Miss& miss : misses) {
    reads.push_back({.id = miss.extent(), .unit = miss.address.unit});
  }
  parts_.ssd->ReadUnits(reads);
  for (size_t i = 0; i < misses.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(*misses[i].out, Checked(*misses[i].record, reads[i]));
  }
  return OkStatus();
}

StatusOr<UnitBytes> UnitReader::Checked(const SegmentRecord& record, SsdTier::UnitRead& read) {
  StatusOr<UnitBytes> result = std::move(read.result);
  if (result.ok() && result->crc32c == ExpectedCrc(record, read.id.layer, read.unit)) return result;
  if (result.ok()) {
    result =
        DataLoss("segment ", read.id.segment.Hex(), " layer ", read.id.layer, " unit ", read.unit,
                 ": the bytes on SSD are not the ones that were put; put the segment again");
  }
  // Not found: lost, or deleted since its record was looked up; a put mends both.
  const StatusCode code = result.status().code();
  if (code == StatusCode::kDataLoss || code == StatusCode::kNotFound) {
    parts_.catalog->MarkDamaged(read.id.segment);
  }
  return result;
}

bool UnitReader::WorthPromoting(const ExtentId& id) {
  MutexLock lock(promotion_mutex_);
  return promotion_->Touch(id);
}

// The writers' lock keeps a delete from finishing between the read and the put, which would leave
// bytes in DRAM that no record stands for.
bool UnitReader::Promote(std::string_view tenant, const SegmentRecord& known, const ExtentId& id) {
  const auto guard = parts_.writers->TryAcquire(id.segment);
  if (!guard || !parts_.catalog->Find(tenant, id.segment).ok()) return false;
  const LatencyTimer timer(parts_.latencies->promotion, parts_.latencies->clock);
  std::vector<SsdTier::UnitRead> reads;
  for (uint32_t unit = 0; unit < known.units_per_layer(); ++unit) {
    reads.push_back({.id = id, .unit = unit});
  }
  parts_.ssd->ReadUnits(reads);
  std::vector<std::byte> bytes;
  bytes.reserve(ExtentBytes(known.spec, known.num_pages()));
  for (SsdTier::UnitRead& read : reads) {
    const StatusOr<UnitBytes> unit = Checked(known, read);
    if (!unit.ok()) return false;
    bytes.insert(bytes.end(), unit->slice.bytes.begin(), unit->slice.bytes.end());
  }
  const auto crcs = std::span(known.unit_crc32c)
                        .subspan(size_t{id.layer} * known.units_per_layer(), reads.size());
  const ExtentView view{.id = id,
                        .bytes = bytes,
                        .unit_crc32c = crcs,
                        .full_bytes = ExtentBytes(known.spec, known.spec.segment_pages)};
  const bool kept = parts_.dram->Put({&view, 1}).ok();
  (kept ? promotions_ : refused_).Add();
  return kept;
}

void UnitReader::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("promotions", "Extents brought back from SSD to DRAM.", promotions_.Get());
  visit.Counter("promotions_refused", "Promotions that found no room in DRAM.", refused_.Get());
}

}  // namespace quire::kvserver
