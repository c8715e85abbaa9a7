// SPDX-License-Identifier: Apache-2.0
//
// LayerDigests: digests of one kind for one layer's complete pages. First come the digests that the
// store had when the sequence opened; other sequences may share them. The sequence's own follow as
// `[pages][n_kv][DigestElements]` in the KV dtype, in device memory that grows by doubling.
// Ownership: owns its own memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_LAYER_DIGESTS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_LAYER_DIGESTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpuworker/device/device.h"
#include "gpuworker/device/joint_work.h"
#include "gpuworker/retrieval/digests/stored_digests.h"
#include "kernels/api/digest.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class LayerDigests {
 public:
  LayerDigests(const KvSpec& spec, kernels::DigestKind kind, Device* device)
      : spec_(spec), kind_(kind), device_(device) {}

  uint32_t num_pages() const { return StoredPages() + own_pages_; }

  /// Digests of pages [first, end), one after the other.
  struct Part {
    uint32_t first = 0;
    uint32_t end = 0;
    const void* data = nullptr;
  };
  /// All of them, ascending; a part may be empty.
  std::array<Part, 2> parts() const;

  /// Starts with what is stored. FAILED_PRECONDITION when there are digests already.
  [[nodiscard]] Status Start(std::shared_ptr<const StoredDigests> stored);
  /// Computes and appends the digest of one page from its [n_kv] units on the device.
  [[nodiscard]] Status AppendPage(const void* units);
  /// AppendPage at the next Launch of `work`.
  [[nodiscard]] Status AddPage(const void* units, JointWork* work);

 private:
  /// Settings of the digest of a page, without arrays.
  kernels::DigestArgs PageSettings() const;
  uint32_t StoredPages() const { return stored_ == nullptr ? 0 : stored_->num_pages(); }
  size_t PageBytes() const;
  /// Room for `pages` pages of its own.
  Status Reserve(uint32_t pages);

  const KvSpec spec_;
  const kernels::DigestKind kind_;
  Device* const device_;
  std::shared_ptr<const StoredDigests> stored_;  ///< Null for none.
  DeviceBuffer own_;
  uint32_t own_pages_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_LAYER_DIGESTS_H_
