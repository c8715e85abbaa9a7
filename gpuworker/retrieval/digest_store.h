// SPDX-License-Identifier: Apache-2.0
//
// DigestStore: the digests of one kind of one layer's complete pages,
// `[pages][n_kv][DigestElements]` in the KV dtype on the device (spec A.1.1). Grows by doubling.
// Ownership: owns its memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "gpuworker/device/device.h"
#include "kernels/api/digest.h"

namespace quire::worker {

class DigestStore {
 public:
  DigestStore(const KvSpec& spec, kernels::DigestKind kind, Device* device)
      : spec_(spec), kind_(kind), device_(device) {}

  uint32_t num_pages() const { return num_pages_; }
  const void* data() const { return digests_.data(); }

  /// Appends digests that were computed elsewhere. DATA_LOSS unless `digests` is `pages` pages.
  [[nodiscard]] Status Append(uint32_t pages, std::span<const std::byte> digests);
  /// Computes and appends the digest of one page from its [n_kv] units on the device.
  [[nodiscard]] Status AppendPage(const void* units);

 private:
  size_t PageBytes() const;
  Status Reserve(uint32_t pages);

  const KvSpec spec_;
  const kernels::DigestKind kind_;
  Device* const device_;
  DeviceBuffer digests_;
  uint32_t num_pages_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_
