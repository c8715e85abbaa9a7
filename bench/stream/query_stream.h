// SPDX-License-Identifier: Apache-2.0
//
// QueryStream: the queries of one KV head's group over TopicPages, step by step. Each query head
// walks around a topic of the group: q' = c q + sqrt(1 - c^2) e. Here e is perpendicular to q and
// as long, so the cosine from step to step is exactly c and the length is constant. A small part of
// e points to the topic, and keeps the cosine of query and topic at `topic_cosine` on average.
// Without it the queries would leave every topic within a few dozen steps.
//
// The default is calibrated over the mean of 40 streams, with 32 pages selected by digests. In a
// step 29 % of them are new when all heads drift (c = 0.84), and 17 % when they are quiet (c =
// 0.95). The published shares are 28 % and 14 % (docs/design/0023). With probability `jump_rate` a
// step moves to another topic instead.
//
// The length is such that the best sixteenth of the pages hold 95 % of the attention of the first
// 128 steps, measured on every eighth. The same options give the same queries on every machine.
// Thread-safety: none.
// Ownership: the pages outlive it.
#ifndef QUIRE_BENCH_STREAM_QUERY_STREAM_H_
#define QUIRE_BENCH_STREAM_QUERY_STREAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "bench/stream/topic_pages.h"
#include "common/base/random.h"

namespace quire::bench {

struct QueryOptions {
  uint32_t group_size = 4;     ///< G
  double cosine = 0.95;        ///< `c`, in (0, 1).
  double topic_cosine = 0.30;  ///< In [0, 1); 0 never turns back to the topic.
  double jump_rate = 0;        ///< `rho`
  uint64_t seed = 1;
};

class QueryStream {
 public:
  QueryStream(const TopicPages& pages, const QueryOptions& options);

  /// Queries of the present step: [group_size][head_dim].
  std::span<const float> queries() const { return queries_; }
  uint32_t topic() const { return walk_.topic; }
  double norm() const { return norm_; }  ///< Length of every query.
  void Step();

 private:
  /// State of the walk: directions of the heads, and the source of random steps.
  struct Walk {
    SeededRandom random;
    uint32_t topic = 0;
    std::vector<std::vector<float>> directions;  ///< [group_size] of [head_dim]
  };
  Walk Begin(uint64_t seed) const;
  /// Places the heads around walk->topic.
  void Gather(Walk* walk) const;
  void Advance(Walk* walk) const;
  double Calibrate() const;
  void SetQueries();

  const TopicPages& pages_;
  const QueryOptions options_;
  Walk walk_;
  const double norm_;
  std::vector<float> queries_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_QUERY_STREAM_H_
