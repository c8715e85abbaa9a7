// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/rope_config.h"

#include <cmath>

#include "common/page/rope_rotation.h"

namespace quire::worker {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxContext = 1 << 30;

/// The magnitude factor of YaRN (Peng et al., 2023) for a context stretched by `scale`.
double Magnitude(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

/// Fills a RopeSpec from the scaling object and the top level.
class RopeParser {
 public:
  RopeParser(const JsonFields& config, const JsonFields& scaling, const RopeShape& shape)
      : config_(config), scaling_(scaling), shape_(shape) {}

  StatusOr<RopeSpec> Parse() {
    QUIRE_RETURN_IF_ERROR(ReadRotaryDim());
    QUIRE_RETURN_IF_ERROR(ReadTheta());
    QUIRE_ASSIGN_OR_RETURN(const std::string old_type, scaling_.String("type", "default"));
    QUIRE_ASSIGN_OR_RETURN(const std::string type, scaling_.String("rope_type", old_type));
    QUIRE_RETURN_IF_ERROR(ReadScaling(type));
    return rope_;
  }

 private:
  Status ReadRotaryDim() {
    const char* const field = "partial_rotary_factor";
    QUIRE_ASSIGN_OR_RETURN(const double outer, config_.Number(field, 0, 1, 1.0));
    QUIRE_ASSIGN_OR_RETURN(const double part, scaling_.Number(field, 0, 1, outer));
    rope_.rotary_dim = static_cast<uint32_t>(shape_.head_dim * part);
    if (rope_.rotary_dim == 0 || rope_.rotary_dim % 2 != 0) {
      return (scaling_.Has(field) ? scaling_ : config_)
          .Error(field, "is ", part, ", so that ", rope_.rotary_dim, " of the ", shape_.head_dim,
                 " channels of a head are rotated; it must be an even number above 0");
    }
    return OkStatus();
  }

  Status ReadTheta() {
    QUIRE_ASSIGN_OR_RETURN(const double outer, config_.Number("rope_theta", 1, kMaxTheta, 10000.0));
    QUIRE_ASSIGN_OR_RETURN(rope_.theta, scaling_.Number("rope_theta", 1, kMaxTheta, outer));
    if (rope_.theta == 1.0) return scaling_.Error("rope_theta", "is 1, must be greater");
    return OkStatus();
  }

  Status ReadScaling(const std::string& type) {
    if (type == "default") return OkStatus();
    if (type == "dynamic") return ReadDynamic();
    if (type == "linear") return ReadLinear();
    if (type == "llama3") return ReadLlama3();
    if (type == "yarn") return ReadYarn();
    if (type == "longrope" || type == "su") return ReadLongRope();
    return scaling_.Error("rope_type", "is ", type,
                          ", must be default, linear, dynamic, llama3, yarn or longrope");
  }

  Status ReadFactor() {
    QUIRE_ASSIGN_OR_RETURN(rope_.factor, scaling_.Number("factor", 1, kMaxFactor));
    return OkStatus();
  }

  /// Tokens of context before the stretch: from the top level, the scaling object, or the context.
  Status ReadOriginalContext() {
    const char* const field = "original_max_position_embeddings";
    QUIRE_ASSIGN_OR_RETURN(const double inner,
                           scaling_.Number(field, 2, kMaxContext, shape_.max_positions));
    QUIRE_ASSIGN_OR_RETURN(rope_.original_context, config_.Number(field, 2, kMaxContext, inner));
    return OkStatus();
  }

  Status ReadLinear() {
    rope_.scaling = RopeScaling::kLinear;
    return ReadFactor();
  }

  /// The base grows with the length from max_positions on, which is where the context ends.
  Status ReadDynamic() {
    QUIRE_RETURN_IF_ERROR(ReadFactor());
    rope_.factor = 1.0;
    return OkStatus();
  }

  Status ReadLlama3() {
    rope_.scaling = RopeScaling::kLlama3;
    QUIRE_RETURN_IF_ERROR(ReadFactor());
    QUIRE_RETURN_IF_ERROR(ReadOriginalContext());
    QUIRE_ASSIGN_OR_RETURN(rope_.low_freq_factor,
                           scaling_.Number("low_freq_factor", 1e-6, kMaxFactor));
    QUIRE_ASSIGN_OR_RETURN(rope_.high_freq_factor,
                           scaling_.Number("high_freq_factor", 1e-6, kMaxFactor));
    if (rope_.high_freq_factor <= rope_.low_freq_factor) {
      return scaling_.Error("high_freq_factor", "is ", rope_.high_freq_factor,
                            ", must be greater than low_freq_factor ", rope_.low_freq_factor);
    }
    return OkStatus();
  }

  Status ReadYarn() {
    rope_.scaling = RopeScaling::kYarn;
    QUIRE_RETURN_IF_ERROR(ReadOriginalContext());
    QUIRE_RETURN_IF_ERROR(ReadFactor());
    QUIRE_ASSIGN_OR_RETURN(rope_.beta_fast, scaling_.Number("beta_fast", 1e-6, kMaxFactor, 32.0));
    QUIRE_ASSIGN_OR_RETURN(rope_.beta_slow, scaling_.Number("beta_slow", 1e-6, kMaxFactor, 1.0));
    QUIRE_RETURN_IF_ERROR(ReadYarnMagnitude());
    QUIRE_ASSIGN_OR_RETURN(const bool truncate, scaling_.Bool("truncate", true));
    if (!truncate) rope_ = ByPairFactors(rope_);
    return OkStatus();
  }

  /// YaRN whose ramp begins and ends between pairs, as factors of pairs.
  static RopeSpec ByPairFactors(const RopeSpec& yarn) {
    return {.scaling = RopeScaling::kLongRope,
            .rotary_dim = yarn.rotary_dim,
            .theta = yarn.theta,
            .attention_factor = yarn.attention_factor,
            .pair_factors = UntruncatedYarnFactors(yarn)};
  }

  Status ReadYarnMagnitude() {
    QUIRE_ASSIGN_OR_RETURN(const double mscale, scaling_.Number("mscale", 0, kMaxFactor, 0.0));
    QUIRE_ASSIGN_OR_RETURN(const double all, scaling_.Number("mscale_all_dim", 0, kMaxFactor, 0.0));
    const double suggested = mscale != 0 && all != 0
                                 ? Magnitude(rope_.factor, mscale) / Magnitude(rope_.factor, all)
                                 : Magnitude(rope_.factor, 1.0);
    QUIRE_ASSIGN_OR_RETURN(rope_.attention_factor,
                           scaling_.Number("attention_factor", 1e-6, kMaxFactor, suggested));
    return OkStatus();
  }

  /// LongRoPE (Ding et al., 2024). The stretch is that of the two contexts where the top level says
  /// the original one, as in transformers.
  Status ReadLongRope() {
    rope_.scaling = RopeScaling::kLongRope;
    QUIRE_RETURN_IF_ERROR(ReadOriginalContext());
    const double stretch = shape_.max_positions / rope_.original_context;
    const bool at_top = config_.Has("original_max_position_embeddings");
    QUIRE_ASSIGN_OR_RETURN(const double given,
                           scaling_.Number("factor", 1e-6, kMaxFactor, stretch));
    rope_.factor = at_top ? stretch : given;
    const double suggested =
        rope_.factor <= 1.0
            ? 1.0
            : std::sqrt(1.0 + std::log(rope_.factor) / std::log(rope_.original_context));
    QUIRE_ASSIGN_OR_RETURN(rope_.attention_factor,
                           scaling_.Number("attention_factor", 1e-6, kMaxFactor, suggested));
    return ReadPairFactors(stretch > 1.0 ? "long_factor" : "short_factor");
  }

  Status ReadPairFactors(const char* field) {
    const nlohmann::json* const list = scaling_.Find(field);
    const size_t wanted = rope_.rotary_dim / 2;
    if (list == nullptr) return scaling_.Error(field, "is missing");
    if (!list->is_array() || list->size() != wanted) {
      return scaling_.Error(field, "must be a list of ", wanted,
                            " numbers, one for each pair of channels that is rotated");
    }
    for (const nlohmann::json& factor : *list) {
      if (!factor.is_number() || !(factor.get<double>() >= 1e-6) ||
          factor.get<double>() > kMaxFactor) {
        return scaling_.Error(field, "has ", factor.dump(), ", must be within 1e-06..", kMaxFactor);
      }
      rope_.pair_factors.push_back(factor.get<double>());
    }
    return OkStatus();
  }

  const JsonFields& config_;
  const JsonFields& scaling_;
  const RopeShape shape_;
  RopeSpec rope_;
};

}  // namespace

StatusOr<RopeSpec> ParseRope(const JsonFields& config, const std::string& name,
                             const RopeShape& shape) {
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json* object = &none;
  const char* used = "rope_parameters";
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* value = config.Find(field);
    if (value == nullptr) continue;
    if (!value->is_object()) return config.Error(field, "must be an object");
    if (value->empty() || object != &none)
      continue;  // rope_scaling comes first, as in transformers.
    object = value;
    used = field;
  }
  const JsonFields scaling(*object, name + ": " + used);
  return RopeParser(config, scaling, shape).Parse();
}

}  // namespace quire::worker
