// SPDX-License-Identifier: Apache-2.0
//
// Offloader: takes pages out of a budget cache as they become complete, layer by layer while the
// model runs (NHD to HND), and appends them to an open context when all layers have them. A page is
// exported exactly once; the open page never.
//
// Thread-safety: none. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOADER_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/page/key.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/page_exporter.h"
#include "gpuworker/engine/page_sink.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

class Offloader final : public PageSink {
 public:
  /// `policy` hears of each completed page; may be null.
  Offloader(const EngineParts& parts, RetrievalPolicy* policy)
      : parts_(parts), policy_(policy), exporter_(parts) {}

  /// Every layer exports the same pages before Flush.
  Status Export(const BudgetCache& cache, uint32_t layer, PageRange pages) override;
  /// Pages exported and not flushed.
  PageRange pending() const { return pending_; }
  /// Appends the pending pages, whose token ids are `tokens`, to context `context_id`. Returns the
  /// payload bytes sent. Does nothing when there are none.
  StatusOr<uint64_t> Flush(uint64_t context_id, std::span<const TokenId> tokens);

 private:
  const EngineParts parts_;
  RetrievalPolicy* const policy_;
  PageExporter exporter_;
  PageRange pending_;
  std::vector<std::byte> staging_;  ///< [pending pages][num_layers][n_kv] units
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOADER_H_
