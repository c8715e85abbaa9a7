// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/retrieval_head.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "gpuworker/device/device.h"

namespace quire::worker {
namespace {

Status NormRows(const std::vector<float>& weight, double eps, std::vector<float>* rows) {
  const auto width = static_cast<int64_t>(weight.size());
  return ToStatus(CpuDevice().kernels().rmsnorm({.x = rows->data(),
                                                 .weight = weight.data(),
                                                 .y = rows->data(),
                                                 .rows = static_cast<int64_t>(rows->size()) / width,
                                                 .dim = width,
                                                 .eps = static_cast<float>(eps)}),
                  "rmsnorm");
}

/// [rows][out] = rows [rows][in] times weight [out][in] transposed.
StatusOr<std::vector<float>> Times(const std::vector<float>& rows, const std::vector<float>& weight,
                                   size_t in) {
  const size_t count = rows.size() / in, out = weight.size() / in;
  std::vector<float> product(count * out);
  QUIRE_RETURN_IF_ERROR(ToStatus(CpuDevice().kernels().matmul({.x = rows.data(),
                                                               .weight = weight.data(),
                                                               .y = product.data(),
                                                               .rows = static_cast<int64_t>(count),
                                                               .in = static_cast<int64_t>(in),
                                                               .out = static_cast<int64_t>(out)}),
                                 "matmul"));
  return product;
}

void Softmax(std::span<float> row) {
  const float highest = *std::ranges::max_element(row);
  double total = 0;
  for (float& value : row) total += value = std::exp(value - highest);
  for (float& value : row) value = static_cast<float>(value / total);
}

}  // namespace

RetrievalHead::RetrievalHead(const HeadWeights* weights, uint64_t context, uint32_t kept_queries)
    : weights_(weights),
      c_(weights->config),
      context_(context),
      kept_queries_(kept_queries),
      rope_(DraftRope(weights->config, context)),
      keys_(weights->config.num_kv_heads) {}

StatusOr<std::vector<float>> RetrievalHead::EmbeddingsBefore(
    uint64_t first, std::span<const TokenId> tokens) const {
  const size_t h = c_.hidden_size, before = weights_->tokens_before();
  std::vector<float> rows(tokens.size() * before * h);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint64_t position = first + i;
    for (size_t back = 1; back <= std::min<uint64_t>(before, position); ++back) {
      const TokenId token = back <= i ? tokens[i - back] : tokens_[position - back];
      QUIRE_RETURN_IF_ERROR(weights_->Embed(token, rows.data() + (i * before + back - 1) * h));
    }
  }
  return rows;
}

StatusOr<std::vector<float>> RetrievalHead::Inputs(uint64_t first, std::span<const TokenId> tokens,
                                                   std::span<const float> features) const {
  const size_t h = c_.hidden_size;
  std::vector<float> embeddings(tokens.size() * h);
  for (size_t i = 0; i < tokens.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(weights_->Embed(tokens[i], embeddings.data() + i * h));
  }
  QUIRE_RETURN_IF_ERROR(NormRows(weights_->input_norm, c_.rms_norm_eps, &embeddings));
  if (weights_->mode == HeadMode::kEmbedOnly) return embeddings;
  std::vector<float> merged(features.begin(), features.end());
  if (weights_->mode == HeadMode::kTrained) {
    QUIRE_ASSIGN_OR_RETURN(merged, EmbeddingsBefore(first, tokens));
  }
  QUIRE_ASSIGN_OR_RETURN(merged, Times(merged, weights_->fc, weights_->num_features));
  QUIRE_RETURN_IF_ERROR(NormRows(weights_->hidden_norm, c_.rms_norm_eps, &merged));
  std::vector<float> inputs;
  inputs.reserve(2 * embeddings.size());
  for (size_t at = 0; at < embeddings.size(); at += h) {
    for (const std::vector<float>* half : {&embeddings, &merged}) {
      const auto row = half->begin() + static_cast<ptrdiff_t>(at);
      inputs.insert(inputs.end(), row, row + static_cast<ptrdiff_t>(h));
    }
  }
  return inputs;
}

StatusOr<std::vector<float>> RetrievalHead::Project(uint64_t first,
                                                    const std::vector<float>& inputs,
                                                    const std::vector<float>& weight,
                                                    uint32_t heads) const {
  const size_t in = weights_->input_width(), count = inputs.size() / in, half = c_.head_dim / 2;
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> rows, Times(inputs, weight, in));
  std::vector<float> cosines(count * half), sines(count * half);
  rope_.Fill(first, count, cosines.data(), sines.data());
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  QUIRE_RETURN_IF_ERROR(
      ToStatus(CpuDevice().kernels().rope({.rows = rows.data(),
                                           .positions = positions.data(),
                                           .cos_table = cosines.data(),
                                           .sin_table = sines.data(),
                                           .t = static_cast<int64_t>(count),
                                           .heads = heads,
                                           .head_dim = c_.head_dim,
                                           .rotary_dim = c_.head_dim,
                                           .n_positions = static_cast<int64_t>(count)}),
               "rope"));
  return rows;
}

Status RetrievalHead::Append(std::span<const TokenId> tokens, std::span<const float> features) {
  const bool eagle = weights_->mode == HeadMode::kEagle;
  const size_t wanted = eagle ? tokens.size() * weights_->num_features : 0;
  if (features.size() != wanted) {
    return InvalidArgument("the retrieval head's mode ", Name(weights_->mode), " wants ", wanted,
                           " features of ", tokens.size(), " tokens; ", features.size(),
                           " were given");
  }
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  if (tokens.empty()) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> inputs, Inputs(tokens_.size(), tokens, features));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> queries,
                         Project(tokens_.size(), inputs, weights_->q, c_.num_query_heads));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> keys,
                         Project(tokens_.size(), inputs, weights_->k, c_.num_kv_heads));
  const size_t row = size_t{c_.num_query_heads} * c_.head_dim;
  const size_t kept = std::min(queries_.size(), kept_queries_ * row);
  queries_.erase(queries_.begin(), queries_.end() - static_cast<ptrdiff_t>(kept));
  queries_.insert(queries_.end(), queries.begin(), queries.end());
  Take(tokens, keys);
  KeepFeatures(features);
  return OkStatus();
}

Status RetrievalHead::CheckTokens(std::span<const TokenId> tokens) const {
  if (tokens_.size() + tokens.size() > context_) {
    return InvalidArgument("the retrieval head was opened for ", context_, " tokens; ",
                           tokens_.size() + tokens.size(), " do not fit");
  }
  for (const TokenId token : tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < c_.vocab_size) continue;
    return InvalidArgument("token ", token, " is outside the retrieval head's vocabulary of ",
                           c_.vocab_size);
  }
  return OkStatus();
}

void RetrievalHead::Take(std::span<const TokenId> tokens, std::span<const float> keys) {
  for (size_t at = 0; at < keys.size(); at += c_.head_dim) {
    std::vector<float>& head = keys_[at / c_.head_dim % c_.num_kv_heads];
    const auto row = keys.begin() + static_cast<ptrdiff_t>(at);
    head.insert(head.end(), row, row + c_.head_dim);
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void RetrievalHead::KeepFeatures(std::span<const float> features) {
  if (weights_->mode != HeadMode::kEagle) return;
  kept_features_.insert(kept_features_.end(), features.begin(), features.end());
  const size_t kept = RowsToKeep(tokens_.size()) * weights_->num_features;
  kept_features_.erase(kept_features_.begin(), kept_features_.end() - static_cast<ptrdiff_t>(kept));
}

Status RetrievalHead::Restore(std::span<const TokenId> tokens, std::span<const float> keys,
                              std::span<const float> features) {
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  if (keys.size() != tokens.size() * key_values()) {
    return InvalidArgument(keys.size(), " values of keys for ", tokens.size(), " tokens of ",
                           key_values());
  }
  const uint64_t kept = RowsToKeep(tokens_.size() + tokens.size());
  const uint64_t wanted = weights_->mode == HeadMode::kEagle ? kept * weights_->num_features : 0;
  if (features.size() != wanted) {
    return InvalidArgument(features.size(),
                           " features for the last tokens of a retrieval head, of ", wanted);
  }
  queries_.clear();
  kept_features_.clear();
  Take(tokens, keys);
  KeepFeatures(features);
  return OkStatus();
}

Status RetrievalHead::RenewQueries() {
  queries_.clear();
  const uint64_t kept = RowsToKeep(tokens_.size());
  if (kept == 0) return OkStatus();
  const uint64_t first = tokens_.size() - kept;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> inputs,
                         Inputs(first, std::span(tokens_).subspan(first), kept_features_));
  QUIRE_ASSIGN_OR_RETURN(queries_, Project(first, inputs, weights_->q, c_.num_query_heads));
  return OkStatus();
}

std::vector<float> RetrievalHead::Keys(uint64_t first, uint64_t end) const {
  std::vector<float> keys;
  keys.reserve((end - first) * key_values());
  for (uint64_t token = first; token < end; ++token) {
    for (const std::vector<float>& head : keys_) {
      const auto row = head.begin() + static_cast<ptrdiff_t>(token * c_.head_dim);
      keys.insert(keys.end(), row, row + c_.head_dim);
    }
  }
  return keys;
}

uint64_t RetrievalHead::first_query() const {
  return tokens_.size() - queries_.size() / (size_t{c_.num_query_heads} * c_.head_dim);
}

StatusOr<std::vector<float>> RetrievalHead::Weights(uint64_t token) const {
  const size_t d = c_.head_dim, n_q = c_.num_query_heads, group = n_q / c_.num_kv_heads;
  const uint64_t first = first_query();
  if (token < first || token >= tokens_.size()) {
    return InvalidArgument("token ", token, " is not among the last that the retrieval head got, ",
                           first, " to ", tokens_.size());
  }
  const size_t length = token + 1;
  std::vector<float> weights(n_q * length);
  const float* const query = queries_.data() + (token - first) * n_q * d;
  for (size_t head = 0; head < c_.num_kv_heads; ++head) {
    QUIRE_RETURN_IF_ERROR(
        ToStatus(CpuDevice().kernels().matmul({.x = query + head * group * d,
                                               .weight = keys_[head].data(),
                                               .y = weights.data() + head * group * length,
                                               .rows = static_cast<int64_t>(group),
                                               .in = static_cast<int64_t>(d),
                                               .out = static_cast<int64_t>(length)}),
                 "matmul"));
  }
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  for (float& logit : weights) logit *= scale;
  for (size_t head = 0; head < n_q; ++head) {
    Softmax(std::span(weights).subspan(head * length, length));
  }
  return weights;
}

}  // namespace quire::worker
