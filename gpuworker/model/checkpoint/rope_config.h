// SPDX-License-Identifier: Apache-2.0
//
// Reads the RoPE part of a config.json, in the spellings that Hugging Face has used:
//   "rope_theta": t, "rope_scaling": {"rope_type" or "type": ..., ...}
//   "rope_parameters": {"rope_theta": t, "rope_type": ..., ...}
//   "rope_parameters": {"full_attention": {"rope_theta": t, ...}, "sliding_attention": {...}}
// A file may have several; what they say is taken together, and refused where it differs.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_ROPE_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_ROPE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class JsonFields;

/// Shapes that the RoPE parameters refer to.
struct RopeShape {
  uint32_t head_dim = 0;
  uint32_t max_positions = 0;
  double default_theta = 10000.0;  ///< For a file without rope_theta.
  /// Kinds of attention that the layers have, each once: those that nested parameters are read for.
  std::vector<std::string> layer_types = {"full_attention"};
};

/// `config` reads the top level of the config file called `name`. INVALID_ARGUMENT names the field.
///
/// Keys are stored with their rotation and read by sequences of any length, so a checkpoint has one
/// rotation for each position, whatever the length. The two schemes that follow the length are read
/// for the model's whole context:
///   longrope  the long factors when max_positions is above the original context, otherwise the
///             short ones. transformers takes the short ones for sequences within the original
///             context, so those differ from it; sequences beyond it do not.
///   dynamic   no stretch, as in transformers up to max_positions, where the context ends. The base
///             that grows beyond it is never computed.
/// A partial_rotary_factor says how many of a head's leading channels are rotated, an even number
/// of them. YaRN with truncate false differs from kYarn only by a factor for each pair. It is read
/// as RopeScaling::kLongRope with those factors. Parameters by layer type are read where those of
/// all types that the layers have are the same: all layers are rotated by one table.
StatusOr<RopeSpec> ParseRope(const JsonFields& config, const std::string& name,
                             const RopeShape& shape);

/// YaRN's factor of both queries and keys in the scores of DeepSeek models, from mscale_all_dim; 1
/// without. For a file that ParseRope accepts. It is beside the rotation's attention_factor.
StatusOr<double> ParseScoreMagnitude(const JsonFields& config, const std::string& name);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_ROPE_CONFIG_H_
