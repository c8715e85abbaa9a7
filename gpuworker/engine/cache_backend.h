// SPDX-License-Identifier: Apache-2.0
//
// CacheBackend: attention over a budget cache. Layers that hold everything attend densely to all
// tokens of a step at once. Other layers go token by token: append, recall, attend. Full pages go
// to the sink, in dense layers before the attention. Before a page leaves the window and becomes
// selectable, the backend waits until the server has it. One token over a cache without selectable
// pages is recordable. Its pages go to the sink after all layers. Thread-safety: none. Ownership:
// what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_
#define QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_

#include <span>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/offload/page_sink.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/recordable_attention.h"
#include "gpuworker/recall/recall_pipeline.h"

namespace quire::worker {

class CacheBackend final : public AttentionBackend, public RecordableAttention {
 public:
  /// `pipeline` may be null when every layer holds everything. `tap` sees the hidden states; null
  /// for nothing.
  CacheBackend(BudgetCache* cache, RecallPipeline* pipeline, PageSink* sink,
               HiddenTap* tap = nullptr)
      : cache_(cache), pipeline_(pipeline), sink_(sink), tap_(tap) {}

  /// FAILED_PRECONDITION when the step does not continue the cache. After an error the cache is
  /// good for nothing: some layers have the step's tokens and others do not.
  Status Attend(const LayerStep& step) override;

  HiddenTap* hidden_tap() override { return tap_; }
  RecordableAttention* AsRecordable() override { return cache_->recordable() ? this : nullptr; }
  // For steps of one sequence. Errors of Prepare as of Attend.
  StatusOr<StepKey> Prepare(std::span<const LayerStep> steps) override;
  Status Launch(std::span<const LayerStep> steps) override;
  Status Finish(std::span<const LayerStep> steps) override;

  // The parts of Attend, for a batch (batch_attention.h): Begin, then AttendDense for a layer that
  // IsDense, or for each token FlushDeferred, Append, Ask, AttendToken and Follow. On a device the
  // kernels of a token go together with those of other sequences. AppendTo, AttendBy and FollowBy
  // then take the places of Append, AttendToken and Follow, also in a layer that IsDense.

  /// FAILED_PRECONDITION when the step does not continue the cache.
  [[nodiscard]] Status Begin(const LayerStep& step) const;
  bool IsDense(uint32_t layer) const { return cache_->table(layer).layout().everything; }
  [[nodiscard]] Status AttendDense(const LayerStep& step);
  /// Asks for what a selection that Follow left to be made brings ahead. Ask does it otherwise.
  [[nodiscard]] Status FlushDeferred() { return pipeline_->FlushDeferred(); }
  /// True if Ask would not wait.
  bool IsReady(uint32_t layer) const { return pipeline_->IsReady(layer); }
  [[nodiscard]] Status Append(const LayerStep& step, uint32_t token);
  /// Append, and RecallPipeline::Prepare, at the next Launch of `work`.
  [[nodiscard]] Status AppendTo(JointWork* work, const LayerStep& step, uint32_t token);
  /// Asks for what attention of token `token` needs, once the server has all that may be asked for.
  /// `began` as RecallPipeline::Ask.
  [[nodiscard]] Status Ask(const LayerStep& step, uint32_t token,
                           std::optional<TimePoint> began = {});
  /// Waits for it and attends.
  [[nodiscard]] Status AttendToken(const LayerStep& step, uint32_t token);
  /// Waits for it, and attends at the next Launch of `attention`; call OnAttended after that.
  [[nodiscard]] Status AttendBy(JointAttention* attention, const LayerStep& step, uint32_t token);
  [[nodiscard]] Status OnAttended(const LayerStep& step) const {
    return cache_->OnAttended(step.layer);
  }
  /// Holds attention for the units that it waits for (BudgetCache::HoldForUnits).
  [[nodiscard]] Status HoldForUnits() { return cache_->HoldForUnits(); }
  /// Follow, with a completed page at the next Launch of `work`; call OnLaunched after that.
  [[nodiscard]] Status FollowBy(JointWork* work, const LayerStep& step, uint32_t token);
  [[nodiscard]] Status OnLaunched() { return sink_->OnLaunched(); }
  /// Prefetches for the token after `token`, and gives a completed page to the sink. Policies learn
  /// of pages between the same tokens, whatever the size of a step.
  [[nodiscard]] Status Follow(const LayerStep& step, uint32_t token);

  /// Most tokens of one forward pass. A pass is one step per layer, and pages that fill up in it
  /// are still in the window at its end.
  static uint32_t MaxStepTokens(const BudgetCache& cache);

 private:
  /// The pages that the step's tokens [first, end) complete.
  PageRange Completed(const LayerStep& step, uint32_t first, uint32_t end) const;
  /// Hands the pages that the step's tokens [first, end) completed to the sink.
  Status Export(const LayerStep& step, uint32_t first, uint32_t end);
  /// Numbers of a token's keys, [n_kv][d].
  size_t KvRow() const { return size_t{cache_->spec().num_kv_heads} * cache_->spec().key_dim(); }
  /// A token's row of queries, [n_q][d].
  const float* Query(const LayerStep& step, uint32_t token) const {
    const KvSpec& spec = cache_->spec();
    return step.q + token * (size_t{spec.num_query_heads} * spec.key_dim());
  }
  /// Its row of results.
  float* Out(const LayerStep& step, uint32_t token) const {
    const KvSpec& spec = cache_->spec();
    return step.out + token * (size_t{spec.num_query_heads} * spec.value_dim());
  }

  BudgetCache* const cache_;
  RecallPipeline* const pipeline_;
  PageSink* const sink_;
  HiddenTap* const tap_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_CACHE_BACKEND_H_
