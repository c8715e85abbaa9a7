// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/digest_store.h"

#include <string>

#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/store/checked_value.h"

namespace quire::kvserver {
namespace {

std::string DigestKey(const ExtentId& id) {
  std::string key(id.segment.view());
  for (int shift = 24; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(id.layer >> shift));
  }
  return key;
}

uint64_t DigestBytesPerLayer(const SegmentRecord& record) {
  const KvSpec& spec = record.spec;
  return uint64_t{record.units_per_layer()} * 2 * spec.key_dim() * ElementBytes(spec.dtype);
}

/// Rows that hold tokens, for every unit of an extent.
std::vector<int32_t> ValidRows(const SegmentRecord& record) {
  std::vector<int32_t> rows;
  rows.reserve(record.units_per_layer());
  for (uint32_t page = 0; page < record.num_pages(); ++page) {
    const auto tokens = TokensInPage(record.spec, record.tokens.size(), page);
    rows.insert(rows.end(), record.spec.num_kv_heads, static_cast<int32_t>(tokens));
  }
  return rows;
}

}  // namespace

Status DigestStore::StagePut(const SegmentKey& key, const SegmentRecord& record,
                             std::span<const std::byte> payload, Database::Batch& batch) {
  const KvSpec& spec = record.spec;
  const std::vector<int32_t> valid_rows = ValidRows(record);
  const uint64_t extent_bytes = ExtentBytes(spec, record.num_pages());
  std::vector<std::byte> digests(DigestBytesPerLayer(record));
  std::vector<std::byte> aligned;
  if (reinterpret_cast<uintptr_t>(payload.data()) % ElementBytes(spec.dtype) != 0) {
    aligned.assign(payload.begin(), payload.end());  // a slice of a message may start anywhere
    payload = aligned;
  }
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    const kernels::OpStatus status = kernels::CpuKernels().digest({
        .units = payload.data() + layer * extent_bytes,
        .unit_stride = static_cast<int64_t>(quire::UnitBytes(spec) / ElementBytes(spec.dtype)),
        .valid_rows = valid_rows.data(),
        .digests = digests.data(),
        .n_units = record.units_per_layer(),
        .page_tokens = spec.page_tokens,
        .head_dim = spec.key_dim(),
        .dtype = spec.dtype,
        .out_dtype = spec.dtype,
    });
    if (status != kernels::OpStatus::kOk) {
      return Internal("cannot compute digests: ", kernels::Describe(status));
    }
    const auto trailer = EncodeTrailer(Crc32c(digests));
    batch.Put(Table::kDigests, DigestKey({key, layer}), {AsText(digests), AsText(trailer)});
  }
  return OkStatus();
}

void DigestStore::StageErase(const SegmentKey& key, Database::Batch& batch) {
  batch.DeletePrefix(Table::kDigests, key.view());
}

void DigestStore::Forget(const SegmentKey& key, const SegmentRecord& record) {
  for (uint32_t layer = 0; layer < record.spec.num_layers; ++layer) cache_.Invalidate({key, layer});
}

StatusOr<DigestBytes> DigestStore::Read(const ExtentId& id, const SegmentRecord& record,
                                        Priority priority) {
  if (auto cached = cache_.Find(id)) {
    hits_.Add();
    return *std::move(cached);
  }
  QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, gate_->Enter(record.tenant, priority));
  const uint64_t epoch = cache_.epoch();
  const StatusOr<std::string> value = database_->Get(Table::kDigests, DigestKey(id));
  QUIRE_RETURN_IF_ERROR(
      Annotate(value.status(), "digests of segment ", id.segment.Hex(), " layer ", id.layer));
  reads_.Add();
  const auto checked = VerifyTrailer(*value);
  if (!checked || checked->bytes.size() != DigestBytesPerLayer(record)) {
    return DataLoss("digests of segment ", id.segment.Hex(), " layer ", id.layer,
                    " fail their checksum; put the segment again");
  }
  const auto digests =
      std::make_shared<const std::vector<std::byte>>(checked->bytes.begin(), checked->bytes.end());
  cache_.Insert(id, digests, digests->size() + 256, epoch);
  return DigestBytes(digests);
}

void DigestStore::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("digest_reads", "Digests read from the database.", reads_.Get());
  visit.Counter("digest_cache_hits", "Digests found in memory.", hits_.Get());
  visit.Gauge("digest_bytes_cached", "Digests held in memory.", cache_.used_bytes());
}

}  // namespace quire::kvserver
