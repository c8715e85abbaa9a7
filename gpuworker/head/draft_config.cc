// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/draft_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostWidth = 1 << 20;
constexpr uint32_t kMostPositions = 1 << 30;
constexpr std::pair<HeadMode, std::string_view> kHeadModes[] = {
    {HeadMode::kEagle, "eagle"},
    {HeadMode::kEmbedOnly, "embed_only"},
    {HeadMode::kTrained, "trained"}};

Status ReadShape(const JsonFields& fields, DraftConfig* config) {
  QUIRE_ASSIGN_OR_RETURN(config->hidden_size, fields.UInt("hidden_size", 1, kMostWidth));
  QUIRE_ASSIGN_OR_RETURN(config->num_query_heads,
                         fields.UInt("num_attention_heads", 1, KvSpecLimits::kMaxHeads));
  QUIRE_ASSIGN_OR_RETURN(
      config->num_kv_heads,
      fields.UInt("num_key_value_heads", 1, KvSpecLimits::kMaxHeads, config->num_query_heads));
  if (config->num_query_heads % config->num_kv_heads != 0) {
    return fields.Error("num_key_value_heads", "is ", config->num_kv_heads,
                        ", which does not divide num_attention_heads ", config->num_query_heads);
  }
  QUIRE_ASSIGN_OR_RETURN(config->head_dim,
                         fields.UInt("head_dim", 2, KvSpecLimits::kMaxHeadDim,
                                     config->hidden_size / config->num_query_heads));
  if (config->head_dim < 2 || config->head_dim % 2 != 0) {
    return fields.Error("head_dim", "is ", config->head_dim, "; it must be even, and 2 or more");
  }
  return OkStatus();
}

}  // namespace

std::string_view Name(HeadMode mode) {
  for (const auto& [known, name] : kHeadModes) {
    if (known == mode) return name;
  }
  return "unknown";
}

std::vector<std::string_view> HeadModeNames() {
  std::vector<std::string_view> names;
  for (const auto& [mode, name] : kHeadModes) names.push_back(name);
  return names;
}

std::optional<HeadMode> FindHeadMode(std::string_view name) {
  for (const auto& [mode, known] : kHeadModes) {
    if (known == name) return mode;
  }
  return std::nullopt;
}

StatusOr<DraftConfig> ParseDraftConfig(std::string_view text, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, name));
  if (!json.is_object()) return InvalidArgument(name, ": is no JSON object");
  const JsonFields fields(json, name);
  DraftConfig config;
  QUIRE_RETURN_IF_ERROR(ReadShape(fields, &config));
  QUIRE_ASSIGN_OR_RETURN(config.vocab_size, fields.UInt("vocab_size", 1, 1u << 30));
  QUIRE_ASSIGN_OR_RETURN(config.max_positions, fields.UInt("max_position_embeddings", 1,
                                                           kMostPositions, config.max_positions));
  QUIRE_ASSIGN_OR_RETURN(config.rms_norm_eps,
                         fields.Number("rms_norm_eps", 0, 1, config.rms_norm_eps));
  QUIRE_ASSIGN_OR_RETURN(config.rope_theta,
                         fields.Number("rope_theta", 1.001, 1e15, config.rope_theta));
  QUIRE_ASSIGN_OR_RETURN(const std::string mode,
                         fields.String("retrieval_head_mode", Name(config.mode)));
  const auto known = FindHeadMode(mode);
  if (!known) {
    return fields.Error("retrieval_head_mode", "is ", mode,
                        "; it must be eagle, embed_only or trained");
  }
  config.mode = *known;
  return config;
}

RopeSpec DraftRope(const DraftConfig& config, uint64_t context) {
  RopeSpec rope{.rotary_dim = config.head_dim, .theta = config.rope_theta};
  const double stretch = static_cast<double>(context) / config.max_positions;
  if (stretch <= 1) return rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = stretch;
  rope.original_context = config.max_positions;
  rope.beta_fast = 32;
  rope.beta_slow = 1;
  rope.attention_factor = 0.1 * std::log(stretch) + 1;
  return rope;
}

std::vector<uint32_t> FeatureLayers(uint32_t num_layers) {
  const uint32_t last = num_layers - 1;
  if (num_layers < 7) return {(last + 2) / 3, (2 * last + 2) / 3, last};
  return {2, num_layers / 2, last - 2};
}

}  // namespace quire::worker
