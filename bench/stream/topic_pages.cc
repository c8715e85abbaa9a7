// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/topic_pages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "bench/stream/vectors.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

/// Topic of every page, in runs of geometric length.
std::vector<uint32_t> TopicRuns(const TopicShape& shape, Random& random) {
  std::vector<uint32_t> topics(shape.pages);
  for (uint32_t page = 0; page < shape.pages; ++page) {
    const bool begins = page == 0 || random.Uniform() * shape.mean_run_pages < 1;
    topics[page] = begins ? static_cast<uint32_t>(random.Below(shape.topics)) : topics[page - 1];
  }
  return topics;
}

}  // namespace

TopicPages::TopicPages(const TopicShape& shape) : shape_(shape) {
  SeededRandom random(shape.seed);
  centres_.resize(size_t{shape.topics} * shape.head_dim);
  for (float& value : centres_) {
    value = static_cast<float>(shape.topic_deviation) * random.Normal();
  }
  topic_of_ = TopicRuns(shape, random);
  keys_.reserve(size_t{shape.pages} * shape.page_tokens * shape.head_dim);
  for (const uint32_t topic : topic_of_) {
    const std::span<const float> around = centre(topic);
    for (uint32_t token = 0; token < shape.page_tokens; ++token) {
      for (const float value : around) {
        keys_.push_back(value + static_cast<float>(shape.key_deviation) * random.Normal());
      }
    }
  }
}

std::vector<float> KeyScores(const TopicPages& pages, std::span<const float> query) {
  const TopicShape& shape = pages.shape();
  std::vector<float> scores;
  scores.reserve(size_t{shape.pages} * shape.page_tokens);
  for (uint32_t page = 0; page < shape.pages; ++page) {
    const std::span<const float> keys = pages.keys(page);
    for (uint32_t token = 0; token < shape.page_tokens; ++token) {
      scores.push_back(Dot(keys.subspan(size_t{token} * shape.head_dim, shape.head_dim), query));
    }
  }
  return scores;
}

std::vector<double> PageMasses(std::span<const float> scores, uint32_t page_tokens, double scale) {
  const double highest = *std::ranges::max_element(scores);
  std::vector<double> masses(scores.size() / page_tokens);
  for (size_t page = 0; page < masses.size(); ++page) {
    for (const float score : scores.subspan(page * page_tokens, page_tokens)) {
      masses[page] += std::exp(scale * (double{score} - highest));
    }
  }
  const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
  for (double& mass : masses) mass /= total;
  return masses;
}

double TopMass(std::vector<double> masses, uint32_t count) {
  const auto end = masses.begin() + std::min<std::ptrdiff_t>(count, std::ssize(masses));
  std::partial_sort(masses.begin(), end, masses.end(), std::greater<>());
  return std::accumulate(masses.begin(), end, 0.0);
}

}  // namespace quire::bench
