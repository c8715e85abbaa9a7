// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/rope_config.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/json/json.h"
#include "common/page/rope_rotation.h"

namespace quire::worker {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxContext = 1 << 30;
/// Says of a YaRN model that it was trained further.
constexpr std::string_view kHarmlessScaling[] = {"finetuned"};

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
    QUIRE_ASSIGN_OR_RETURN(const std::string type, scaling_.String("rope_type", "default"));
    QUIRE_RETURN_IF_ERROR(ReadScaling(type));
    QUIRE_RETURN_IF_ERROR(scaling_.CheckAllRead(kHarmlessScaling));
    return rope_;
  }

 private:
  /// A number that stands at the top level, in the rotation's object, or in both alike.
  StatusOr<double> Number(const char* field, double low, double high, double absent) const {
    QUIRE_ASSIGN_OR_RETURN(const double outer, config_.Number(field, low, high, absent));
    QUIRE_ASSIGN_OR_RETURN(const double inner, scaling_.Number(field, low, high, outer));
    if (!config_.Has(field) || inner == outer) return inner;
    return scaling_.Error(field, "is ", inner, ", but ", outer, " at the top level of the file");
  }

  Status ReadRotaryDim() {
    const char* const field = "partial_rotary_factor";
    QUIRE_ASSIGN_OR_RETURN(const double part, Number(field, 0, 1, 1.0));
    rope_.rotary_dim = static_cast<uint32_t>(shape_.head_dim * part);
    if (rope_.rotary_dim == 0 || rope_.rotary_dim % 2 != 0) {
      return (scaling_.Has(field) ? scaling_ : config_)
          .Error(field, "is ", part, ", so that ", rope_.rotary_dim, " of the ", shape_.head_dim,
                 " channels of a head are rotated; it must be an even number above 0");
    }
    return OkStatus();
  }

  Status ReadTheta() {
    QUIRE_ASSIGN_OR_RETURN(rope_.theta, Number("rope_theta", 1, kMaxTheta, shape_.default_theta));
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
    QUIRE_ASSIGN_OR_RETURN(rope_.original_context,
                           Number(field, 2, kMaxContext, shape_.max_positions));
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
    const char* const used = stretch > 1.0 ? "long_factor" : "short_factor";
    const char* const other = stretch > 1.0 ? "short_factor" : "long_factor";
    if (scaling_.Has(other)) QUIRE_RETURN_IF_ERROR(PairFactors(other).status());
    QUIRE_ASSIGN_OR_RETURN(rope_.pair_factors, PairFactors(used));
    return OkStatus();
  }

  StatusOr<std::vector<double>> PairFactors(const char* field) const {
    const nlohmann::json* const list = scaling_.Find(field);
    const size_t wanted = rope_.rotary_dim / 2;
    if (list == nullptr) return scaling_.Error(field, "is missing");
    if (!list->is_array() || list->size() != wanted) {
      return scaling_.Error(field, "must be a list of ", wanted,
                            " numbers, one for each pair of channels that is rotated");
    }
    std::vector<double> factors;
    for (const nlohmann::json& factor : *list) {
      if (!factor.is_number() || !(factor.get<double>() >= 1e-6) ||
          factor.get<double>() > kMaxFactor) {
        return scaling_.Error(field, "has ", factor.dump(), ", must be within 1e-06..", kMaxFactor);
      }
      factors.push_back(factor.get<double>());
    }
    return factors;
  }

  const JsonFields& config_;
  const JsonFields& scaling_;
  const RopeShape shape_;
  RopeSpec rope_;
};

/// The rotation's parameters of the layers that there are, when `object` has them by layer type;
/// otherwise `object` itself.
StatusOr<nlohmann::json> ForLayers(const JsonFields& config, const char* field,
                                   const nlohmann::json& object, const RopeShape& shape) {
  const auto is_object = [](const nlohmann::json& value) { return value.is_object(); };
  if (std::ranges::none_of(object, is_object)) return object;
  if (!std::ranges::all_of(object, is_object)) {
    return config.Error(field,
                        "has parameters of layer types beside others; give one or the other");
  }
  const std::string& first = shape.layer_types.front();
  for (const std::string& type : shape.layer_types) {
    if (!object.contains(type))
      return config.Error(field, "has no parameters of ", type, " layers");
    if (object[type] == object[first]) continue;
    return config.Error(field, "differs between ", first, " and ", type,
                        " layers; models are computed whose layers are all rotated alike");
  }
  return object[first];
}

/// Adds what `from` says to `*all`, older names as newer ones.
Status Join(const JsonFields& config, const char* field, const nlohmann::json& from,
            nlohmann::json* all) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_null()) continue;
    const std::string name = key == "type" ? "rope_type" : key;
    const nlohmann::json meaning = value == "su" ? nlohmann::json("longrope") : value;
    const auto [known, added] = all->emplace(name, meaning);
    if (added || *known == meaning) continue;
    return config.Error(field, "says ", key, " ", value.dump(), ", which contradicts ",
                        known->dump(), " elsewhere in this file; take the wrong one out");
  }
  return OkStatus();
}

}  // namespace

StatusOr<RopeSpec> ParseRope(const JsonFields& config, const std::string& name,
                             const RopeShape& shape) {
  nlohmann::json all = nlohmann::json::object();
  std::string used;
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* value = config.Find(field);
    if (value == nullptr) continue;
    if (!value->is_object()) return config.Error(field, "must be an object");
    QUIRE_ASSIGN_OR_RETURN(const nlohmann::json object, ForLayers(config, field, *value, shape));
    QUIRE_RETURN_IF_ERROR(Join(config, field, object, &all));
    if (!object.empty()) used += (used.empty() ? "" : " and ") + std::string(field);
  }
  const JsonFields scaling(all, name + ": " + (used.empty() ? "rope_parameters" : used));
  return RopeParser(config, scaling, shape).Parse();
}

StatusOr<double> ParseScoreMagnitude(const JsonFields& config, const std::string& name) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* const value = config.Find(field);
    if (value == nullptr || !value->is_object() || !value->contains("mscale_all_dim")) continue;
    const JsonFields scaling(*value, name + ": " + field);
    QUIRE_ASSIGN_OR_RETURN(const double all, scaling.Number("mscale_all_dim", 0, kMaxFactor, 0.0));
    QUIRE_ASSIGN_OR_RETURN(const double factor, scaling.Number("factor", 1, kMaxFactor, 1.0));
    return Magnitude(factor, all);
  }
  return 1.0;
}

}  // namespace quire::worker
