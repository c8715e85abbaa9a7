// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/experts_config.h"

#include <algorithm>

#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostExperts = 1 << 16;
constexpr uint32_t kWidestExpert = 1 << 20;

/// Reads what training alone looks at.
Status ReadTraining(const JsonFields& fields) {
  QUIRE_RETURN_IF_ERROR(fields.Bool("output_router_logits", false).status());
  QUIRE_RETURN_IF_ERROR(fields.Number("router_aux_loss_coef", 0, 1e6, 0.0).status());
  return fields.Number("router_jitter_noise", 0, 1e6, 0.0).status();
}

Status ReadPerToken(const JsonFields& fields, uint32_t absent, ExpertsConfig* experts) {
  QUIRE_ASSIGN_OR_RETURN(experts->experts_per_token,
                         fields.UInt("num_experts_per_tok", 1, kMostExperts, absent));
  if (experts->experts_per_token <= experts->num_experts) return OkStatus();
  return fields.Error("num_experts_per_tok", "is ", experts->experts_per_token, ", more than the ",
                      experts->num_experts, " experts of a layer");
}

StatusOr<ExpertsConfig> ParseMixtral(const JsonFields& fields, uint32_t num_layers,
                                     uint32_t intermediate_size) {
  ExpertsConfig experts{.intermediate_size = intermediate_size,
                        .layers = std::vector<bool>(num_layers, true)};
  QUIRE_ASSIGN_OR_RETURN(experts.num_experts, fields.UInt("num_local_experts", 1, kMostExperts, 8));
  QUIRE_RETURN_IF_ERROR(ReadPerToken(fields, 2, &experts));
  return experts;
}

/// Layers of Qwen3-MoE that have experts: every decoder_sparse_step-th, but mlp_only_layers.
StatusOr<std::vector<bool>> ReadSparseLayers(const JsonFields& fields, uint32_t num_layers) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t step,
                         fields.UInt("decoder_sparse_step", 1, num_layers + 1, 1));
  std::vector<bool> layers(num_layers);
  for (uint32_t i = 0; i < num_layers; ++i) layers[i] = (i + 1) % step == 0;
  const char* const field = "mlp_only_layers";
  const nlohmann::json* const plain = fields.Find(field);
  if (plain == nullptr) return layers;
  if (!plain->is_array()) return fields.Error(field, "must be a list of layers");
  for (const nlohmann::json& layer : *plain) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() >= num_layers) {
      return fields.Error(field, "has ", layer.dump(), ", must be layers of 0..", num_layers - 1);
    }
    layers[layer.get<uint64_t>()] = false;
  }
  return layers;
}

StatusOr<ExpertsConfig> ParseQwen3Moe(const JsonFields& fields, uint32_t num_layers) {
  ExpertsConfig experts;
  // transformers 5 writes the name of Mixtral's field.
  QUIRE_ASSIGN_OR_RETURN(const uint32_t local,
                         fields.UInt("num_local_experts", 1, kMostExperts, 128));
  QUIRE_ASSIGN_OR_RETURN(experts.num_experts, fields.UInt("num_experts", 1, kMostExperts, local));
  if (fields.Has("num_local_experts") && local != experts.num_experts) {
    return fields.Error("num_experts", "is ", experts.num_experts, ", but num_local_experts is ",
                        local);
  }
  QUIRE_RETURN_IF_ERROR(ReadPerToken(fields, 8, &experts));
  QUIRE_ASSIGN_OR_RETURN(experts.intermediate_size,
                         fields.UInt("moe_intermediate_size", 1, kWidestExpert, 768));
  QUIRE_ASSIGN_OR_RETURN(experts.normalized, fields.Bool("norm_topk_prob", false));
  QUIRE_ASSIGN_OR_RETURN(experts.layers, ReadSparseLayers(fields, num_layers));
  if (std::ranges::find(experts.layers, true) == experts.layers.end()) experts = {};
  return experts;
}

}  // namespace

StatusOr<ExpertsConfig> ParseExperts(const JsonFields& config, Architecture architecture,
                                     uint32_t num_layers, uint32_t intermediate_size) {
  const bool mixtral = architecture == Architecture::kMixtral;
  if (!mixtral && architecture != Architecture::kQwen3Moe) return ExpertsConfig{};
  QUIRE_RETURN_IF_ERROR(ReadTraining(config));
  return mixtral ? ParseMixtral(config, num_layers, intermediate_size)
                 : ParseQwen3Moe(config, num_layers);
}

}  // namespace quire::worker
