// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/gemma_config.h"

#include <algorithm>
#include <cmath>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/window_config.h"

namespace quire::worker {
namespace {

constexpr double kMostCap = 1e6;
constexpr double kMostTheta = 1e15;
constexpr double kLocalTheta = 10000.0;

/// A cap: 0 where it is null, `absent` where it is not there.
StatusOr<double> ReadCap(const JsonFields& fields, const char* field, double absent) {
  if (fields.Given(field) && !fields.Has(field)) return 0.0;
  if (!fields.Has(field)) return absent;
  return fields.Number(field, 1e-3, kMostCap);
}

/// True if the file has parameters of the rotation by layer type.
bool IsByLayerType(const JsonFields& fields) {
  const nlohmann::json* const rope = fields.Find("rope_parameters");
  return rope != nullptr && rope->is_object() && rope->contains(kSlidingAttention);
}

/// The rotation of Gemma 3's sliding layers. Older files have its base alone, and stretch nothing.
StatusOr<RopeSpec> ParseLocalRope(const JsonFields& fields, const std::string& name,
                                  RopeShape shape) {
  QUIRE_ASSIGN_OR_RETURN(shape.default_theta,
                         fields.Number("rope_local_base_freq", 1.001, kMostTheta, kLocalTheta));
  shape.layer_types = {kSlidingAttention};
  if (IsByLayerType(fields)) return ParseRope(fields, name, shape);
  return RopeSpec{.rotary_dim = shape.head_dim, .theta = shape.default_theta};
}

}  // namespace

StatusOr<GemmaConfig> ParseGemma(const JsonFields& config, const std::string& name,
                                 Architecture architecture, const RopeShape& shape) {
  if (!IsGemma(architecture)) return GemmaConfig{};
  const bool second = architecture == Architecture::kGemma2;
  GemmaConfig gemma;
  QUIRE_ASSIGN_OR_RETURN(gemma.attention_soft_cap,
                         ReadCap(config, "attn_logit_softcapping", second ? 50 : 0));
  QUIRE_ASSIGN_OR_RETURN(gemma.logit_soft_cap,
                         ReadCap(config, "final_logit_softcapping", second ? 30 : 0));
  QUIRE_ASSIGN_OR_RETURN(const double scalar,
                         config.Number("query_pre_attn_scalar", 1e-3, kMostCap, 256.0));
  gemma.query_scale = std::sqrt(shape.head_dim / scalar);
  QUIRE_ASSIGN_OR_RETURN(const bool both, config.Bool("use_bidirectional_attention", false));
  if (both) return config.Error("use_bidirectional_attention", "is true, which is not computed");
  const auto& types = shape.layer_types;
  const bool slides = std::ranges::find(types, kSlidingAttention) != types.end();
  if (second || !slides) return gemma;
  QUIRE_ASSIGN_OR_RETURN(gemma.local_rope, ParseLocalRope(config, name, shape));
  return gemma;
}

}  // namespace quire::worker
