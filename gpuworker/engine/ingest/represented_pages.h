// SPDX-License-Identifier: Apache-2.0
//
// RepresentedPages: attention that finds, on its way, which tokens represent the pages of a
// document (retrieval/keys/representatives.h), while another backend computes it. The document's
// own queries decide, each over a window of kWindowTokens behind it, as published (InfLLM).
// Thread-safety: none. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_INGEST_REPRESENTED_PAGES_H_
#define QUIRE_GPUWORKER_ENGINE_INGEST_REPRESENTED_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/device/device.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/retrieval/keys/representatives.h"

namespace quire::worker {

class RepresentedPages final : public AttentionBackend {
 public:
  static constexpr uint32_t kWindowTokens = 4096;

  /// `next` computes the attention of steps from page `first_page` on.
  RepresentedPages(AttentionBackend* next, const KvSpec& spec, Device* device, uint32_t first_page);

  Status Attend(const LayerStep& step) override;

  /// After the last step: takes in the short last page, and what has been paid so far counts.
  void Finish();
  /// Means of what represents `pages`, all from `first_page` on, as the store keeps them:
  /// [num_layers][pages][n_kv][d] in the KV dtype. REQUIRES: Finish.
  std::vector<std::byte> Digests(const PageRange& pages) const;

 private:
  struct Layer {
    Representatives pages;
    std::vector<float> open;  ///< [rows][n_kv][d] keys of the page that is being filled
  };
  /// Hands the open page on, as Representatives has it.
  void Complete(Layer* layer) const;

  AttentionBackend* const next_;
  const KvSpec spec_;
  Device* const device_;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_INGEST_REPRESENTED_PAGES_H_
