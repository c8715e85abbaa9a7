// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/latent_config.h"

#include <cmath>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/rope_config.h"
#include "quire/kv_spec.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMaxDim = KvSpecLimits::kMaxHeadDim;
constexpr uint32_t kMaxLayers = KvSpecLimits::kMaxLayers;

/// Fields of routed experts, which no layer of an accepted model has.
constexpr const char* kExpertFields[] = {"aux_loss_alpha",
                                         "ep_size",
                                         "moe_intermediate_size",
                                         "moe_layer_freq",
                                         "n_group",
                                         "n_routed_experts",
                                         "n_shared_experts",
                                         "norm_topk_prob",
                                         "num_experts_per_tok",
                                         "output_router_logits",
                                         "routed_scaling_factor",
                                         "scoring_func",
                                         "seq_aux",
                                         "topk_group",
                                         "topk_method"};
/// Layers that predict further tokens (MTP). They come after the model's own, and their tensors are
/// refused where a checkpoint has them.
constexpr const char* kFurtherTokens[] = {"num_mtp_layers", "num_nextn_predict_layers"};

Status CheckNoExperts(const JsonFields& config, uint32_t num_layers) {
  const char* const field = "first_k_dense_replace";
  QUIRE_ASSIGN_OR_RETURN(const uint32_t dense, config.UInt(field, 0, kMaxLayers, 0));
  for (const char* expert : kExpertFields) (void)config.Find(expert);
  for (const char* further : kFurtherTokens) (void)config.Find(further);
  if (dense >= num_layers) return OkStatus();
  return config.Error(field, "is ", dense, ", so that layers ", dense, " to ", num_layers - 1,
                      " have routed experts, which are not computed in DeepSeek models; models "
                      "are whose layers are all dense: first_k_dense_replace ",
                      num_layers);
}

/// Every head reads the same latents, so a config that has fewer KV heads means something else.
Status CheckHeads(const JsonFields& config, uint32_t num_heads) {
  const char* const field = "num_key_value_heads";
  QUIRE_ASSIGN_OR_RETURN(const uint32_t heads,
                         config.UInt(field, 1, KvSpecLimits::kMaxHeads, num_heads));
  if (heads == num_heads) return OkStatus();
  return config.Error(field, "is ", heads, ", must be num_attention_heads ", num_heads,
                      ": the heads of latent attention share all they cache");
}

/// Dimensions that transformers writes besides those that they follow from.
Status CheckDerived(const JsonFields& config, const LatentShape& shape) {
  const std::pair<const char*, uint32_t> derived[] = {{"head_dim", shape.rope_dim},
                                                      {"qk_head_dim", shape.query_dim()}};
  for (const auto& [field, wanted] : derived) {
    QUIRE_ASSIGN_OR_RETURN(const uint32_t given, config.UInt(field, 1, 2 * kMaxDim, wanted));
    if (given == wanted) continue;
    return config.Error(field, "is ", given, ", must be ", wanted,
                        " by qk_rope_head_dim and qk_nope_head_dim");
  }
  return OkStatus();
}

}  // namespace

StatusOr<LatentShape> ParseLatentShape(const JsonFields& config, const std::string& name,
                                       uint32_t num_layers, uint32_t num_heads) {
  QUIRE_RETURN_IF_ERROR(CheckNoExperts(config, num_layers));
  QUIRE_RETURN_IF_ERROR(CheckHeads(config, num_heads));
  LatentShape shape;
  const bool no_query_latent = config.Given("q_lora_rank") && !config.Has("q_lora_rank");
  if (!no_query_latent) {
    QUIRE_ASSIGN_OR_RETURN(shape.query_rank, config.UInt("q_lora_rank", 1, 1 << 20, 1536));
  }
  QUIRE_ASSIGN_OR_RETURN(shape.latent_dim, config.UInt("kv_lora_rank", 1, kMaxDim, 512));
  QUIRE_ASSIGN_OR_RETURN(shape.rope_dim, config.UInt("qk_rope_head_dim", 2, kMaxDim, 64));
  QUIRE_ASSIGN_OR_RETURN(shape.nope_dim, config.UInt("qk_nope_head_dim", 1, kMaxDim, 128));
  QUIRE_ASSIGN_OR_RETURN(shape.value_dim, config.UInt("v_head_dim", 1, kMaxDim, 128));
  if (shape.rope_dim % 2 != 0) {
    return config.Error("qk_rope_head_dim", "is ", shape.rope_dim, ", must be even");
  }
  QUIRE_RETURN_IF_ERROR(CheckDerived(config, shape));
  QUIRE_ASSIGN_OR_RETURN(const double magnitude, ParseScoreMagnitude(config, name));
  shape.score_scale = magnitude * magnitude / std::sqrt(static_cast<double>(shape.query_dim()));
  return shape;
}

}  // namespace quire::worker
