// SPDX-License-Identifier: Apache-2.0
//
// Reads the mixture of experts of a config.json: Mixtral, whose layers all have one, and Qwen3-MoE,
// where some have a plain feed-forward block. Other architectures have none, and no fields of it.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_EXPERTS_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_EXPERTS_CONFIG_H_

#include <cstdint>
#include <vector>

#include "gpuworker/model/checkpoint/architecture.h"
#include "quire/status.h"

namespace quire::worker {

class JsonFields;

/// Feed-forward blocks of which a router chooses some for each token.
struct ExpertsConfig {
  uint32_t num_experts = 0;        ///< Experts of each such layer (E); 0: no layer has any.
  uint32_t experts_per_token = 0;  ///< 1 .. E
  uint32_t intermediate_size = 0;  ///< Width of an expert.
  bool normalized = true;          ///< The weights of a token's experts add up to 1.
  std::vector<bool> layers = {};   ///< [num_layers], or empty: layers that have experts.

  bool Has(uint32_t layer) const { return layer < layers.size() && layers[layer]; }
};

/// INVALID_ARGUMENT names the field. `intermediate_size` is that of plain blocks.
StatusOr<ExpertsConfig> ParseExperts(const JsonFields& config, Architecture architecture,
                                     uint32_t num_layers, uint32_t intermediate_size);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_EXPERTS_CONFIG_H_
