// SPDX-License-Identifier: Apache-2.0
//
// Representatives: which tokens stand for the pages of one layer, and the mean of their keys, by
// which a page is scored (kernels::DigestKind::kRepresentatives; InfLLM). Pages form blocks of
// kBlockTokens tokens, and kPerBlock tokens represent a block; smaller and larger blocks have as
// many in proportion. For each KV head they are the tokens that received the most attention while
// they were in the window of recent pages. All pages of a block have the same representatives. All
// tokens represent a block that received none.
//
// Attention is over the complete pages of the window alone, and summed over the head's queries. A
// key or query that is NaN receives none.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEYS_REPRESENTATIVES_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEYS_REPRESENTATIVES_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::worker {

class Representatives {
 public:
  static constexpr uint32_t kBlockTokens = 128;
  static constexpr uint32_t kPerBlock = 4;  ///< Tokens.

  /// Pages of a block; the first block starts at page 0. Blocks do not go beyond a segment, since
  /// others may share it and not the next: where kBlockTokens do not fit they are smaller.
  static uint32_t BlockPages(const KvSpec& spec);

  /// For the pages from `first_page` on. The window has `window_pages` pages, 2 or more, with the
  /// page that is being filled.
  Representatives(const KvSpec& spec, uint32_t first_page, uint32_t window_pages);

  uint32_t first_page() const { return first_page_; }
  /// Behind the last page that has left the window: those before it have a mean.
  uint32_t end_page() const;
  /// The mean key of what represents a page, [n_kv][d]. It may change while pages of its block
  /// leave the window. REQUIRES: first_page() <= page < end_page().
  std::span<const float> mean(uint32_t page) const;

  /// Takes the next page: `keys` is [n_kv][rows][d], 1 <= rows <= p, fewer than p only in the last.
  /// The oldest page leaves the window when it is full.
  void AddPage(std::vector<float> keys);
  /// Adds the attention that `queries`, [t][n_q][d], pay the window.
  [[nodiscard]] Status Attend(std::span<const float> queries);
  /// The oldest page leaves the window. REQUIRES: there is one, in_window() > 0.
  void Leave();
  size_t in_window() const { return window_.size(); }

 private:
  struct Page {
    std::vector<float> keys;      ///< [n_kv][rows][d]
    std::vector<float> received;  ///< [n_kv][rows] attention
    size_t rows = 0;
  };
  size_t mean_size() const { return size_t{spec_.num_kv_heads} * spec_.head_dim; }
  /// Adds what one query of head `head` pays the window's tokens for these `scores`.
  void Pay(uint32_t head, std::span<float> scores);
  /// The mean of what represents head `head` of block_, into `mean` [d].
  void MeanOfBlock(uint32_t head, std::span<float> mean) const;

  const KvSpec spec_;
  const uint32_t first_page_;
  const uint32_t window_pages_;
  std::deque<Page> window_;
  std::vector<Page> block_;   ///< The pages of the last block that have left the window.
  std::vector<float> means_;  ///< [pages][n_kv][d]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEYS_REPRESENTATIVES_H_
