// SPDX-License-Identifier: Apache-2.0
//
// ModelSizes: what a memory plan has to know of a model. Known models by name, others from their
// config.json. Pure functions. Units: bytes.
#ifndef QUIRE_GPUWORKER_MEMORY_MODEL_SIZES_H_
#define QUIRE_GPUWORKER_MEMORY_MODEL_SIZES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/memory/memory_model.h"
#include "gpuworker/model/checkpoint/config.h"
#include "quire/dtype.h"
#include "quire/status.h"

namespace quire::worker {

struct ModelSizes {
  std::string name;
  uint64_t model_bytes = 0;  ///< Weights, as they are stored.
  uint64_t draft_bytes = 0;  ///< Weights of the retrieval head.
  uint32_t num_layers = 0;
  uint32_t num_query_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  bool has_values = true;      ///< False for latents, which are keys and values.
  uint64_t max_positions = 0;  ///< Context of the model.
};

/// Names that PresetSizes knows, sorted.
std::vector<std::string_view> PresetNames();
/// INVALID_ARGUMENT for an unknown name, listing the known ones.
StatusOr<ModelSizes> PresetSizes(std::string_view name);

/// Sizes from a config. Weights have the config's dtype, bfloat16 where it names none. The
/// retrieval head is what it keeps of an EAGLE-3 draft of this shape: projections of queries and
/// keys, [heads * d][2 h]; embeddings are the model's.
ModelSizes SizesOf(const ModelConfig& config, std::string name);

/// Options of a plan for the model with keys and values of type `dtype`. Device, requests and
/// budget are the caller's. Alpha is the number of query heads of a KV head, and 0 where each has
/// its own: nothing is repeated then.
MemoryModelOptions PlanOptions(const ModelSizes& sizes, DType dtype);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_MODEL_SIZES_H_
