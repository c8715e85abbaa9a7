// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/read/unit_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/memory/checksum.h"
#include "common/base/retry_hint.h"
#include "kvserver/store/codec/codec.h"

namespace quire::kvserver {
namespace {

constexpr Duration kRetryBringing = std::chrono::milliseconds(100);

Status CheckAddress(const UnitAddress& address, const SegmentRecord& record) {
  if (address.layer < record.num_layers() && address.unit < record.units_per_layer()) {
    return OkStatus();
  }
  return InvalidArgument("segment ", address.segment.Hex(), " has no unit ", address.unit,
                         " at layer ", address.layer, ": it has ", record.num_layers(),
                         " layers of ", record.units_per_layer(), " units");
}

Status Unmendable(const UnitAddress& address) {
  return DataLoss("segment ", address.segment.Hex(), " layer ", address.layer, " unit ",
                  address.unit,
                  " does not match its checksum, though it was just read from SSD: this machine's "
                  "memory changes what is written to it");
}

std::string Hex(uint32_t checksum) {
  std::ostringstream text;
  text << "0x" << std::hex << checksum;
  return text.str();
}

uint32_t ExpectedCrc(const SegmentRecord& record, uint32_t layer, uint32_t unit) {
  return record.unit_crc32c[size_t{layer} * record.units_per_layer() + unit];
}

/// True when stored bytes are gone or damaged.
bool IsLoss(const Status& status) { return IsNotFound(status) || IsDataLoss(status); }

}  // namespace

Status UnitReader::Read(const Caller& caller, std::span<const UnitAddress> units,
                        const CodecSet& codecs, std::vector<UnitBytes>* out) {
  LatencyTimer timer(parts_.latencies->dram_read, parts_.latencies->clock);
  const WaitTimer waiting(caller.waits, WaitedFor::kDram);
  out->resize(units.size());
  Status status = OkStatus();
  if (parts_.dram->ReadUnits(caller.tenant, units, *out) != units.size()) {
    timer.CountAs(parts_.latencies->ssd_read);
    status = ReadMisses(caller, units, *out);
  }
  if (status.ok()) status = Decode(caller, units, codecs, *out);
  if (!status.ok()) out->clear();
  return status;
}

Status UnitReader::ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                                std::vector<VerifiedBytes>* out) {
  out->clear();
  std::vector<UnitBytes> read;
  QUIRE_RETURN_IF_ERROR(Read(caller, units, {}, &read));
  std::vector<VerifiedBytes> verified;
  verified.reserve(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    std::optional<VerifiedBytes> bytes = read[i].Verify();
    if (!bytes) {
      QUIRE_ASSIGN_OR_RETURN(read[i], Mend(caller, units[i]));
      QUIRE_RETURN_IF_ERROR(Decode(caller, units.subspan(i, 1), {}, {&read[i], 1}));
      bytes = read[i].Verify();
    }
    if (!bytes) return Unmendable(units[i]);
    verified.push_back(*std::move(bytes));
  }
  *out = std::move(verified);
  return OkStatus();
}

Status UnitReader::Recheck(const Caller& caller, std::span<const ReportedUnit> units) {
  reported_.Add(units.size());
  // Each extent is verified once, however many units are named.
  std::map<ExtentId, std::vector<const ReportedUnit*>> extents;
  for (const ReportedUnit& unit : units) {
    extents[{unit.address.segment, unit.address.layer}].push_back(&unit);
  }
  Status first_error = OkStatus();
  for (const auto& [id, reported] : extents) {
    const StatusOr<bool> damaged = MendExtent(caller, id);
    if (damaged.ok() && !*damaged) {
      reported_intact_.Add(reported.size());
      ReportDamageInTransit(caller, *reported.front());
    }
    if (first_error.ok()) first_error = damaged.status();
  }
  return first_error;
}

void UnitReader::ReportDamageInTransit(const Caller& caller, const ReportedUnit& unit) {
  const UnitAddress& address = unit.address;
  const StatusOr<SegmentRecordPtr> record = parts_.catalog->Find(caller.tenant, address.segment);
  // The record of encoded units has other checksums than a client sees.
  const bool has_checksum =
      record.ok() && CheckAddress(address, **record).ok() && (*record)->codec.id == CodecId::kRaw;
  std::string detail = "segment " + address.segment.Hex() + " layer " +
                       std::to_string(address.layer) + " unit " + std::to_string(address.unit) +
                       " came to a client with the checksum " + Hex(unit.crc32c) +
                       " and is intact here";
  if (has_checksum) detail += " with " + Hex(ExpectedCrc(**record, address.layer, address.unit));
  parts_.health->Note(Trouble::kDamagedOnTheWay,
                      detail +
                          "; check the network, and the memory of the client's machine, when "
                          "it happens again");
}

Status UnitReader::ReadMisses(const Caller& caller, std::span<const UnitAddress> units,
                              std::span<UnitBytes> out) {
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const bool replaced, TryMisses(caller, units, out));
    if (!replaced) return OkStatus();
    // The other units may have the bytes of before.
    for (UnitBytes& unit : out) unit = UnitBytes();
    if (parts_.dram->ReadUnits(caller.tenant, units, out) == units.size()) return OkStatus();
  }
}

StatusOr<bool> UnitReader::TryMisses(const Caller& caller, std::span<const UnitAddress> units,
                                     std::span<UnitBytes> out) {
  const WaitTimer waiting(caller.waits, WaitedFor::kSsd);
  QUIRE_ASSIGN_OR_RETURN(std::vector<Miss> misses, FindMisses(caller.tenant, units, out));
  {
    QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, EnterGate(caller));
    PromoteDue(caller.tenant, misses);
    std::erase_if(misses, [&](const Miss& miss) {
      if (!miss.promoted) return false;
      // The extent may have been evicted already; then the unit is read around DRAM.
      StatusOr<UnitBytes> unit = parts_.dram->ReadUnit(miss.extent(), miss.address.unit);
      if (!unit.ok()) return false;
      *miss.out = *std::move(unit);
      return true;
    });
    QUIRE_RETURN_IF_ERROR(ReadFromSsd(misses));
  }
  bool replaced = false;
  for (const Miss& miss : misses) {
    if (miss.failure.ok()) continue;
    QUIRE_RETURN_IF_ERROR(ExplainFailure(caller.tenant, miss));
    replaced = true;
  }
  return replaced;
}

StatusOr<IoGate::Pass> UnitReader::EnterGate(const Caller& caller) const {
  const WaitTimer waiting(caller.waits, WaitedFor::kGate);
  return parts_.gate->Enter(caller.tenant, caller.priority);
}

// Under the lock no put and no removal of the segment is half done.
Status UnitReader::ExplainFailure(std::string_view tenant, const Miss& miss) {
  const SegmentKey& key = miss.address.segment;
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr now, parts_.catalog->Find(tenant, key));
  const bool same =
      now->incarnation == miss.record->incarnation && now->dram_only == miss.record->dram_only;
  return same ? MarkLost(key, *now, miss.failure) : OkStatus();
}

Status UnitReader::MarkLost(const SegmentKey& key, const SegmentRecord& record,
                            const Status& failure) {
  if (record.dram_only && IsNotFound(failure)) {
    return NotFound("segment ", key.Hex(), " was kept in DRAM only and has left it; put it again");
  }
  parts_.catalog->MarkDamaged(key);
  return failure;
}

StatusOr<std::vector<UnitReader::Miss>> UnitReader::FindMisses(std::string_view tenant,
                                                               std::span<const UnitAddress> units,
                                                               std::span<UnitBytes> out) {
  std::vector<Miss> misses;
  for (size_t i = 0; i < units.size(); ++i) {
    if (!out[i].empty()) continue;
    const UnitAddress& address = units[i];
    SegmentRecordPtr record;
    if (!misses.empty() && misses.back().address.segment == address.segment) {
      record = misses.back().record;
    } else {
      QUIRE_ASSIGN_OR_RETURN(record, parts_.catalog->Find(tenant, address.segment));
    }
    QUIRE_RETURN_IF_ERROR(CheckAddress(address, *record));
    misses.push_back({.address = address, .record = std::move(record), .out = &out[i]});
  }
  std::ranges::stable_sort(misses, {}, &Miss::extent);
  return misses;
}

void UnitReader::PromoteDue(std::string_view tenant, std::span<Miss> misses) {
  for (auto first = misses.begin(); first != misses.end();) {
    const ExtentId id = first->extent();
    const bool promoted = IsPromotionDue(id) && Promote(tenant, id);
    for (; first != misses.end() && first->extent() == id; ++first) first->promoted = promoted;
  }
}

Status UnitReader::ReadFromSsd(std::span<Miss> misses) {
  std::vector<SsdTier::UnitRead> reads;
  reads.reserve(misses.size());
  for (const Miss& miss : misses) {
    reads.push_back({.id = miss.extent(), .unit = miss.address.unit});
  }
  parts_.ssd->ReadUnits(reads);
  for (size_t i = 0; i < misses.size(); ++i) {
    StatusOr<UnitBytes> unit = Checked(*misses[i].record, reads[i]);
    if (unit.ok()) {
      *misses[i].out = *std::move(unit);
    } else if (IsLoss(unit.status())) {
      misses[i].failure = unit.status();
    } else {
      return unit.status();
    }
  }
  return OkStatus();
}

StatusOr<UnitBytes> UnitReader::Checked(const SegmentRecord& record, SsdTier::UnitRead& read) {
  QUIRE_ASSIGN_OR_RETURN(UnitBytes unit, std::move(read.result));
  if (unit.crc32c() != ExpectedCrc(record, read.id.layer, read.unit)) {
    return DataLoss("segment ", read.id.segment.Hex(), " layer ", read.id.layer, " unit ",
                    read.unit,
                    ": the bytes on SSD are not the ones that were put; put the segment again");
  }
  OutboundBytes stored = std::move(unit).ToSend();
  return UnitBytes(std::move(stored.slice), stored.crc32c, record.codec.id);
}

Status UnitReader::Decode(const Caller& caller, std::span<const UnitAddress> addresses,
                          const CodecSet& codecs, std::span<UnitBytes> units) {
  SegmentKey of;
  SegmentRecordPtr record;
  std::optional<ExtentCodec> codec;
  for (size_t i = 0; i < units.size(); ++i) {
    if (codecs.Has(units[i].codec())) continue;
    const UnitAddress& address = addresses[i];
    if (!record || of != address.segment) {
      of = address.segment;
      QUIRE_ASSIGN_OR_RETURN(record, parts_.catalog->Find(caller.tenant, of));
      QUIRE_ASSIGN_OR_RETURN(codec, ExtentCodec::Make(record->spec, record->codec.id));
    }
    QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, parts_.buffers->Take(codec->unit_bytes()));
    const uint32_t page = address.unit / record->spec.num_kv_heads;
    const uint32_t rows = TokensInPage(record->spec, record->tokens.size(), page);
    Status decoded = codec->DecodeUnit(units[i], rows, buffer.bytes());
    if (decoded.code() == StatusCode::kDataLoss) {
      QUIRE_ASSIGN_OR_RETURN(units[i], Mend(caller, address));
      decoded = codec->DecodeUnit(units[i], rows, buffer.bytes());
    }
    QUIRE_RETURN_IF_ERROR(Annotate(decoded, "segment ", address.segment.Hex(), " layer ",
                                   address.layer, " unit ", address.unit));
    const uint32_t crc32c = Crc32c(buffer.bytes());
    units[i] = UnitBytes(std::move(buffer).ToSlice(), crc32c);
  }
  return OkStatus();
}

// --- Damage in DRAM.

// Under the writers' lock: one of many readers of the same damage repairs it, and the others find
// it repaired. A put that replaces the segment meanwhile is not mistaken for damage.
StatusOr<bool> UnitReader::MendExtent(const Caller& caller, const ExtentId& id) {
  const KeyedLock::Guard guard = parts_.writers->Acquire(id.segment);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record,
                         parts_.catalog->Find(caller.tenant, id.segment));
  const ResidentPtr resident = parts_.dram->Get(id);
  if (resident == nullptr || resident->Verify()) return false;
  parts_.damage->Drop(id, resident);
  if (record->dram_only) return parts_.damage->Lose(id);
  QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, EnterGate(caller));
  if (PromoteLocked(caller.tenant, *record, id)) parts_.damage->Mended();
  return true;
}

StatusOr<UnitBytes> UnitReader::Mend(const Caller& caller, const UnitAddress& address) {
  QUIRE_RETURN_IF_ERROR(MendExtent(caller, {address.segment, address.layer}).status());
  std::vector<UnitBytes> unit(1);
  if (parts_.dram->ReadUnits(caller.tenant, {&address, 1}, unit) == 0) {
    QUIRE_RETURN_IF_ERROR(ReadMisses(caller, {&address, 1}, unit));
  }
  if (!unit.front().Matches()) return Unmendable(address);
  return std::move(unit.front());
}

bool UnitReader::IsPromotionDue(const ExtentId& id) {
  MutexLock lock(promotion_mutex_);
  return promotion_->Touch(id);
}

// The writers' lock keeps a delete from finishing between the read and the put. DRAM would
// otherwise hold bytes without a record.
bool UnitReader::Promote(std::string_view tenant, const ExtentId& id) {
  const auto guard = parts_.writers->TryAcquire(id.segment);
  if (!guard) return false;
  const StatusOr<SegmentRecordPtr> record = parts_.catalog->Find(tenant, id.segment);
  return record.ok() && id.layer < (*record)->num_layers() && PromoteLocked(tenant, **record, id);
}

bool UnitReader::PromoteLocked(std::string_view tenant, const SegmentRecord& known,
                               const ExtentId& id) {
  const LatencyTimer timer(parts_.latencies->promotion, parts_.latencies->clock);
  std::vector<SsdTier::UnitRead> reads;
  for (uint32_t unit = 0; unit < known.units_per_layer(); ++unit) {
    reads.push_back({.id = id, .unit = unit});
  }
  parts_.ssd->ReadUnits(reads);
  std::vector<std::byte> bytes;
  bytes.reserve(known.stored_extent_bytes());
  for (SsdTier::UnitRead& read : reads) {
    StatusOr<UnitBytes> unit = Checked(known, read);
    if (IsLoss(unit.status())) (void)MarkLost(id.segment, known, unit.status());
    if (!unit.ok()) return false;
    const std::span<const std::byte> stored = unit->ToSend().slice.bytes;
    bytes.insert(bytes.end(), stored.begin(), stored.end());
  }
  const auto crcs = std::span(known.unit_crc32c)
                        .subspan(size_t{id.layer} * known.units_per_layer(), reads.size());
  const ExtentView view{.id = id,
                        .bytes = bytes,
                        .unit_crc32c = crcs,
                        .full_bytes = known.slot_bytes(),
                        .tenant = tenant,
                        .parent = known.parent,
                        .seconds_per_token = parts_.prefill_cost.SecondsPerToken(
                            known.first_token, known.cost_tokens()),
                        .codec = known.codec.id,
                        .listed = known.listed()};
  const bool kept = parts_.dram->Put({&view, 1}).ok();
  (kept ? promotions_ : refused_).Add();
  return kept;
}

Status UnitReader::BringToDram(std::string_view tenant, const SegmentKey& key) {
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
  for (uint32_t layer = 0; layer < record->num_layers(); ++layer) {
    const ExtentId id{key, layer};
    const bool held = parts_.dram->Has(id);
    if (held) continue;
    QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, parts_.gate->Enter(tenant));
    if (Promote(tenant, id)) continue;
    return WithRetryAfter(
        ResourceExhausted("segment ", key.Hex(), " layer ", layer,
                          " cannot come to DRAM now: there is no room, or the segment is being "
                          "written or damaged; retry later"),
        kRetryBringing);
  }
  return OkStatus();
}

void UnitReader::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("promotions", "Extents brought back from SSD to DRAM.", promotions_.Get());
  visit.Counter("promotions_refused", "Promotions that found no room in DRAM.", refused_.Get());
  visit.Counter("units_reported", "Units that a client found not to match their checksums.",
                reported_.Get());
  visit.Counter("units_reported_intact",
                "Units that a client found not to match, and that are intact here.",
                reported_intact_.Get());
}

}  // namespace quire::kvserver
