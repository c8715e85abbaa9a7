// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/dense_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire::worker {
namespace {

constexpr uint64_t kFirstCapacity = 64;

}  // namespace

DenseCache::DenseCache(const ModelConfig& config, Device* device, uint64_t max_tokens)
    : device_(device),
      num_query_heads_(config.num_query_heads),
      num_kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      value_dim_(config.value_dim()),
      has_values_(!config.latent),
      windows_(config.Windows()),
      soft_cap_(static_cast<float>(config.gemma.attention_soft_cap)),
      max_tokens_(max_tokens),
      layers_(config.num_layers) {}

Status DenseCache::Attend(const LayerStep& step) {
  if (device_->kernels().dense_attention == nullptr) {
    return Unimplemented("device ", device_->name(), " has no kernel dense_attention");
  }
  Layer& layer = layers_[step.layer];
  if (step.first_position != layer.tokens) {
    return FailedPrecondition("the step begins at position ", step.first_position,
                              ", but the cache holds ", layer.tokens,
                              " tokens; truncate it or run the tokens between");
  }
  const uint64_t total = layer.tokens + step.num_tokens;
  QUIRE_RETURN_IF_ERROR(Reserve(layer, total));
  const size_t row = size_t{num_kv_heads_} * head_dim_;
  const size_t bytes = step.num_tokens * row * sizeof(float);
  float* const keys = layer.keys.as<float>();
  float* const values = has_values_ ? layer.values.as<float>() : nullptr;
  QUIRE_RETURN_IF_ERROR(device_->CopyOnDevice(keys + layer.tokens * row, step.k, bytes));
  if (has_values_) {
    QUIRE_RETURN_IF_ERROR(device_->CopyOnDevice(values + layer.tokens * row, step.v, bytes));
  }
  const kernels::OpStatus result =
      device_->kernels().dense_attention({.q = step.q,
                                          .k = keys,
                                          .v = values,
                                          .out = step.out,
                                          .t = step.num_tokens,
                                          .n = static_cast<int64_t>(total),
                                          .n_q = num_query_heads_,
                                          .n_kv = num_kv_heads_,
                                          .head_dim = head_dim_,
                                          .value_dim = value_dim_,
                                          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim_)),
                                          .soft_cap = soft_cap_,
                                          .window = windows_.empty() ? 0 : windows_[step.layer],
                                          .dtype = DType::kF32,
                                          .stream = device_->stream()});
  QUIRE_RETURN_IF_ERROR(ToStatus(result, "dense_attention"));
  layer.tokens = total;
  return OkStatus();
}

uint64_t DenseCache::length() const {
  uint64_t tokens = layers_.front().tokens;
  for (const Layer& layer : layers_) tokens = std::min(tokens, layer.tokens);
  return tokens;
}

Status DenseCache::Truncate(uint64_t tokens) {
  if (tokens > length()) {
    return FailedPrecondition("cannot truncate to ", tokens, " tokens: the cache holds ", length());
  }
  for (Layer& layer : layers_) layer.tokens = tokens;
  return OkStatus();
}

Status DenseCache::Reserve(Layer& layer, uint64_t tokens) {
  if (tokens <= layer.capacity) return OkStatus();
  if (tokens > max_tokens_) {
    return ResourceExhausted("the dense cache is limited to ", max_tokens_, " tokens, ", tokens,
                             " are needed");
  }
  const uint64_t capacity =
      std::min(std::max({tokens, 2 * layer.capacity, kFirstCapacity}), max_tokens_);
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer keys, Moved(layer.keys, layer.tokens, capacity));
  DeviceBuffer values;
  if (has_values_) {
    QUIRE_ASSIGN_OR_RETURN(values, Moved(layer.values, layer.tokens, capacity));
  }
  QUIRE_RETURN_IF_ERROR(device_->Synchronize());  // The old buffers go away.
  layer.keys = std::move(keys);
  layer.values = std::move(values);
  layer.capacity = capacity;
  return OkStatus();
}

StatusOr<DeviceBuffer> DenseCache::Moved(const DeviceBuffer& from, uint64_t tokens,
                                         uint64_t capacity) {
  const size_t row_bytes = size_t{num_kv_heads_} * head_dim_ * sizeof(float);
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer to, device_->Allocate(capacity * row_bytes));
  QUIRE_RETURN_IF_ERROR(device_->CopyOnDevice(to.data(), from.data(), tokens * row_bytes));
  return to;
}

}  // namespace quire::worker
