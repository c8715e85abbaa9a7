// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/window_config.h"

#include <algorithm>
#include <optional>

#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostTokens = 1 << 30;
constexpr uint32_t kMostLayers = 1 << 20;

/// Which layers slide where the file does not list layer types.
enum class Rule : uint8_t {
  kNever,      ///< None; transformers ignores the field.
  kAlways,     ///< All layers, unless sliding_window is null.
  kTopLayers,  ///< Those from max_window_layers on, when use_sliding_window is true.
  kWhenUsed,   ///< All layers, when use_sliding_window is true.
  kPattern,    ///< All but every second layer, or every sliding_window_pattern-th.
};

struct WindowRule {
  Rule rule;
  bool listed;  ///< layer_types decides, where it is given.
  /// Tokens where sliding_window is not given; 0: no window then.
  uint32_t absent_window;
};

WindowRule RuleOf(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
    case Architecture::kDeepseekV2:
    case Architecture::kDeepseekV3:
      return {Rule::kNever, true, 0};
    case Architecture::kMistral:
      return {Rule::kAlways, false, 4096};
    case Architecture::kMixtral:
    case Architecture::kPhi3:
      return {Rule::kAlways, false, 0};
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      return {Rule::kPattern, true, 4096};
    case Architecture::kQwen3Moe:
      return {Rule::kWhenUsed, false, 4096};
    case Architecture::kQwen2:
    case Architecture::kQwen3:
      return {Rule::kTopLayers, true, 4096};
  }
  return {Rule::kNever, false, 0};
}

class WindowParser {
 public:
  WindowParser(const JsonFields& fields, const WindowShape& shape)
      : fields_(fields), shape_(shape), rule_(RuleOf(shape.architecture)) {}

  StatusOr<LayerWindows> Parse() {
    QUIRE_RETURN_IF_ERROR(ReadFields());
    QUIRE_ASSIGN_OR_RETURN(const std::vector<bool> listed, ReadLayerTypes());
    QUIRE_RETURN_IF_ERROR(CheckListed(listed));
    LayerWindows out;
    out.slides = !listed.empty() && rule_.listed ? listed : SlidingByRule();
    if (std::ranges::find(out.slides, true) != out.slides.end()) out.window = window_;
    if (rule_.rule == Rule::kNever && out.window > 0 && out.window < shape_.max_positions) {
      return fields_.Error("sliding_window", "is ", out.window,
                           ", smaller than max_position_embeddings ", shape_.max_positions,
                           ", but the layers of a ", Name(shape_.architecture),
                           " attend to everything; set sliding_window to null, or lower "
                           "max_position_embeddings to ",
                           out.window);
    }
    return out;
  }

 private:
  Status ReadFields() {
    const bool off = fields_.Given("sliding_window") && !fields_.Has("sliding_window");
    QUIRE_ASSIGN_OR_RETURN(
        window_, fields_.UInt("sliding_window", 1, kMostTokens, off ? 0 : rule_.absent_window));
    const bool needs_yes = rule_.rule == Rule::kTopLayers || rule_.rule == Rule::kWhenUsed;
    QUIRE_ASSIGN_OR_RETURN(const bool used, fields_.Bool("use_sliding_window", !needs_yes));
    QUIRE_ASSIGN_OR_RETURN(full_layers_, fields_.UInt("max_window_layers", 0, kMostLayers, 28));
    if (!used) window_ = 0;
    return rule_.rule == Rule::kPattern ? ReadPattern() : OkStatus();
  }

  Status ReadPattern() {
    if (window_ == 0) return fields_.Error("sliding_window", "is null, and some layers slide");
    pattern_ = 2;
    if (shape_.architecture != Architecture::kGemma3) return OkStatus();
    // transformers 5 writes the second name, and layer_types beside it.
    QUIRE_ASSIGN_OR_RETURN(const uint32_t newer,
                           fields_.UInt("_sliding_window_pattern", 1, kMostLayers, 6));
    QUIRE_ASSIGN_OR_RETURN(pattern_, fields_.UInt("sliding_window_pattern", 1, kMostLayers, newer));
    return OkStatus();
  }

  /// Tells which layers slide by their types; empty where the file does not say.
  StatusOr<std::vector<bool>> ReadLayerTypes() const {
    const char* const field = "layer_types";
    std::vector<bool> slides;
    const nlohmann::json* const types = fields_.Find(field);
    if (types == nullptr) return slides;
    if (!types->is_array() || types->size() != shape_.num_layers) {
      return fields_.Error(field, "must list one type for each of the ", shape_.num_layers,
                           " layers");
    }
    for (const nlohmann::json& type : *types) {
      if (type != kFullAttention && type != kSlidingAttention) {
        return fields_.Error(field, "has ", type.dump(), "; ", kFullAttention, " and ",
                             kSlidingAttention, " are known");
      }
      slides.push_back(type == kSlidingAttention);
    }
    return slides;
  }

  /// Refuses sliding layers that have no window, or that are not computed.
  Status CheckListed(const std::vector<bool>& listed) const {
    const auto any = [&](bool slides) { return std::ranges::find(listed, slides) != listed.end(); };
    if (!any(true)) return OkStatus();
    if (window_ == 0) {
      return fields_.Error("layer_types", "has ", kSlidingAttention,
                           ", but there is no sliding_window; give it, with use_sliding_window "
                           "where the model has that field, or list ",
                           kFullAttention);
    }
    if (rule_.listed || !any(false)) return OkStatus();
    return fields_.Error("layer_types", "has ", kSlidingAttention, " and ", kFullAttention,
                         ", but the layers of a ", Name(shape_.architecture), " are all alike");
  }

  std::vector<bool> SlidingByRule() const {
    std::vector<bool> slides(shape_.num_layers, false);
    for (uint32_t layer = 0; window_ > 0 && layer < shape_.num_layers; ++layer) {
      slides[layer] = rule_.rule == Rule::kTopLayers ? layer >= full_layers_
                      : rule_.rule == Rule::kPattern ? (layer + 1) % pattern_ != 0
                                                     : true;
    }
    return slides;
  }

  const JsonFields& fields_;
  const WindowShape& shape_;
  const WindowRule rule_;
  uint32_t window_ = 0;  ///< 0: none.
  uint32_t full_layers_ = 0;
  uint32_t pattern_ = 1;
};

}  // namespace

StatusOr<LayerWindows> ParseWindows(const JsonFields& config, const WindowShape& shape) {
  return WindowParser(config, shape).Parse();
}

}  // namespace quire::worker
