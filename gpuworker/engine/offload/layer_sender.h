// SPDX-License-Identifier: Apache-2.0
//
// LayerSender: sends the pages of a document to its open context while the model reads it
// (page_sender.h). The units of a layer leave as soon as they exist. They are in flight while the
// model computes the layer's attention and later layers.
//
// Thread-safety: one thread calls; sending happens on the executor. Ownership: what it is given
// outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_LAYER_SENDER_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_LAYER_SENDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/engine/offload/page_exporter.h"
#include "gpuworker/engine/offload/page_sender.h"
#include "gpuworker/engine/offload/page_sink.h"
#include "gpuworker/engine/parts.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class LayerSender final : public PageSink {
 public:
  /// `tokens` are those of the whole document, from page 0 on.
  LayerSender(const EngineParts& parts, uint64_t context_id, std::span<const TokenId> tokens,
              Executor* executor);

  Status Export(const BudgetCache& cache, uint32_t layer, PageRange pages) override;
  Status Await(uint32_t end_page) override { return sender_.Await(end_page); }
  /// Waits until everything is sent; returns its payload bytes.
  StatusOr<uint64_t> Finish();

 private:
  /// Puts a page behind those of `units`.
  [[nodiscard]] Status ExportPage(const BudgetCache& cache, uint32_t layer, uint32_t page,
                                  std::vector<PageSender::Units>* units);

  const EngineParts parts_;
  const std::span<const TokenId> tokens_;
  PageExporter exporter_;
  PageSender sender_;
  uint64_t bytes_added_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_LAYER_SENDER_H_
