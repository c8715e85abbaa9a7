// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digests/stored_digests.h"

#include "kernels/api/page_digest.h"

namespace quire::worker {

StatusOr<std::shared_ptr<const StoredDigests>> StoredDigests::Make(
    const KvSpec& spec, kernels::DigestKind kind, Device* device, uint32_t pages,
    std::span<const std::byte> digests) {
  const uint64_t expected = pages * kernels::PageDigestBytes(spec, kind);
  if (digests.size() != expected) {
    return DataLoss("digests of ", pages, " pages take ", expected, " bytes, not ", digests.size());
  }
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device->Allocate(digests.size()));
  if (!digests.empty()) {
    QUIRE_RETURN_IF_ERROR(device->CopyToDevice(buffer.data(), digests.data(), digests.size()));
  }
  return std::shared_ptr<const StoredDigests>(new StoredDigests(pages, std::move(buffer)));
}

}  // namespace quire::worker
