// SPDX-License-Identifier: Apache-2.0
//
// ModelConfig: the shape of a decoder, read from a Hugging Face config.json. Absent fields have
// Hugging Face's defaults. Refused are models that the decoder cannot compute exactly: other
// architectures (architecture.h) and quantised weights. Every field of the file is read, is on the
// list of harmless fields, or is refused by name. Fields that contradict each other are refused
// too. RoPE that depends on the length is read for the whole context (rope_config.h).
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/model/checkpoint/architecture.h"
#include "gpuworker/model/checkpoint/experts_config.h"
#include "gpuworker/model/checkpoint/gemma_config.h"
#include "gpuworker/model/checkpoint/latent_config.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::string model_name = {};     ///< Last part of _name_or_path; empty when that is not given.
  uint32_t hidden_size = 0;        ///< Width of the residual stream (h).
  uint32_t intermediate_size = 0;  ///< Width of the feed-forward block.
  uint32_t num_layers = 0;         ///< L
  uint32_t num_query_heads = 0;    ///< n_q, a multiple of num_kv_heads
  uint32_t num_kv_heads = 0;       ///< n_kv; 1 for latent attention
  /// Channels of a query and of a key as attention reads them (d), even. Those of a cached row for
  /// latent attention.
  uint32_t head_dim = 0;
  uint32_t vocab_size = 0;
  uint32_t max_positions = 0;  ///< Context: positions 0 .. max_positions-1 are computed.
  double rms_norm_eps = 1e-6;
  bool qkv_bias = false;         ///< q_proj, k_proj and v_proj have biases.
  bool output_bias = false;      ///< o_proj has a bias.
  bool mlp_bias = false;         ///< gate_proj, up_proj and down_proj have biases.
  bool qk_norm = false;          ///< RMSNorm over each head of q and k before RoPE.
  bool tied_embeddings = false;  ///< The output projection is the embedding table.
  std::string dtype = {};  ///< Type of the weights, "bfloat16" for example; empty when not given.
  std::optional<TokenId> bos_id = {};
  std::vector<TokenId> eos_ids = {};       ///< Any of them ends a sequence.
  std::optional<LatentShape> latent = {};  ///< For latent attention (MLA).
  /// Rotation of layers that do not slide. Complete: attention_factor is resolved.
  RopeSpec rope = {};
  /// [num_layers], or empty: layers that see only the last `window` tokens, the own one counted.
  std::vector<bool> slides = {};
  uint32_t window = 0;
  ExpertsConfig experts = {};
  GemmaConfig gemma = {};

  /// Gemma's: weights of norms are stored less one, blocks have norms behind them, embeddings are
  /// multiplied by sqrt(hidden_size), and the gate is GELU.
  bool is_gemma() const { return IsGemma(architecture); }
  /// Tokens that a token sees in `layer`, itself counted; 0 for all of the context.
  uint32_t WindowOf(uint32_t layer) const {
    return layer < slides.size() && slides[layer] && window < max_positions ? window : 0;
  }
  /// WindowOf of each layer, [num_layers]; empty when every layer sees the whole context.
  std::vector<uint32_t> Windows() const;

  /// Channels of a value, and of attention's output for a head.
  uint32_t value_dim() const { return latent ? latent->latent_dim : head_dim; }
  /// First channel of a key that is rotated.
  uint32_t rotary_first() const { return latent ? latent->latent_dim : 0; }
};

/// Parses the text of a config.json. `name` starts every message. INVALID_ARGUMENT names the field
/// and says what would be accepted.
StatusOr<ModelConfig> ParseModelConfig(std::string_view text, const std::string& name);

/// Reads `path`. NOT_FOUND when it is not there.
StatusOr<ModelConfig> LoadModelConfig(const std::string& path);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_CONFIG_H_
