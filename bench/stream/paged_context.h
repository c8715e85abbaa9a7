// SPDX-License-Identifier: Apache-2.0
//
// PagedContext: a whole context in memory: its units as a store keeps them, the digests of their
// keys, and selection by digests.
//
// Selection is that of FreeKV: min/max score per query head, softmax over the candidates, mean over
// the group. Each KV head selects the best pages between sinks and window.
// Thread-safety: immutable.
#ifndef QUIRE_BENCH_STREAM_PAGED_CONTEXT_H_
#define QUIRE_BENCH_STREAM_PAGED_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

/// [layers][n_kv] pages, ascending.
using StepSelection = std::vector<std::vector<std::vector<uint32_t>>>;

struct PageBudget {
  uint32_t sink_pages = 16;      ///< S / p
  uint32_t window_pages = 16;    ///< W / p
  uint32_t selected_pages = 32;  ///< `k` = (B - S - W) / p
};

class PagedContext {
 public:
  /// `units`, [layers][pages][n_kv] of `spec`, are whole pages. REQUIRES: dtype f16 or f32, no MLA.
  static StatusOr<PagedContext> Make(const KvSpec& spec, std::vector<std::byte> units);

  const KvSpec& spec() const { return spec_; }
  uint32_t num_pages() const { return num_pages_; }
  /// The unit as the store has it.
  std::span<const std::byte> unit(uint32_t layer, uint32_t page, uint32_t head) const;
  /// Selects by queries of `layer`, [n_q][d], among the first `pages` pages, which exist at that
  /// step. Returns [n_kv] pages, ascending. REQUIRES: at least as many pages as the budget, and at
  /// most those of the context.
  StatusOr<std::vector<std::vector<uint32_t>>> Select(uint32_t layer,
                                                      std::span<const float> queries,
                                                      const PageBudget& budget,
                                                      uint32_t pages) const;

 private:
  PagedContext(const KvSpec& spec, std::vector<std::byte> units);
  [[nodiscard]] Status MakeDigests();

  KvSpec spec_;
  std::vector<std::byte> units_;
  uint32_t num_pages_;
  std::vector<std::byte> digests_;  ///< [layers][pages][n_kv][2][d] dtype
};

/// Number of units of `now` that are not in `before`; all if that is empty.
uint64_t MissingUnits(const StepSelection& before, const StepSelection& now);
uint64_t CountUnits(const StepSelection& selection);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_PAGED_CONTEXT_H_
