// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/derived_page_digests.h"

#include <cstring>

#include "common/base/memory/checksum.h"
#include "kernels/api/page_digest.h"
#include "kvserver/store/unit_digests.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

using kernels::DigestKind;

StatusOr<std::vector<std::byte>> Make(const KvSpec& spec, DigestKind kind, const LayerUnits& from) {
  const uint64_t unit_bytes = quire::UnitBytes(spec);
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    if (Crc32c({from.units + head * unit_bytes, unit_bytes}) == from.crc32c[head]) continue;
    return DataLoss("layer ", from.layer, " KV head ", head,
                    " of a page in memory does not match the checksum that it came with");
  }
  std::vector<std::byte> digests(kernels::PageDigestBytes(spec, kind));
  const std::vector<int32_t> valid_rows(spec.num_kv_heads, static_cast<int32_t>(from.rows));
  QUIRE_RETURN_IF_ERROR(ComputeDigests(
      spec, kind, {.units = from.units, .valid_rows = valid_rows, .first_token = from.first_token},
      digests.data()));
  return digests;
}

}  // namespace

uint64_t DerivedPageDigests::MaxBytes(const KvSpec& spec) {
  uint64_t bytes = 0;
  for (const DigestKind kind : kernels::kDigestKinds) {
    if (kind != DigestKind::kMinMax && kind != DigestKind::kRepresentatives)
      bytes += kernels::PageDigestBytes(spec, kind);
  }
  return bytes * spec.num_layers;
}

Status DerivedPageDigests::CopyTo(const KvSpec& spec, DigestKind kind, const LayerUnits& from,
                                  std::byte* out) {
  // An open page has no representatives yet.
  if (kind == DigestKind::kRepresentatives) kind = DigestKind::kMean;
  MutexLock lock(mutex_);
  Made& made = made_[{kind, from.layer}];
  if (made.digests.empty() || Crc32c(made.digests) != made.crc32c) {
    QUIRE_ASSIGN_OR_RETURN(made.digests, Make(spec, kind, from));
    made.crc32c = Crc32c(made.digests);
  }
  std::memcpy(out, made.digests.data(), made.digests.size());
  return OkStatus();
}

}  // namespace quire::kvserver
