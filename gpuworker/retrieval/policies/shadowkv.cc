// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/shadowkv.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "common/page/dtype.h"
#include "common/page/layout.h"
#include "gpuworker/retrieval/digests/digest_selector.h"
#include "gpuworker/retrieval/keys/host_keys.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

float Cosine(std::span<const float> a, std::span<const float> b) {
  return Dot(a, b) / (std::sqrt(Dot(a, a) * Dot(b, b)) + 1e-12f);
}

/// Softmax of scale * `scores`, in place. NaN takes no part in it and stays NaN.
void Softmax(float scale, std::span<float> scores) {
  float most = -std::numeric_limits<float>::infinity(), total = 0;
  for (const float score : scores) most = std::max(most, score);  // NaN is not above.
  for (float& score : scores) {
    score = std::exp(scale * (score - most));
    if (!std::isnan(score)) total += score;
  }
  for (float& score : scores) score /= total;
}

float MaxOrNan(float a, float b) { return std::isnan(b) ? b : std::isnan(a) ? a : std::max(a, b); }

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> ShadowKvPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  QUIRE_RETURN_IF_ERROR(RequireWorkerSide(context.options));
  if (context.spec.rope.rotary_dim > 0 && !context.spec.rope.CanRebase()) {
    return InvalidArgument(
        "policy 'shadowkv' needs keys whose rotation can be undone, which those of this model's "
        "RoPE scaling cannot; use another policy");
  }
  return std::unique_ptr<RetrievalPolicy>(new ShadowKvPolicy(context));
}

RetrievalOptions ShadowKvPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens, {.window = 4 * kChunkTokens, .selected = 2048});
}

uint32_t ShadowKvPolicy::RankOf(const RetrievalOptions& options, const KvSpec& spec) {
  if (options.key_rank > 0) return options.key_rank;
  const uint32_t width = spec.num_kv_heads * spec.head_dim;
  return std::clamp(width * kRank / kRankChannels, 1u, kRank);
}

ShadowKvPolicy::ShadowKvPolicy(const PolicyContext& context)
    : BudgetPolicy(context),
      spec_(context.spec),
      device_(context.device),
      chunks_(spec_.page_tokens % kChunkTokens == 0 ? spec_.page_tokens / kChunkTokens : 1),
      outlier_pages_(static_cast<uint32_t>(uint64_t{context.options.budget_tokens} *
                                           kOutlierChunks * kChunkTokens / kOutlierTokens /
                                           spec_.page_tokens)),
      rank_(RankOf(context.options, spec_)),
      rotation_(spec_.rope),
      layers_(spec_.num_layers) {
  for (Layer& layer : layers_) {
    layer.means.resize(spec_.num_kv_heads);
    layer.outliers.resize(spec_.num_kv_heads);
  }
}

Status ShadowKvPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                      std::shared_ptr<const StoredDigests>) {
  layers_[layer].document_pages = num_pages;
  return OkStatus();
}

Status ShadowKvPolicy::OnPageComplete(uint32_t layer_index, uint32_t page, const void* units) {
  if (!WantsUnits(layer_index)) return OkStatus();
  Layer& layer = layers_[layer_index];
  if (page != layer.num_pages) {
    return FailedPrecondition("layer ", layer_index, ": page ", page, " is complete, but page ",
                              layer.num_pages, " is the next");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> keys, ReadKeys(spec_, device_, units));
  Summarise(keys, &layer);
  KeepExact(keys, &layer);
  ++layer.num_pages;
  return OkStatus();
}

void ShadowKvPolicy::Summarise(std::span<const float> keys, Layer* layer) const {
  const size_t p = spec_.page_tokens, d = spec_.head_dim, chunk_tokens = p / chunks_;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    float lowest = 1;
    for (size_t first = 0; first < p; first += chunk_tokens) {
      const auto chunk = keys.subspan((head * p + first) * d, chunk_tokens * d);
      std::vector<float> mean(d);
      for (size_t t = 0; t < chunk_tokens; ++t) AddTo(chunk.subspan(t * d, d), mean);
      for (float& value : mean) value /= static_cast<float>(chunk_tokens);
      for (size_t t = 0; t < chunk_tokens; ++t) {
        lowest = std::min(lowest, Cosine(mean, chunk.subspan(t * d, d)));
      }
      layer->means[head].insert(layer->means[head].end(), mean.begin(), mean.end());
    }
    layer->cosines.push_back(lowest);
  }
}

void ShadowKvPolicy::KeepExact(std::span<const float> keys, Layer* layer) const {
  const size_t values = keys.size() / spec_.num_kv_heads;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    std::vector<std::byte>& exact = layer->exact.emplace_back(values * ElementBytes(spec_.dtype));
    for (size_t i = 0; i < values; ++i) {
      StoreElement(exact.data(), static_cast<int64_t>(i), spec_.dtype, keys[head * values + i]);
    }
  }
}

std::vector<float> ShadowKvPolicy::Unrotated(const Layer& layer, uint32_t pages) const {
  const size_t p = spec_.page_tokens, d = spec_.head_dim, n_kv = spec_.num_kv_heads;
  std::vector<float> rows(pages * p * n_kv * d);
  for (size_t i = 0; i < pages * n_kv; ++i) {
    const std::byte* const keys = layer.exact[i].data();
    for (size_t t = 0; t < p; ++t) {
      const size_t position = i / n_kv * p + t;
      const auto row = std::span(rows).subspan((position * n_kv + i % n_kv) * d, d);
      for (size_t c = 0; c < d; ++c) {
        row[c] = LoadElement(keys, static_cast<int64_t>(t * d + c), spec_.dtype);
      }
    }
  }
  std::vector<float> back(sines_.size());
  std::ranges::transform(sines_, back.begin(), std::negate<>());
  Rotate(rows, 0, n_kv, back);
  return rows;
}

void ShadowKvPolicy::PrepareAngles(size_t positions) {
  const size_t pairs = spec_.rope.rotary_dim / 2;
  if (cosines_.size() >= positions * pairs) return;
  cosines_.resize(positions * pairs);
  sines_.resize(positions * pairs);
  for (size_t position = 0; position < positions; ++position) {
    rotation_.FillMove(static_cast<int64_t>(position), cosines_.data() + position * pairs,
                       sines_.data() + position * pairs);
  }
}

void ShadowKvPolicy::Rotate(std::span<float> keys, size_t first, size_t heads,
                            const std::vector<float>& sines) const {
  if (spec_.rope.rotary_dim == 0) return;
  std::vector<int32_t> positions(keys.size() / (heads * spec_.head_dim));
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
  // Valid shapes, so it does not fail.
  (void)kernels::CpuKernels().rope(
      {.rows = keys.data(),
       .positions = positions.data(),
       .cos_table = cosines_.data(),
       .sin_table = sines.data(),
       .t = static_cast<int64_t>(positions.size()),
       .heads = static_cast<int64_t>(heads),
       .head_dim = spec_.head_dim,
       .rotary_dim = spec_.rope.rotary_dim,
       .n_positions = static_cast<int64_t>(2 * sines.size() / spec_.rope.rotary_dim),
       .interleaved = spec_.rope.interleaved});
}

void ShadowKvPolicy::Compress(const SelectRequest& request, Layer* layer) {
  const uint32_t pages = std::min(layer->document_pages, layer->num_pages);
  if (layer->low_rank || pages == 0) return;
  PrepareAngles(size_t{pages} * spec_.page_tokens);
  const uint32_t end = std::min(request.candidates.end, pages);
  const uint32_t count = std::min(outlier_pages_, request.max_pages / 2);
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    std::vector<float> badness;
    for (uint32_t page = request.candidates.first; page < end; ++page) {
      badness.push_back(-layer->cosines[size_t{page} * spec_.num_kv_heads + head]);
    }
    layer->outliers[head] = BestPages(badness, request.candidates.first, count);
  }
  const uint32_t width = spec_.num_kv_heads * spec_.head_dim;
  layer->low_rank.emplace(Unrotated(*layer, pages), width, rank_);
  for (size_t i = 0; i < size_t{pages} * spec_.num_kv_heads; ++i) {
    const std::vector<uint32_t>& outliers = layer->outliers[i % spec_.num_kv_heads];
    const auto page = static_cast<uint32_t>(i / spec_.num_kv_heads);
    if (!std::ranges::binary_search(outliers, page)) layer->exact[i] = {};
  }
}

std::vector<float> ShadowKvPolicy::Weights(const SelectRequest& request, const Layer& layer,
                                           uint32_t head, std::span<const float> query) const {
  const size_t d = spec_.head_dim, group = spec_.group_size();
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  std::vector<float> best(request.candidates.size());
  const size_t chunks = best.size() * chunks_;
  std::vector<float> products(group * chunks);
  (void)kernels::CpuKernels().matmul(
      {.x = query.data() + head * group * d,
       .weight = layer.means[head].data() + request.candidates.first * chunks_ * d,
       .y = products.data(),
       .rows = static_cast<int64_t>(group),
       .in = static_cast<int64_t>(d),
       .out = static_cast<int64_t>(chunks)});
  for (size_t a = 0; a < group; ++a) {
    const auto scores = std::span(products).subspan(a * chunks, chunks);
    Softmax(scale, scores);
    for (size_t i = 0; i < scores.size(); ++i) {
      best[i / chunks_] = MaxOrNan(best[i / chunks_], scores[i]);
    }
  }
  return best;
}

StatusOr<Selection> ShadowKvPolicy::Select(const SelectRequest& request) {
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  Layer& layer = layers_[request.layer];
  if (request.candidates.end > layer.num_pages) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", complete pages at ", layer.num_pages);
  }
  Compress(request, &layer);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> query, ReadQuery(spec_, device_, request.q));
  Selection selection;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    std::vector<float> weights = Weights(request, layer, head, query);
    selection.nan_scores += CountNan(weights);
    for (const uint32_t page : layer.outliers[head]) {
      weights[page - request.candidates.first] = 2;  // Above every share.
    }
    selection.pages.push_back(BestPages(weights, request.candidates.first, request.max_pages));
  }
  return selection;
}

void ShadowKvPolicy::FillKeys(uint32_t layer_index, uint32_t head, uint32_t page,
                              std::span<std::byte> keys) const {
  const Layer& layer = layers_[layer_index];
  const size_t p = spec_.page_tokens, d = spec_.head_dim;
  const std::vector<std::byte>& exact = layer.exact[size_t{page} * spec_.num_kv_heads + head];
  if (!exact.empty()) {
    std::ranges::copy(exact, keys.begin());
    return;
  }
  std::vector<float> rebuilt(p * d);
  layer.low_rank->Rebuild(page * p, head * d, d, rebuilt);
  Rotate(rebuilt, page * p, 1, sines_);
  (void)kernels::CpuKernels().narrow({.x = rebuilt.data(),
                                      .y = keys.data(),
                                      .n = static_cast<int64_t>(rebuilt.size()),
                                      .dtype = spec_.dtype});
}

}  // namespace quire::worker
