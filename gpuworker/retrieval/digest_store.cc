// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digest_store.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

size_t DigestStore::PageBytes() const {
  const auto elements = static_cast<size_t>(kernels::DigestElements(kind_, spec_.head_dim));
  return spec_.num_kv_heads * elements * ElementBytes(spec_.dtype);
}

Status DigestStore::Reserve(uint32_t pages) {
  if (pages * PageBytes() <= digests_.size_bytes()) return OkStatus();
  const size_t bytes = std::max(pages * PageBytes(), 2 * digests_.size_bytes());
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer grown, device_->Allocate(bytes));
  if (num_pages_ > 0) {
    QUIRE_RETURN_IF_ERROR(
        device_->CopyOnDevice(grown.data(), digests_.data(), num_pages_ * PageBytes()));
  }
  QUIRE_RETURN_IF_ERROR(device_->Synchronize());  // The old memory goes away.
  digests_ = std::move(grown);
  return OkStatus();
}

Status DigestStore::Append(uint32_t pages, std::span<const std::byte> digests) {
  if (digests.size() != pages * PageBytes()) {
    return DataLoss("digests of ", pages, " pages take ", pages * PageBytes(), " bytes, not ",
                    digests.size());
  }
  if (pages == 0) return OkStatus();
  QUIRE_RETURN_IF_ERROR(Reserve(num_pages_ + pages));
  QUIRE_RETURN_IF_ERROR(device_->CopyToDevice(digests_.as<std::byte>() + num_pages_ * PageBytes(),
                                              digests.data(), digests.size()));
  num_pages_ += pages;
  return OkStatus();
}

Status DigestStore::AppendPage(const void* units) {
  QUIRE_RETURN_IF_ERROR(Reserve(num_pages_ + 1));
  QUIRE_RETURN_IF_ERROR(ToStatus(
      device_->kernels().digest({.units = units,
                                 .unit_stride = int64_t{2} * spec_.page_tokens * spec_.head_dim,
                                 .digests = digests_.as<std::byte>() + num_pages_ * PageBytes(),
                                 .n_units = spec_.num_kv_heads,
                                 .page_tokens = spec_.page_tokens,
                                 .head_dim = spec_.head_dim,
                                 .dtype = spec_.dtype,
                                 .out_dtype = spec_.dtype,
                                 .kind = kind_,
                                 .stream = device_->stream()}),
      "digest"));
  ++num_pages_;
  return OkStatus();
}

}  // namespace quire::worker
