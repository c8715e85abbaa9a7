// SPDX-License-Identifier: Apache-2.0
//
// StreamContext: a synthetic context, TopicPages for every layer and KV head. StreamSelections: the
// selections of a decoder with such queries, step by step.
// Thread-safety: a StreamContext is immutable; StreamSelections has none.
// Ownership: the context outlives its selections.
#ifndef QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_
#define QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "bench/stream/paged_context.h"
#include "bench/stream/query_stream.h"
#include "bench/stream/topic_pages.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

class StreamContext : public PagedContext {
 public:
  /// `shape` gives the number of pages and topics; page size and head size come from `spec`. Every
  /// layer and head has a seed of its own. Units are keys, then random values. REQUIRES: as
  /// PagedContext.
  static StatusOr<StreamContext> Make(const KvSpec& spec, TopicShape shape);

  const TopicPages& pages(uint32_t layer, uint32_t head) const {
    return heads_[size_t{layer} * spec().num_kv_heads + head];
  }

 private:
  StreamContext(PagedContext context, std::vector<TopicPages> heads)
      : PagedContext(std::move(context)), heads_(std::move(heads)) {}

  std::vector<TopicPages> heads_;  ///< [layers][n_kv]
};

class StreamSelections {
 public:
  /// `queries.group_size` is the spec's; every layer and head has a seed of its own.
  static StatusOr<StreamSelections> Make(const StreamContext& context, QueryOptions queries,
                                         const PageBudget& budget);

  /// The selection of the present step.
  const StepSelection& selection() const { return selection_; }
  Status Step();

 private:
  StreamSelections(const StreamContext& context, const PageBudget& budget)
      : context_(&context), budget_(budget) {}
  [[nodiscard]] Status Select();

  const StreamContext* context_;
  PageBudget budget_;
  std::vector<QueryStream> streams_;  ///< [layers][n_kv]
  StepSelection selection_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_
