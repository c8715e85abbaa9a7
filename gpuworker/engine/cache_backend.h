// SPDX-License-Identifier: Apache-2.0
//
// CacheBackend: attention over a budget cache. Layers that hold everything attend densely to all
// tokens of a step at once; the others go token by token: append, recall, attend. Pages that fill
// up go to the sink, before the attention of the layer where it is dense. Thread-safety: none.
// Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_
#define QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/page_sink.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/recall/recall_pipeline.h"

namespace quire::worker {

class CacheBackend final : public AttentionBackend {
 public:
  /// `pipeline` may be null when every layer holds everything.
  CacheBackend(BudgetCache* cache, RecallPipeline* pipeline, PageSink* sink)
      : cache_(cache), pipeline_(pipeline), sink_(sink) {}

  /// FAILED_PRECONDITION when the step does not continue the cache. After an error the cache is
  /// good for nothing: some layers have the step's tokens and others do not.
  Status Attend(const LayerStep& step) override;

  /// Tokens that one forward pass may have, so that it is one step a layer, and a page that fills
  /// up in it is still in the window at its end.
  static uint32_t MaxStepTokens(const BudgetCache& cache);

 private:
  Status AttendTokenByToken(const LayerStep& step);

  BudgetCache* const cache_;
  RecallPipeline* const pipeline_;
  PageSink* const sink_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_
