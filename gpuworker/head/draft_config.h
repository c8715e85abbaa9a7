// SPDX-License-Identifier: Apache-2.0
//
// DraftConfig: the shape of an EAGLE-3 draft, as far as a retrieval head is made of it, from the
// draft's config.json. Every other field describes parts that the head leaves out.
// Pure functions. Errors: INVALID_ARGUMENT naming the file and the field.
#ifndef QUIRE_GPUWORKER_HEAD_DRAFT_CONFIG_H_
#define QUIRE_GPUWORKER_HEAD_DRAFT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

/// Feature half of the head's input. The other half is the token's embedding.
enum class HeadMode : uint8_t {
  kEagle,      ///< Three hidden states of the model, of the token before, merged by fc.
  kEmbedOnly,  ///< Nothing: that half of the projections is left out.
  kTrained,    ///< Embeddings of the tokens before, as many as fc has columns for.
};
/// "eagle", "embed_only", "trained".
std::string_view Name(HeadMode mode);
std::vector<std::string_view> HeadModeNames();
/// nullopt for an unknown name.
std::optional<HeadMode> FindHeadMode(std::string_view name);

struct DraftConfig {
  uint32_t hidden_size = 0;      ///< Width of embeddings (h).
  uint32_t num_query_heads = 0;  ///< A multiple of num_kv_heads.
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;  ///< Channels of a head (d); h over the query heads if not given.
  uint32_t vocab_size = 0;
  uint32_t max_positions = 2048;  ///< Context of the draft.
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  /// Mode that the weights were trained for; eagle where the file does not say.
  HeadMode mode = HeadMode::kEagle;
};

StatusOr<DraftConfig> ParseDraftConfig(std::string_view text, const std::string& name);

/// Rotation of a head for sequences of up to `context` tokens. Beyond the draft's own context YaRN
/// stretches it, by their ratio s, with 32 and 1 rotations and attention factor 0.1 ln s + 1. It is
/// the same for all positions of a sequence.
RopeSpec DraftRope(const DraftConfig& config, uint64_t context);

/// Layers whose inputs are the hidden states of kEagle, in the order that fc takes them: a low, a
/// middle and a high one of `num_layers`. Models of fewer than seven layers, whose published ones
/// would coincide, have the ends of thirds.
std::vector<uint32_t> FeatureLayers(uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_HEAD_DRAFT_CONFIG_H_
