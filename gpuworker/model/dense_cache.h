// SPDX-License-Identifier: Apache-2.0
//
// DenseCache: the plain KV cache, every token of the sequence contiguous in float, for prefill and
// as the reference that sparse attention is compared with.
// Ownership: owns its device memory, which grows by doubling; the device outlives it.
// Thread-safety: none; one for each sequence.
// Errors: FAILED_PRECONDITION when a step does not continue the sequence, RESOURCE_EXHAUSTED past
// `max_tokens`; in both cases the layer is as before.
#ifndef QUIRE_GPUWORKER_MODEL_DENSE_CACHE_H_
#define QUIRE_GPUWORKER_MODEL_DENSE_CACHE_H_

#include <cstdint>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/decoder.h"
#include "quire/status.h"

namespace quire::worker {

class DenseCache final : public AttentionBackend {
 public:
  /// For a model of `config`; holds at most `max_tokens` tokens.
  DenseCache(const ModelConfig& config, Device* device, uint64_t max_tokens);

  Status Attend(const LayerStep& step) override;

  /// Tokens that every layer holds.
  uint64_t length() const;
  /// Forgets all tokens from `tokens` on, to continue from there with others. FAILED_PRECONDITION
  /// when there are fewer.
  Status Truncate(uint64_t tokens);

  /// Rotated keys and values of a layer, [length][n_kv][d] on the device; until the next Attend.
  /// Latent attention has no values apart from keys.
  const float* keys(uint32_t layer) const { return layers_[layer].keys.as<float>(); }
  const float* values(uint32_t layer) const { return layers_[layer].values.as<float>(); }

 private:
  struct Layer {
    DeviceBuffer keys;    ///< [capacity][n_kv][d]
    DeviceBuffer values;  ///< [capacity][n_kv][d]; no memory in latent attention
    uint64_t tokens = 0;
    uint64_t capacity = 0;
  };
  /// Room for `tokens` tokens in the layer.
  Status Reserve(Layer& layer, uint64_t tokens);
  StatusOr<DeviceBuffer> Moved(const DeviceBuffer& from, uint64_t tokens, uint64_t capacity);

  Device* const device_;
  const uint32_t num_query_heads_;
  const uint32_t num_kv_heads_;
  const uint32_t head_dim_;
  const uint32_t value_dim_;
  const bool has_values_;
  std::vector<uint32_t> windows_;  ///< ModelConfig::Windows
  const float soft_cap_;           ///< GemmaConfig::attention_soft_cap
  const uint64_t max_tokens_;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_DENSE_CACHE_H_
