// SPDX-License-Identifier: Apache-2.0
//
// DigestStore: the digests of one layer's complete pages, `[pages][n_kv][E]` in the KV dtype on the
// device, where E is kernels::DigestElements of their kind: for min/max, the page digests of Quest
// and FreeKV (spec A.1.1), `[2][d]`. Grows by doubling.
// Ownership: owns its memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "gpuworker/device/device.h"

namespace quire::worker {

class DigestStore {
 public:
  DigestStore(const KvSpec& spec, Device* device,
              kernels::DigestKind kind = kernels::DigestKind::kMinMax)
      : spec_(spec), device_(device), kind_(kind) {}

  uint32_t num_pages() const { return num_pages_; }
  const void* data() const { return digests_.data(); }

  /// Appends digests that were computed elsewhere. DATA_LOSS unless `digests` is `pages`
  /// pages of this kind.
  [[nodiscard]] Status Append(uint32_t pages, std::span<const std::byte> digests);
  /// Computes and appends the digest of one page from its [n_kv] units on the device.
  [[nodiscard]] Status AppendPage(const void* units);

 private:
  size_t PageBytes() const;
  Status Reserve(uint32_t pages);

  const KvSpec spec_;
  Device* const device_;
  const kernels::DigestKind kind_;
  DeviceBuffer digests_;
  uint32_t num_pages_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGEST_STORE_H_
