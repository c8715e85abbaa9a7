// SPDX-License-Identifier: Apache-2.0
//
// StoredDigests: the digests of one kind of a layer's first pages, as the store has them,
// `[pages][n_kv][DigestElements]` in the KV dtype on the device. Sequences over the
// same pages share them (gpuworker/engine/document_shares.h).
// Ownership: owns its memory; the device outlives it. Thread-safety: immutable.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_STORED_DIGESTS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_STORED_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "gpuworker/device/device.h"
#include "kernels/api/digest.h"

namespace quire::worker {

class StoredDigests {
 public:
  /// Copies `digests` from host memory. DATA_LOSS unless they are those of `pages` pages.
  static StatusOr<std::shared_ptr<const StoredDigests>> Make(const KvSpec& spec,
                                                             kernels::DigestKind kind,
                                                             Device* device, uint32_t pages,
                                                             std::span<const std::byte> digests);

  uint32_t num_pages() const { return num_pages_; }
  const void* data() const { return digests_.data(); }
  size_t size_bytes() const { return digests_.size_bytes(); }

 private:
  StoredDigests(uint32_t pages, DeviceBuffer digests)
      : num_pages_(pages), digests_(std::move(digests)) {}

  const uint32_t num_pages_;
  const DeviceBuffer digests_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_STORED_DIGESTS_H_
