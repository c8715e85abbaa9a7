// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/zipf_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "common/base/random.h"

namespace quire::bench {
namespace {

constexpr double kMaxBlocks = 1e8;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Draws 0 .. n-1 with weights 1 / (k + 1)^s.
class ZipfDraw {
 public:
  ZipfDraw(uint32_t n, double s) : cumulative_(n) {
    double sum = 0;
    for (uint32_t k = 0; k < n; ++k) cumulative_[k] = sum += std::pow(k + 1.0, -s);
  }
  uint32_t operator()(Random& random) const {
    const double at = random.Uniform() * cumulative_.back();
    const auto it = std::ranges::upper_bound(cumulative_, at);
    const auto last = static_cast<uint32_t>(cumulative_.size() - 1);
    return std::min(static_cast<uint32_t>(it - cumulative_.begin()), last);
  }

 private:
  std::vector<double> cumulative_;
};

uint32_t DrawLength(const ZipfTraceOptions& options, Random& random) {
  const double length = options.median_tokens * std::exp(options.sigma * random.Normal());
  return static_cast<uint32_t>(std::clamp<double>(length, options.min_tokens, options.max_tokens));
}

/// Appends `tokens` tokens as blocks of `block_tokens` with ids from `*next_id` on.
void AppendBlocks(uint32_t tokens, uint32_t block_tokens, uint64_t* next_id,
                  std::vector<TraceBlock>* blocks) {
  for (uint32_t begin = 0; begin < tokens;) {
    const uint32_t size = block_tokens == 0 ? tokens : std::min(block_tokens, tokens - begin);
    blocks->push_back({.id = (*next_id)++, .tokens = size, .bytes = KvBytes(size)});
    begin += size;
  }
}

std::vector<std::vector<TraceBlock>> MakeDocuments(const ZipfTraceOptions& options,
                                                   Random& random) {
  uint64_t next_id = 0;
  std::vector<TraceBlock> prefix;
  AppendBlocks(options.prefix_tokens, options.block_tokens, &next_id, &prefix);
  std::vector<std::vector<TraceBlock>> documents(options.documents, prefix);
  for (std::vector<TraceBlock>& blocks : documents) {
    AppendBlocks(DrawLength(options, random), options.block_tokens, &next_id, &blocks);
  }
  return documents;
}

std::string Describe(const ZipfTraceOptions& options) {
  std::ostringstream text;
  text << "zipf " << options.zipf << ", " << options.documents << " documents of median "
       << options.median_tokens << " tokens, " << options.requests << " requests, ";
  if (options.block_tokens == 0) {
    text << "cached as whole documents";
  } else {
    text << "cached in blocks of " << options.block_tokens << " tokens";
  }
  text << ", seed " << options.seed;
  return text.str();
}

}  // namespace

Status Validate(const ZipfTraceOptions& options) {
  if (options.documents == 0) return InvalidArgument("a trace needs at least one document");
  const double block_tokens = options.block_tokens == 0 ? kNoLimit : options.block_tokens;
  const double mean_tokens = options.median_tokens * std::exp(options.sigma * options.sigma / 2);
  const double blocks_each =
      2 +
      (std::min<double>(mean_tokens, options.max_tokens) + options.prefix_tokens) / block_tokens;
  const double blocks = blocks_each * (1.0 * options.documents + options.requests);
  if (blocks <= kMaxBlocks) return OkStatus();
  return InvalidArgument("the trace would have about ", blocks, " blocks, more than ", kMaxBlocks,
                         "; take fewer documents or requests, or larger blocks");
}

Trace MakeZipfTrace(const ZipfTraceOptions& options) {
  SeededRandom random(options.seed);
  const auto documents = MakeDocuments(options, random);
  const ZipfDraw draw(options.documents, options.zipf);
  Trace trace{.description = Describe(options)};
  trace.requests.reserve(options.requests);
  double seconds = 0;
  for (uint32_t i = 0; i < options.requests; ++i) {
    seconds -= std::log(1 - random.Uniform()) / options.requests_per_second;
    trace.requests.push_back({.arrival_micros = static_cast<int64_t>(seconds * 1e6),
                              .blocks = documents[draw(random)],
                              .new_tokens = options.question_tokens});
  }
  return trace;
}

}  // namespace quire::bench
