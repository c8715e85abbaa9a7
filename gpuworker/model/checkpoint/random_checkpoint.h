// SPDX-License-Identifier: Apache-2.0
//
// WriteRandomCheckpoint: a checkpoint of random weights (config.json and model.safetensors),
// for tests and benchmarks that need a decoder of some shape and no particular answers. The same
// options make the same bytes.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_RANDOM_CHECKPOINT_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_RANDOM_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gpuworker/model/checkpoint/config.h"
#include "quire/status.h"

namespace quire::worker {

struct RandomCheckpoint {
  Architecture architecture = Architecture::kLlama;
  uint32_t num_layers = 0;
  uint32_t num_query_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t intermediate_size = 0;
  uint32_t vocab_size = 0;
  uint32_t max_positions = 0;
  /// Tokens that sliding layers see, 0 for none: all layers of a Mistral, and those of a Qwen from
  /// `full_layers` on.
  uint32_t sliding_window = 0;
  uint32_t full_layers = 0;
  uint32_t num_experts = 4;  ///< Experts of each layer of a Mixtral, which chooses two.
  LatentShape latent = {};  ///< For DeepSeek models, whose layers are all dense; num_kv_heads is 1.
  double rope_theta = 10000.0;
  /// Factor on the projections' standard deviation, 1 / sqrt(hidden_size). A larger gain makes
  /// attention peaked.
  float gain = 1;
  /// Length of an embedding's own part over the length of the part common to all. The cosine of two
  /// embeddings is about 1 / (1 + share^2). At 0 embeddings are independent.
  float own_share = 0;
  uint64_t seed = 1;

  uint32_t hidden_size() const { return num_query_heads * head_dim; }
};

/// A tensor of normal values around `mean`.
struct RandomTensor {
  std::string name;
  std::vector<uint64_t> shape;
  float mean = 0;
  float deviation = 0;
  float own_share = 0;  ///< Share of rows, as RandomCheckpoint's of embeddings.
};

/// Writes a file of safetensors in f32, with one tensor in memory at a time. UNAVAILABLE when it
/// cannot be written.
[[nodiscard]] Status WriteRandomTensors(const std::string& path,
                                        const std::vector<RandomTensor>& tensors, uint64_t seed);

/// Writes the checkpoint into `directory`, which is made. UNAVAILABLE when it cannot be written.
[[nodiscard]] Status WriteRandomCheckpoint(const std::string& directory,
                                           const RandomCheckpoint& checkpoint);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_RANDOM_CHECKPOINT_H_
