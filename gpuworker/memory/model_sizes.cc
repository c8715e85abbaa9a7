// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/model_sizes.h"

#include <algorithm>
#include <utility>

namespace quire::worker {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Preset {
  std::string_view name;
  uint64_t model_bytes;
  uint64_t draft_bytes;
  uint32_t num_layers, num_query_heads, num_kv_heads, head_dim;
  uint64_t max_positions;
};

// Sorted by name. Weights of two bytes; the drafts' sizes are those that SpeContext says.
constexpr Preset kPresets[] = {
    {"llama-3.1-8b", 16'060'000'000, 60 * kMiB, 32, 32, 8, 128, 131072},
    {"llama-3.2-1b", 2'480'000'000, 30 * kMiB, 16, 32, 8, 64, 131072},
    {"qwen3-8b", 16'380'000'000, 60 * kMiB, 36, 32, 8, 128, 40960},
};

/// Weights of latent attention in a layer.
uint64_t LatentWeightCount(const ModelConfig& c) {
  const LatentShape& s = *c.latent;
  const uint64_t hidden = c.hidden_size, heads = c.num_query_heads, rank = s.query_rank;
  const uint64_t queries = heads * s.query_dim();
  uint64_t count = rank > 0 ? hidden * rank + rank + rank * queries : hidden * queries;
  count += hidden * s.row_dim() + s.latent_dim;
  count += heads * (s.nope_dim + s.value_dim) * s.latent_dim + hidden * heads * s.value_dim;
  return c.qkv_bias ? count + rank + s.row_dim() : count;
}

/// Weights of attention in a layer, but for the bias of its output.
uint64_t AttentionWeightCount(const ModelConfig& c) {
  if (c.latent) return LatentWeightCount(c);
  const uint64_t q = uint64_t{c.num_query_heads} * c.head_dim;
  const uint64_t kv = uint64_t{c.num_kv_heads} * c.head_dim;
  uint64_t count = c.hidden_size * (2 * q + 2 * kv);
  if (c.qkv_bias) count += q + 2 * kv;
  if (c.qk_norm) count += 2 * uint64_t{c.head_dim};
  return count;
}

uint64_t WeightCount(const ModelConfig& c) {
  const uint64_t hidden = c.hidden_size;
  const uint64_t wide = c.intermediate_size;
  const ExpertsConfig& e = c.experts;
  const auto with_experts = static_cast<uint64_t>(std::ranges::count(e.layers, true));
  const uint64_t experts = e.num_experts * hidden * (3 * uint64_t{e.intermediate_size} + 1);
  const uint64_t blocks =
      (c.num_layers - with_experts) * 3 * hidden * wide + with_experts * experts;
  uint64_t layer = AttentionWeightCount(c) + 2 * hidden;
  if (c.output_bias) layer += hidden;
  if (c.mlp_bias) layer += 2 * wide + hidden;
  if (c.is_gemma()) layer += 2 * hidden;
  const uint64_t tables = c.tied_embeddings ? 1 : 2;
  return c.num_layers * layer + blocks + tables * c.vocab_size * hidden + hidden;
}

}  // namespace

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

StatusOr<ModelSizes> PresetSizes(std::string_view name) {
  std::string known;
  for (const Preset& p : kPresets) {
    if (p.name == name) {
      return ModelSizes{.name = std::string(p.name),
                        .model_bytes = p.model_bytes,
                        .draft_bytes = p.draft_bytes,
                        .num_layers = p.num_layers,
                        .num_query_heads = p.num_query_heads,
                        .num_kv_heads = p.num_kv_heads,
                        .head_dim = p.head_dim,
                        .max_positions = p.max_positions};
    }
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  }
  return InvalidArgument("there are no sizes of a model '", name, "'; known are ", known);
}

ModelSizes SizesOf(const ModelConfig& config, std::string name) {
  const uint64_t element = config.dtype == "float32" ? 4 : 2;
  const uint64_t heads = uint64_t{config.num_query_heads} + config.num_kv_heads;
  return {.name = std::move(name),
          .model_bytes = WeightCount(config) * element,
          .draft_bytes = heads * config.head_dim * 2 * config.hidden_size * element,
          .num_layers = config.num_layers,
          .num_query_heads = config.num_query_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .has_values = !config.latent,
          .max_positions = config.max_positions};
}

MemoryModelOptions PlanOptions(const ModelSizes& sizes, DType dtype) {
  const uint64_t row = uint64_t{sizes.head_dim} * ElementBytes(dtype);
  const uint32_t group = sizes.num_query_heads / sizes.num_kv_heads;
  return {.model_bytes = sizes.model_bytes,
          .draft_bytes = sizes.draft_bytes,
          .num_layers = sizes.num_layers,
          .num_kv_heads = sizes.num_kv_heads,
          .key_bytes = row,
          .value_bytes = sizes.has_values ? row : 0,
          .repeated_heads = group > 1 ? group : 0};
}

}  // namespace quire::worker
