// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/selector.h"

#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

namespace quire::kvserver {
namespace {

Status FromOp(kernels::OpStatus status, std::string_view op) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel ", op, ": ", kernels::Describe(status));
}

}  // namespace

Status Selector::Check(const KvSpec& spec, const PageQuery& query, uint32_t num_context_pages) {
  const uint64_t expected = uint64_t{spec.num_query_heads} * spec.key_dim();
  if (query.query.size() != expected) {
    return InvalidArgument("the query has ", query.query.size(), " numbers: must be ",
                           spec.num_query_heads, " heads of ", spec.key_dim());
  }
  if (query.first_page > query.end_page || query.end_page > num_context_pages) {
    return InvalidArgument("candidate pages [", query.first_page, ", ", query.end_page,
                           ") are not inside the context's ", num_context_pages, " pages");
  }
  if (!std::isfinite(query.scale) || query.scale <= 0) {
    return InvalidArgument("scale is ", query.scale, ": must be finite and above 0");
  }
  if (!kernels::IsKnown(query.pooling)) {
    return InvalidArgument("pooling ", static_cast<int>(query.pooling), " is unknown");
  }
  return OkStatus();
}

StatusOr<std::vector<std::vector<uint32_t>>> Selector::Select(const KvSpec& spec,
                                                              const PageQuery& query,
                                                              const DigestBlocks& digests) {
  std::vector<std::vector<uint32_t>> selected(spec.num_kv_heads);
  const uint32_t candidates = query.end_page - query.first_page;
  if (TakesAll(query)) {
    for (auto& pages : selected) {
      pages.resize(candidates);
      std::iota(pages.begin(), pages.end(), query.first_page);
    }
    return selected;
  }
  if (query.num_pages == 0) return selected;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> weights, Weigh(spec, query, digests));
  std::vector<int32_t> best(uint64_t{spec.num_kv_heads} * query.num_pages);
  std::vector<int32_t> nan_counts(spec.num_kv_heads);
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.topk({.scores = weights.data(),
                                          .indices = best.data(),
                                          .nan_counts = nan_counts.data(),
                                          .n_rows = spec.num_kv_heads,
                                          .n_pages = candidates,
                                          .k = query.num_pages,
                                          .index_offset = static_cast<int32_t>(query.first_page)}),
                               "topk"));
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    const auto row = best.begin() + int64_t{head} * query.num_pages;
    selected[head].assign(row, row + query.num_pages);
    nan_scores_.Add(static_cast<uint64_t>(nan_counts[head]));
  }
  units_scored_.Add(uint64_t{candidates} * spec.num_kv_heads);
  return selected;
}

StatusOr<std::vector<float>> Selector::Weigh(const KvSpec& spec, const PageQuery& query,
                                             const DigestBlocks& digests) const {
  const int64_t candidates = query.end_page - query.first_page;
  const bool pools_query = kernels::PoolsQuery(query.pooling);
  const int64_t rows = pools_query ? spec.num_kv_heads : spec.num_query_heads;
  std::vector<float> heads = query.query;
  if (pools_query) {
    heads.resize(static_cast<size_t>(rows) * spec.key_dim());
    QUIRE_RETURN_IF_ERROR(FromOp(ops_.pool_query({.q = query.query.data(),
                                                  .pooled = heads.data(),
                                                  .n_q = spec.num_query_heads,
                                                  .n_kv = spec.num_kv_heads,
                                                  .head_dim = spec.key_dim(),
                                                  .pooling = query.pooling}),
                                 "pool_query"));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> scores, Score(spec, query, heads, digests));
  std::vector<float> weights(uint64_t{spec.num_kv_heads} * static_cast<uint64_t>(candidates));
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.pool({.scores = scores.data(),
                                          .pooled = weights.data(),
                                          .n_q = rows,
                                          .n_kv = spec.num_kv_heads,
                                          .n_pages = candidates,
                                          .head_dim = spec.key_dim(),
                                          .pooling = query.pooling}),
                               "pool"));
  return weights;
}

StatusOr<std::vector<float>> Selector::Score(const KvSpec& spec, const PageQuery& query,
                                             std::span<const float> heads,
                                             const DigestBlocks& digests) const {
  const uint64_t rows = heads.size() / spec.key_dim();
  const uint64_t candidates = query.end_page - query.first_page;
  std::vector<float> scores(rows * candidates);
  const auto blocks = digests.pointers();
  QUIRE_RETURN_IF_ERROR(FromOp(ops_.score({.q = heads.data(),
                                           .blocks = blocks.data(),
                                           .n_blocks = static_cast<int64_t>(blocks.size()),
                                           .pages_per_block = digests.pages_per_block(),
                                           .first_page = query.first_page - digests.first_page(),
                                           .scores = scores.data(),
                                           .n_pages = static_cast<int64_t>(candidates),
                                           .n_q = static_cast<int64_t>(rows),
                                           .n_kv = spec.num_kv_heads,
                                           .head_dim = spec.key_dim(),
                                           .scale = query.scale,
                                           .dtype = spec.dtype}),
                               "score"));
  return scores;
}

void Selector::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("select_units_scored", "Units scored by their digests.", units_scored_.Get());
  visit.Counter("select_nan_scores", "Scores that were no number; their units are not selected.",
                nan_scores_.Get());
}

}  // namespace quire::kvserver
