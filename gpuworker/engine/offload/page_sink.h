// SPDX-License-Identifier: Apache-2.0
//
// PageSink: where pages go that fill up while the model runs. Implementations: Offloader, which
// keeps them until all layers have them, and LayerSender, which sends each layer's at once.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SINK_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SINK_H_

#include <cstdint>

#include "gpuworker/cache/budget_cache.h"
#include "quire/status.h"

namespace quire::worker {

class PageSink {
 public:
  virtual ~PageSink() = default;
  /// Pages `pages` of `layer` are complete in `cache`: each once, in order.
  [[nodiscard]] virtual Status Export(const BudgetCache& cache, uint32_t layer,
                                      PageRange pages) = 0;
  /// Export of a page, at the next Launch of `work`; call OnLaunched after it.
  [[nodiscard]] virtual Status ExportBy(JointWork* /*work*/, const BudgetCache& cache,
                                        uint32_t layer, PageRange pages) {
    return Export(cache, layer, pages);
  }
  [[nodiscard]] virtual Status OnLaunched() { return OkStatus(); }
  /// Waits until the server has all pages before `end_page`, which were exported in earlier steps.
  /// The error when a page, whichever it is, could not be sent.
  [[nodiscard]] virtual Status Await(uint32_t end_page) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SINK_H_
