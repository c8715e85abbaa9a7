// SPDX-License-Identifier: Apache-2.0
//
// StreamContext: a whole synthetic context, TopicPages for every layer and KV head: its units as a
// store keeps them, the digests of their keys, and what digests select. StreamSelections: what a
// decoder with such queries selects, step by step.
//
// Selection is that of spec A.1: score of the digest's bound, softmax per query head, mean over the
// group, the best pages of each KV head between sinks and window.
// Thread-safety: a StreamContext is immutable; StreamSelections has none. Ownership: the context
// outlives its selections.
#ifndef QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_
#define QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bench/stream/query_stream.h"
#include "bench/stream/topic_pages.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

/// [layers][n_kv] pages, ascending.
using StepSelection = std::vector<std::vector<std::vector<uint32_t>>>;

struct StreamBudget {
  uint32_t sink_pages = 16;      ///< S / p
  uint32_t window_pages = 16;    ///< W / p
  uint32_t selected_pages = 32;  ///< k = (B - S - W) / p
};

class StreamContext {
 public:
  /// `shape` gives the number of pages and topics; its page size and head size are the spec's, and
  /// every layer and head has a seed of its own. REQUIRES: dtype f16 or f32, no MLA.
  static StatusOr<StreamContext> Make(const KvSpec& spec, TopicShape shape);

  const KvSpec& spec() const { return spec_; }
  uint32_t num_pages() const { return num_pages_; }
  const TopicPages& pages(uint32_t layer, uint32_t head) const {
    return heads_[size_t{layer} * spec_.num_kv_heads + head];
  }
  /// The unit as the store has it: keys, then random values.
  std::span<const std::byte> unit(uint32_t layer, uint32_t page, uint32_t head) const;
  /// What queries of `layer`, [n_q][d], select: [n_kv] pages, ascending.
  StatusOr<std::vector<std::vector<uint32_t>>> Select(uint32_t layer,
                                                      std::span<const float> queries,
                                                      const StreamBudget& budget) const;

 private:
  StreamContext(const KvSpec& spec, uint32_t num_pages) : spec_(spec), num_pages_(num_pages) {}
  void WriteUnit(const TopicPages& keys, uint32_t layer, uint32_t page, uint32_t head);
  [[nodiscard]] Status MakeDigests();

  KvSpec spec_;
  uint32_t num_pages_;
  std::vector<TopicPages> heads_;   ///< [layers][n_kv]
  std::vector<std::byte> units_;    ///< [layers][pages][n_kv] units
  std::vector<std::byte> digests_;  ///< [layers][pages][n_kv][2][d] dtype
};

class StreamSelections {
 public:
  /// `queries.group_size` is the spec's; every layer and head has a seed of its own.
  static StatusOr<StreamSelections> Make(const StreamContext& context, QueryOptions queries,
                                         const StreamBudget& budget);

  /// What the step at hand selects.
  const StepSelection& selection() const { return selection_; }
  Status Step();

 private:
  StreamSelections(const StreamContext& context, const StreamBudget& budget)
      : context_(&context), budget_(budget) {}
  [[nodiscard]] Status Select();

  const StreamContext* context_;
  StreamBudget budget_;
  std::vector<QueryStream> streams_;  ///< [layers][n_kv]
  StepSelection selection_;
};

/// Units of `now` that are not in `before`; all of them when that is empty.
uint64_t MissingUnits(const StepSelection& before, const StepSelection& now);
uint64_t CountUnits(const StepSelection& selection);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_STREAM_CONTEXT_H_
