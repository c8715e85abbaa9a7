// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digests/layer_digests.h"

#include <algorithm>
#include <utility>

#include "kernels/api/page_digest.h"

namespace quire::worker {

size_t LayerDigests::PageBytes() const { return kernels::PageDigestBytes(spec_, kind_); }

std::array<LayerDigests::Part, 2> LayerDigests::parts() const {
  const uint32_t stored = StoredPages();
  return {{{.first = 0, .end = stored, .data = stored == 0 ? nullptr : stored_->data()},
           {.first = stored, .end = stored + own_pages_, .data = own_.data()}}};
}

Status LayerDigests::Reserve(uint32_t pages) {
  if (pages * PageBytes() <= own_.size_bytes()) return OkStatus();
  const size_t bytes = std::max(pages * PageBytes(), 2 * own_.size_bytes());
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer grown, device_->Allocate(bytes));
  if (own_pages_ > 0) {
    QUIRE_RETURN_IF_ERROR(
        device_->CopyOnDevice(grown.data(), own_.data(), own_pages_ * PageBytes()));
  }
  own_ = std::move(grown);  // The old memory goes away behind the copy.
  return OkStatus();
}

Status LayerDigests::Start(std::shared_ptr<const StoredDigests> stored) {
  if (num_pages() > 0) {
    return FailedPrecondition("stored digests come first: there are those of ", num_pages(),
                              " pages already");
  }
  stored_ = std::move(stored);
  return OkStatus();
}

kernels::DigestArgs LayerDigests::PageSettings() const {
  kernels::DigestArgs args = kernels::PageDigestArgs(spec_, kind_);
  args.n_units = spec_.num_kv_heads;
  return args;
}

Status LayerDigests::AddPage(const void* units, JointWork* work) {
  QUIRE_RETURN_IF_ERROR(Reserve(own_pages_ + 1));
  work->Digest(PageSettings(), {units, own_.as<std::byte>() + own_pages_ * PageBytes()});
  ++own_pages_;
  return OkStatus();
}

Status LayerDigests::AppendPage(const void* units) {
  QUIRE_RETURN_IF_ERROR(Reserve(own_pages_ + 1));
  kernels::DigestArgs args = PageSettings();
  args.units = units;
  args.digests = own_.as<std::byte>() + own_pages_ * PageBytes();
  args.stream = device_->stream();
  QUIRE_RETURN_IF_ERROR(ToStatus(device_->kernels().digest(args), "digest"));
  ++own_pages_;
  return OkStatus();
}

}  // namespace quire::worker
