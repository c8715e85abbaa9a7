// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/page_assembly.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/memory/checksum.h"
#include "quire/layout.h"

namespace quire::kvserver {

namespace {

/// Adds the units [first, first + count) of `page` to `check`.
void AddUnits(const TailPage& page, size_t first, size_t count, PageCheck* check) {
  const uint64_t unit_bytes = page.units.size() / page.crc32c.size();
  for (size_t i = first; i < first + count; ++i) {
    const auto unit = std::span(page.units).subspan(i * unit_bytes, unit_bytes);
    if (Crc32c(unit) != page.crc32c[i]) ++check->damaged;
  }
  check->bytes += count * unit_bytes;
  check->units += count;
}

}  // namespace

PageCheck CheckUnits(const TailPage& page) {
  PageCheck check;
  AddUnits(page, 0, page.crc32c.size(), &check);
  return check;
}

PageCheck PageAssembly::CheckArrived() const {
  PageCheck check;
  const size_t heads = spec_->num_kv_heads;
  for (size_t layer = 0; layer < arrived_.size(); ++layer) {
    if (arrived_[layer]) AddUnits(*page_, layer * heads, heads, &check);
  }
  return check;
}

uint32_t RowChecksum(std::span<const uint32_t> unit_crc32c) {
  return Crc32c(std::as_bytes(unit_crc32c));
}

uint32_t RowChecksum(std::span<const std::byte> row, uint64_t unit_bytes) {
  uint32_t sum = 0;
  for (uint64_t at = 0; at < row.size(); at += unit_bytes) {
    const uint32_t unit = Crc32c(row.subspan(at, unit_bytes));
    sum = Crc32c(std::as_bytes(std::span(&unit, 1)), sum);
  }
  return sum;
}

Status OtherThanKnown(uint32_t page, std::string_view what) {
  return AlreadyExists("page ", page, " of the open context has other ", what,
                       ": a page never changes; open another context");
}

StatusOr<PageAssembly> PageAssembly::Create(std::shared_ptr<const KvSpec> spec,
                                            std::span<const TokenId> tokens, MemoryBudget& budget) {
  const uint64_t bytes = SegmentBytes(*spec, 1) + PageDigestBytes(*spec) * spec->num_layers +
                         DerivedPageDigests::MaxBytes(*spec);
  QUIRE_ASSIGN_OR_RETURN(MemoryBudget::Lease lease, budget.Take(bytes));
  return PageAssembly(std::move(spec), tokens, std::move(lease));
}

PageAssembly::PageAssembly(std::shared_ptr<const KvSpec> spec, std::span<const TokenId> tokens,
                           MemoryBudget::Lease lease)
    : spec_(std::move(spec)), arrived_(spec_->num_layers), page_(std::make_shared<TailPage>()) {
  page_->tokens.assign(tokens.begin(), tokens.end());
  page_->units.resize(SegmentBytes(*spec_, 1));
  page_->crc32c.resize(size_t{spec_->num_layers} * spec_->num_kv_heads);
  page_->digests.resize(PageDigestBytes(*spec_) * spec_->num_layers);
  page_->digest_crc32c.resize(spec_->num_layers);
  page_->lease = std::move(lease);
}

Status PageAssembly::Check(uint32_t page, std::span<const TokenId> tokens,
                           const LayerRows& rows) const {
  if (!std::ranges::equal(tokens, page_->tokens)) return OtherThanKnown(page, "tokens");
  for (size_t i = 0; i < rows.layers.size(); ++i) {
    const uint32_t layer = rows.layers[i];
    if (!arrived_[layer]) continue;
    const std::byte* const known = page_->units.data() + layer * rows.row_bytes;
    if (std::memcmp(known, rows.row(i).data(), rows.row_bytes) != 0) {
      return OtherThanKnown(page, "bytes");
    }
  }
  return OkStatus();
}

Status PageAssembly::Put(const LayerRows& rows, const kernels::KernelTable& ops) {
  for (size_t i = 0; i < rows.layers.size(); ++i) {
    const uint32_t layer = rows.layers[i];
    if (arrived_[layer]) continue;
    QUIRE_RETURN_IF_ERROR(PutRow(rows, i, ops));
    arrived_[layer] = true;
  }
  return OkStatus();
}

Status PageAssembly::PutRow(const LayerRows& rows, size_t index, const kernels::KernelTable& ops) {
  const KvSpec& spec = *spec_;
  const uint32_t layer = rows.layers[index];
  const std::span<const std::byte> row = rows.row(index);
  const uint64_t unit_bytes = quire::UnitBytes(spec);
  const size_t first = size_t{layer} * spec.num_kv_heads;
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    const uint32_t crc32c = Crc32c(row.subspan(head * unit_bytes, unit_bytes));
    if (!rows.unit_crc32c.empty() && rows.unit_crc32c[index * spec.num_kv_heads + head] != crc32c) {
      return DataLoss("layer ", layer, " KV head ", head,
                      " of a page does not match the checksum that it came with");
    }
    page_->crc32c[first + head] = crc32c;
  }
  std::memcpy(page_->units.data() + layer * row.size(), row.data(), row.size());
  const std::vector<int32_t> valid(spec.num_kv_heads, static_cast<int32_t>(page_->tokens.size()));
  kernels::DigestArgs args = kernels::PageDigestArgs(spec, DigestKind::kMinMax);
  args.units = row.data();
  args.valid_rows = valid.data();
  const uint64_t digest_bytes = PageDigestBytes(spec);
  args.digests = page_->digests.data() + layer * digest_bytes;
  args.n_units = spec.num_kv_heads;
  const kernels::OpStatus status = ops.digest(args);
  if (status != kernels::OpStatus::kOk) {
    return Internal("kernel digest: ", kernels::Describe(status));
  }
  page_->digest_crc32c[layer] =
      Crc32c(std::span(page_->digests).subspan(layer * digest_bytes, digest_bytes));
  return OkStatus();
}

std::optional<uint32_t> PageAssembly::missing_layer() const {
  const auto missing = std::ranges::find(arrived_, false);
  if (missing == arrived_.end()) return std::nullopt;
  return static_cast<uint32_t>(missing - arrived_.begin());
}

}  // namespace quire::kvserver
