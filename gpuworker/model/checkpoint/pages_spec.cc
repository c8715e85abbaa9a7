// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/pages_spec.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "gpuworker/model/checkpoint/companions.h"

namespace quire::worker {
namespace {

/// Settings that only a Gemma has.
std::string GemmaSettings(const GemmaConfig& gemma) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), ";attention_cap=%.17g,logit_cap=%.17g,query_scale=%.17g",
                gemma.attention_soft_cap, gemma.logit_soft_cap, gemma.query_scale);
  std::string settings = text.data();
  if (!gemma.local_rope) return settings;
  const RopeSpec& r = *gemma.local_rope;
  std::vector<double> parts = {static_cast<double>(r.scaling),
                               static_cast<double>(r.rotary_dim),
                               r.theta,
                               r.factor,
                               r.low_freq_factor,
                               r.high_freq_factor,
                               r.original_context,
                               r.beta_fast,
                               r.beta_slow,
                               r.attention_factor};
  parts.insert(parts.end(), r.pair_factors.begin(), r.pair_factors.end());
  settings += ";local_rope=";
  for (const double part : parts) {
    std::snprintf(text.data(), text.size(), "%.17g,", part);
    settings += text.data();
  }
  return settings;
}

/// Settings besides the weights that change the numbers and that KvSpec has no field for. Those
/// that a model does not have are not in the text, so that its hash does not depend on them.
std::string NumericSettings(const ModelConfig& config) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "rms_norm_eps=%.17g", config.rms_norm_eps);
  std::string settings = text.data();
  const std::vector<uint32_t> windows = config.Windows();
  if (!windows.empty()) settings += ";windows=";
  for (const uint32_t window : windows) settings += std::to_string(window) + ",";
  if (config.is_gemma()) settings += GemmaSettings(config.gemma);
  if (config.experts.num_experts > 0) {
    settings += ";experts_per_token=" + std::to_string(config.experts.experts_per_token) +
                ",normalized=" + std::to_string(config.experts.normalized);
  }
  if (!config.latent) return settings;
  std::snprintf(text.data(), text.size(), ";score_scale=%.17g", config.latent->score_scale);
  return settings + text.data();
}

/// The config's name, else one that follows from the contents and is the same on every machine.
std::string ModelName(const ModelConfig& config, const WeightsHash& hash) {
  if (!config.model_name.empty()) return config.model_name;
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%02x%02x%02x%02x", hash[0], hash[1], hash[2],
                hash[3]);
  return std::string(Name(config.architecture)) + "-" + digits.data();
}

}  // namespace

WeightsHash HashOf(const Checkpoint& checkpoint, const ModelConfig& config) {
  return checkpoint.Hash(NumericSettings(config));
}

KvSpec SpecOfPages(const ModelConfig& c, const WeightsHash& hash, const PageForm& form) {
  KvSpec spec;
  spec.model = ModelName(c, hash);
  spec.weights_hash = hash;
  spec.attention = c.latent                              ? AttentionKind::kMla
                   : c.num_kv_heads == c.num_query_heads ? AttentionKind::kMha
                   : c.num_kv_heads == 1                 ? AttentionKind::kMqa
                                                         : AttentionKind::kGqa;
  spec.dtype = form.dtype;
  spec.num_layers = c.num_layers;
  spec.num_query_heads = c.num_query_heads;
  spec.num_kv_heads = c.num_kv_heads;
  if (c.latent) {
    spec.latent_dim = c.latent->latent_dim;
    spec.latent_rope_dim = c.latent->rope_dim;
  } else {
    spec.head_dim = c.head_dim;
  }
  spec.page_tokens = form.page_tokens;
  spec.segment_pages = form.segment_pages;
  spec.rope = c.rope;
  return spec;
}

StatusOr<KvSpec> ReadSpecOfPages(const std::string& directory, const PageForm& form) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(directory + "/config.json"));
  QUIRE_RETURN_IF_ERROR(ReadCompanions(directory, &config));
  QUIRE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  return SpecOfPages(config, HashOf(checkpoint, config), form);
}

}  // namespace quire::worker
