// SPDX-License-Identifier: Apache-2.0
//
// Reads what the config.json of a Gemma 2 or Gemma 3 has of its own: soft caps, the factor of
// queries, and the rotation of sliding layers. Other architectures have none of these fields.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_GEMMA_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_GEMMA_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "gpuworker/model/checkpoint/architecture.h"
#include "gpuworker/model/checkpoint/rope_config.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class JsonFields;

inline bool IsGemma(Architecture architecture) {
  return architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3;
}

struct GemmaConfig {
  double attention_soft_cap = 0;  ///< Cap c > 0: scores s become c * tanh(s / c).
  double logit_soft_cap = 0;      ///< The same for logits.
  double query_scale = 1;         ///< Factor on queries beside 1 / sqrt(head_dim).
  /// Rotation of sliding layers, where it is not that of the others.
  std::optional<RopeSpec> local_rope = {};
};

/// Reads the file called `name`. INVALID_ARGUMENT names the field.
StatusOr<GemmaConfig> ParseGemma(const JsonFields& config, const std::string& name,
                                 Architecture architecture, const RopeShape& shape);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_GEMMA_CONFIG_H_
