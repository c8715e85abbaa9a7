// SPDX-License-Identifier: Apache-2.0
//
// LatentShape: the shape of multi-head latent attention (MLA, DeepSeek-V2 and V3), read from a
// config.json. One latent a token stands for the keys and values of all heads. Behind it are
// channels that are rotated, also shared by all heads.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_LATENT_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_LATENT_CONFIG_H_

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::worker {

class JsonFields;

struct LatentShape {
  uint32_t query_rank = 0;   ///< Width of the queries' own latents; 0: there are none.
  uint32_t latent_dim = 0;   ///< Channels of a latent (kv_lora_rank).
  uint32_t rope_dim = 0;     ///< Rotated channels of a key, and of each head's query; even.
  uint32_t nope_dim = 0;     ///< Other channels of a head's key before they are in the latent.
  uint32_t value_dim = 0;    ///< Channels of a head's value.
  double score_scale = 1.0;  ///< Factor of q.k before the softmax, of heads as they were trained.

  /// Channels of a row that is cached: the latent, then the rotated ones.
  uint32_t row_dim() const { return latent_dim + rope_dim; }
  /// Channels of a head's query before it is turned to the latent's space.
  uint32_t query_dim() const { return nope_dim + rope_dim; }
};

/// Epsilon of the norms of latents, which no config names.
inline constexpr double kLatentNormEps = 1e-6;

/// Shape of a DeepSeek model. `config` reads the top level of the file called `name`.
/// INVALID_ARGUMENT names the field, also for layers with routed experts, which are not computed.
StatusOr<LatentShape> ParseLatentShape(const JsonFields& config, const std::string& name,
                                       uint32_t num_layers, uint32_t num_heads);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_LATENT_CONFIG_H_
