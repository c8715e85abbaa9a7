// SPDX-License-Identifier: Apache-2.0
//
// TopicPages: the keys of one KV head of a synthetic context. Topic centres are normal vectors, and
// each page belongs to one topic. Pages of a topic come in runs of geometric length. Keys scatter
// normally around their page's centre. The same shape gives the same keys on every machine.
// Thread-safety: immutable.
#ifndef QUIRE_BENCH_STREAM_TOPIC_PAGES_H_
#define QUIRE_BENCH_STREAM_TOPIC_PAGES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace quire::bench {

struct TopicShape {
  uint32_t pages = 1024;  ///< All sizes are at least 1.
  uint32_t page_tokens = 32;
  uint32_t head_dim = 128;
  uint32_t topics = 64;  ///< At least 2, so that a query can jump.
  double mean_run_pages = 8;
  double topic_deviation = 1;  ///< Standard deviation of a centre in each channel.
  double key_deviation = 1;    ///< Standard deviation of a key around its centre.
  uint64_t seed = 1;
};

class TopicPages {
 public:
  explicit TopicPages(const TopicShape& shape);

  const TopicShape& shape() const { return shape_; }
  uint32_t topic_of(uint32_t page) const { return topic_of_[page]; }
  /// [head_dim]
  std::span<const float> centre(uint32_t topic) const {
    return std::span(centres_).subspan(size_t{topic} * shape_.head_dim, shape_.head_dim);
  }
  /// [page_tokens][head_dim]
  std::span<const float> keys(uint32_t page) const {
    const size_t values = size_t{shape_.page_tokens} * shape_.head_dim;
    return std::span(keys_).subspan(page * values, values);
  }

 private:
  const TopicShape shape_;
  std::vector<float> centres_;      ///< [topics][head_dim]
  std::vector<uint32_t> topic_of_;  ///< [pages]
  std::vector<float> keys_;         ///< [pages][page_tokens][head_dim]
};

/// Products of `query` ([head_dim]) with all keys, [pages][page_tokens].
std::vector<float> KeyScores(const TopicPages& pages, std::span<const float> query);

/// Share of each page in the softmax of scale * `scores`, [pages][page_tokens].
std::vector<double> PageMasses(std::span<const float> scores, uint32_t page_tokens,
                               double scale = 1);

/// Sum of the `count` largest.
double TopMass(std::vector<double> masses, uint32_t count);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_TOPIC_PAGES_H_
