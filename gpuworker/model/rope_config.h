// SPDX-License-Identifier: Apache-2.0
//
// Reads the RoPE part of a config.json, in both spellings that Hugging Face has used:
//   "rope_theta": t, "rope_scaling": {"rope_type" or "type": ..., ...}
//   "rope_parameters": {"rope_theta": t, "rope_type": ..., ...}
#ifndef QUIRE_GPUWORKER_MODEL_ROPE_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_ROPE_CONFIG_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "gpuworker/model/json.h"

namespace quire::worker {

/// Shapes that the RoPE parameters refer to.
struct RopeShape {
  uint32_t head_dim = 0;
  uint32_t max_positions = 0;
};

/// `config` reads the top level of the config file called `name`. INVALID_ARGUMENT names the field.
/// Stored keys must not change with the length, so the two schemes that follow it are read for the
/// model's whole context: dynamic, which begins to stretch beyond max_positions, is none, and
/// longrope takes the long factors when the context is longer than the original one, and otherwise
/// the short ones.
StatusOr<RopeSpec> ParseRope(const JsonFields& config, const std::string& name,
                             const RopeShape& shape);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_ROPE_CONFIG_H_
