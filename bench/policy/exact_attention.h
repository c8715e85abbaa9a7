// SPDX-License-Identifier: Apache-2.0
//
// ExactAttention: the attention of one step to every token, head by head. Policies are measured
// against it. Thread-safety: none.
#ifndef QUIRE_BENCH_POLICY_EXACT_ATTENTION_H_
#define QUIRE_BENCH_POLICY_EXACT_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bench/policy/paged_rows.h"
#include "common/base/status.h"
#include "gpuworker/cache/cache_layout.h"

namespace quire::bench {

class ExactAttention {
 public:
  /// One query head.
  struct Head {
    float highest = 0;           ///< Largest logit.
    double total = 0;            ///< Sum of exp(logit - highest).
    std::vector<float> weights;  ///< [tokens], with a sum of 1
    std::vector<double> masses;  ///< [pages]
    std::vector<float> parts;    ///< [pages][d] contribution of each page to `out`
    std::vector<double> out;     ///< [d]
  };

  /// Computes the attention of `queries`, [n_q][d], over the first `tokens` tokens.
  [[nodiscard]] Status Compute(const PagedRows& rows, uint64_t tokens,
                               std::span<const float> queries, float scale);

  uint64_t tokens() const { return tokens_; }
  const Head& head(uint32_t query_head) const { return heads_[query_head]; }
  /// The `count` pages of `candidates` with the most attention of a KV head, as the mean over its
  /// group; ascending.
  std::vector<uint32_t> BestPages(uint32_t kv_head, worker::PageRange candidates,
                                  uint32_t count) const;

 private:
  uint32_t group_ = 1;
  uint64_t tokens_ = 0;
  std::vector<float> scores_;  ///< [G][tokens] of the present KV head
  std::vector<Head> heads_;    ///< [n_q]
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_EXACT_ATTENTION_H_
