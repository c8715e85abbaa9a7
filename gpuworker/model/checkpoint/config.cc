// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/config.h"

#include <algorithm>
#include <utility>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/rope_config.h"
#include "gpuworker/model/checkpoint/window_config.h"

namespace quire::worker {
namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr uint32_t kMaxWidth = 1 << 20;
constexpr uint32_t kMaxVocab = 1 << 24;
constexpr uint32_t kMaxPositions = 1 << 30;
constexpr size_t kMaxEosIds = 64;

/// Fields that change nothing of what the model computes from its tokens.
constexpr std::string_view kHarmless[] = {
    // Notes of who wrote the file.
    "_commit_hash", "is_llama_config", "transformers.js_config", "transformers_version",
    "unsloth_fixed", "unsloth_version",
    // Training, and the drawing of weights that are read here instead.
    "attention_dropout", "initializer_range",
    // How others compute the same: caches, kernels, split products, what is handed out besides.
    "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled",
    "attn_implementation", "cache_implementation", "output_attentions", "output_hidden_states",
    "pretraining_tp", "return_dict", "torchscript", "use_bfloat16", "use_cache",
    // Padding of batches, which there is none of.
    "pad_token_id",
    // Classification heads.
    "finetuning_task", "id2label", "label2id", "num_labels", "problem_type",
    // How the next token is chosen, which every call says itself.
    "do_sample", "max_length", "max_new_tokens", "min_length", "num_beams", "num_return_sequences",
    "repetition_penalty", "temperature", "top_k", "top_p"};

/// Fields that stand for another computation when they are true.
constexpr const char* kMustBeFalse[] = {"add_cross_attention", "is_encoder_decoder",
                                        "rope_interleaved",    "rope_traditional",
                                        "tie_encoder_decoder", "use_mrope"};

/// Fills a ModelConfig; one method for each group of fields.
class ConfigParser {
 public:
  ConfigParser(const nlohmann::json& json, const std::string& name)
      : fields_(json, name), name_(name) {}

  StatusOr<ModelConfig> Parse() {
    QUIRE_RETURN_IF_ERROR(ReadArchitecture());
    QUIRE_RETURN_IF_ERROR(ReadName());
    QUIRE_RETURN_IF_ERROR(ReadSizes());
    QUIRE_RETURN_IF_ERROR(ReadHeads());
    QUIRE_RETURN_IF_ERROR(ReadBlocks());
    QUIRE_RETURN_IF_ERROR(ReadBiases());
    QUIRE_ASSIGN_OR_RETURN(out_.experts, ParseExperts(fields_, out_.architecture, out_.num_layers,
                                                      out_.intermediate_size));
    QUIRE_RETURN_IF_ERROR(ReadTokenIds());
    QUIRE_RETURN_IF_ERROR(ReadWindows());
    const RopeShape shape{.head_dim = out_.latent ? out_.latent->rope_dim : out_.head_dim,
                          .max_positions = out_.max_positions,
                          .default_theta = DefaultsOf(out_.architecture).rope_theta,
                          .layer_types = LayerTypes()};
    QUIRE_ASSIGN_OR_RETURN(out_.gemma, ParseGemma(fields_, name_, out_.architecture, shape));
    QUIRE_ASSIGN_OR_RETURN(out_.rope, ParseRope(fields_, name_, ShapeOfMainRope(shape)));
    QUIRE_RETURN_IF_ERROR(ReadPhi3());
    QUIRE_RETURN_IF_ERROR(ReadInterleaving());
    QUIRE_RETURN_IF_ERROR(CheckFixed());
    QUIRE_RETURN_IF_ERROR(fields_.CheckAllRead(kHarmless));
    return out_;
  }

 private:
  Status ReadArchitecture() {
    const char* const field = "architectures";
    const nlohmann::json* list = fields_.Find(field);
    if (list == nullptr || !list->is_array() || list->size() != 1 || !(*list)[0].is_string()) {
      return fields_.Error(field, "must be a list of one name");
    }
    const auto& given = (*list)[0].get_ref<const std::string&>();
    const std::optional<Architecture> known = FindArchitecture(given);
    if (!known) return fields_.Error(field, "is ", given, "; ", DescribeUnsupported(given));
    out_.architecture = *known;
    return CheckModelType();
  }

  Status CheckModelType() const {
    const std::string_view expected = ModelType(out_.architecture);
    QUIRE_ASSIGN_OR_RETURN(const std::string type, fields_.String("model_type", expected));
    if (type == expected) return OkStatus();
    return fields_.Error("model_type", "is ", type, ", but that of ", Name(out_.architecture),
                         " is ", expected, "; is architectures right?");
  }

  Status ReadName() {
    QUIRE_ASSIGN_OR_RETURN(std::string path, fields_.String("_name_or_path", ""));
    while (!path.empty() && path.back() == '/') path.pop_back();
    out_.model_name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0.
    if (out_.model_name.size() > KvSpecLimits::kMaxModelNameBytes) {
      return fields_.Error("_name_or_path", "is longer than ", KvSpecLimits::kMaxModelNameBytes,
                           " bytes");
    }
    return OkStatus();
  }

  Status ReadSizes() {
    QUIRE_ASSIGN_OR_RETURN(out_.hidden_size, fields_.UInt("hidden_size", 1, kMaxWidth));
    QUIRE_ASSIGN_OR_RETURN(out_.intermediate_size, fields_.UInt("intermediate_size", 1, kMaxWidth));
    QUIRE_ASSIGN_OR_RETURN(out_.num_layers,
                           fields_.UInt("num_hidden_layers", 1, KvSpecLimits::kMaxLayers));
    QUIRE_ASSIGN_OR_RETURN(out_.vocab_size, fields_.UInt("vocab_size", 1, kMaxVocab));
    QUIRE_ASSIGN_OR_RETURN(out_.max_positions,
                           fields_.UInt("max_position_embeddings", 1, kMaxPositions));
    return OkStatus();
  }

  bool IsDeepseek() const {
    return out_.architecture == Architecture::kDeepseekV2 ||
           out_.architecture == Architecture::kDeepseekV3;
  }

  Status ReadHeads() {
    constexpr uint32_t kMaxHeads = KvSpecLimits::kMaxHeads;
    QUIRE_ASSIGN_OR_RETURN(out_.num_query_heads, fields_.UInt("num_attention_heads", 1, kMaxHeads));
    if (IsDeepseek()) return ReadLatents();
    QUIRE_ASSIGN_OR_RETURN(out_.num_kv_heads,
                           fields_.UInt("num_key_value_heads", 1, kMaxHeads, DefaultKvHeads()));
    if (out_.num_query_heads % out_.num_kv_heads != 0) {
      return fields_.Error("num_attention_heads", "is ", out_.num_query_heads,
                           ", must be a multiple of num_key_value_heads ", out_.num_kv_heads);
    }
    QUIRE_ASSIGN_OR_RETURN(
        out_.head_dim, fields_.UInt("head_dim", 1, KvSpecLimits::kMaxHeadDim, DefaultHeadDim()));
    if (out_.head_dim == 0) {
      return fields_.Error("hidden_size", "is ", out_.hidden_size,
                           ", must be a multiple of num_attention_heads ", out_.num_query_heads,
                           " up to ", KvSpecLimits::kMaxHeadDim, " each, or head_dim be given");
    }
    if (out_.head_dim % 2 != 0) {
      return fields_.Error("head_dim", "is ", out_.head_dim, ", must be even");
    }
    return OkStatus();
  }

  Status ReadLatents() {
    QUIRE_ASSIGN_OR_RETURN(out_.latent,
                           ParseLatentShape(fields_, name_, out_.num_layers, out_.num_query_heads));
    out_.num_kv_heads = 1;
    out_.head_dim = out_.latent->row_dim();
    return OkStatus();
  }

  /// For an absent field Hugging Face takes the class's default. Null stands for the number of
  /// query heads.
  uint32_t DefaultKvHeads() const {
    const uint32_t absent = DefaultsOf(out_.architecture).num_kv_heads;
    const bool null = fields_.Given("num_key_value_heads");
    return null || absent == 0 ? out_.num_query_heads : absent;
  }

  /// 0 when the hidden size cannot be divided among the heads.
  uint32_t DefaultHeadDim() const {
    const uint32_t absent = DefaultsOf(out_.architecture).head_dim;
    if (absent != 0) return absent;
    if (out_.hidden_size % out_.num_query_heads != 0) return 0;
    const uint32_t head_dim = out_.hidden_size / out_.num_query_heads;
    return head_dim <= KvSpecLimits::kMaxHeadDim ? head_dim : 0;
  }

  Status ReadBlocks() {
    const ClassDefaults& defaults = DefaultsOf(out_.architecture);
    QUIRE_ASSIGN_OR_RETURN(out_.rms_norm_eps,
                           fields_.Number("rms_norm_eps", 0, 1, defaults.rms_norm_eps));
    QUIRE_ASSIGN_OR_RETURN(out_.tied_embeddings,
                           fields_.Bool("tie_word_embeddings", defaults.tied_embeddings));
    QUIRE_RETURN_IF_ERROR(CheckActivation());
    if (fields_.Has("quantization_config")) {
      return fields_.Error("quantization_config", "is set; export the model in F32, F16 or BF16");
    }
    return ReadDtype();
  }

  /// Each architecture has one gate.
  Status CheckActivation() const {
    const bool gemma = IsGemma(out_.architecture);
    const char* const expected = gemma ? "gelu_pytorch_tanh" : "silu";
    for (const char* const field : {"hidden_act", "hidden_activation"}) {
      if (!gemma && field == std::string_view("hidden_activation")) continue;
      QUIRE_ASSIGN_OR_RETURN(const std::string given, fields_.String(field, expected));
      if (given == expected) continue;
      return fields_.Error(field, "is ", given, "; only ", expected, " is computed in a ",
                           Name(out_.architecture));
    }
    return OkStatus();
  }

  /// Reads the dtype of the stored weights, by its older and its newer name.
  Status ReadDtype() {
    QUIRE_ASSIGN_OR_RETURN(const std::string older, fields_.String("torch_dtype", ""));
    QUIRE_ASSIGN_OR_RETURN(out_.dtype, fields_.String("dtype", older));
    if (!older.empty() && older != out_.dtype) {
      return fields_.Error("torch_dtype", "is ", older, ", but dtype is ", out_.dtype);
    }
    for (const std::string_view known : {"", "float32", "float16", "bfloat16"}) {
      if (out_.dtype == known) return OkStatus();
    }
    return fields_.Error(older.empty() ? "dtype" : "torch_dtype", "is ", out_.dtype,
                         "; export the model in float32, float16 or bfloat16");
  }

  Status ReadBiases() {
    const bool gemma = IsGemma(out_.architecture);
    const bool llama = out_.architecture == Architecture::kLlama;
    const bool qwen2 = out_.architecture == Architecture::kQwen2;
    const bool qwen3 =
        out_.architecture == Architecture::kQwen3 || out_.architecture == Architecture::kQwen3Moe;
    QUIRE_ASSIGN_OR_RETURN(out_.qkv_bias, fields_.Bool("attention_bias", qwen2));
    QUIRE_ASSIGN_OR_RETURN(out_.mlp_bias, fields_.Bool("mlp_bias", false));
    out_.output_bias = out_.qkv_bias && !qwen2;
    out_.qk_norm = qwen3 || out_.architecture == Architecture::kGemma3;
    const bool v2 = out_.architecture == Architecture::kDeepseekV2;
    if (out_.mlp_bias && !llama && !v2) return HasNoChoice("mlp_bias", false);
    if (llama || qwen3 || gemma || IsDeepseek() || out_.qkv_bias == qwen2) return OkStatus();
    return HasNoChoice("attention_bias", qwen2);
  }

  Status HasNoChoice(const char* field, bool fixed) const {
    return fields_.Error(field, "is ", fixed ? "false" : "true", ", but it is always ",
                         fixed ? "true" : "false", " in a ", Name(out_.architecture));
  }

  /// Reads what Phi-3's files have of their own: code that transformers has had since, and dropout.
  Status ReadPhi3() const {
    if (out_.architecture != Architecture::kPhi3) return OkStatus();
    QUIRE_RETURN_IF_ERROR(fields_.Number("embd_pdrop", 0, 1, 0.0).status());
    QUIRE_RETURN_IF_ERROR(fields_.Number("resid_pdrop", 0, 1, 0.0).status());
    // Given also by models that stretch nothing.
    QUIRE_RETURN_IF_ERROR(
        fields_.UInt("original_max_position_embeddings", 1, kMaxPositions, 4096).status());
    const char* const field = "auto_map";
    const nlohmann::json* const map = fields_.Find(field);
    if (map == nullptr) return OkStatus();
    for (const auto& [key, value] : map->items()) {
      if (value == "configuration_phi3.Phi3Config" || value == "modeling_phi3.Phi3ForCausalLM") {
        continue;
      }
      return fields_.Error(field, "names ", value.dump(), ", which is not computed");
    }
    return OkStatus();
  }

  /// Fields that say with every other value that something else is computed.
  Status CheckFixed() const {
    for (const char* field : kMustBeFalse) {
      QUIRE_ASSIGN_OR_RETURN(const bool set, fields_.Bool(field, false));
      if (set) return fields_.Error(field, "is true, which is not computed");
    }
    return OkStatus();
  }

  Status ReadTokenIds() {
    if (fields_.Has("bos_token_id")) {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t id,
                             fields_.UInt("bos_token_id", 0, out_.vocab_size - 1));
      out_.bos_id = static_cast<TokenId>(id);
    }
    const nlohmann::json* eos = fields_.Find("eos_token_id");
    if (eos == nullptr) return OkStatus();
    if (!eos->is_array()) {
      QUIRE_ASSIGN_OR_RETURN(const uint32_t id,
                             fields_.UInt("eos_token_id", 0, out_.vocab_size - 1));
      out_.eos_ids.push_back(static_cast<TokenId>(id));
      return OkStatus();
    }
    return ReadEosList(*eos);
  }

  Status ReadEosList(const nlohmann::json& list) {
    const bool valid = list.size() <= kMaxEosIds &&
                       std::all_of(list.begin(), list.end(), [&](const nlohmann::json& id) {
                         return id.is_number_unsigned() && id.get<uint64_t>() < out_.vocab_size;
                       });
    if (!valid) {
      return fields_.Error("eos_token_id", "must list at most ", kMaxEosIds, " ids of 0..",
                           out_.vocab_size - 1);
    }
    for (const auto& id : list) out_.eos_ids.push_back(id.get<TokenId>());
    return OkStatus();
  }

  Status ReadWindows() {
    QUIRE_ASSIGN_OR_RETURN(LayerWindows windows,
                           ParseWindows(fields_, {.architecture = out_.architecture,
                                                  .num_layers = out_.num_layers,
                                                  .max_positions = out_.max_positions}));
    out_.slides = std::move(windows.slides);
    out_.window = windows.window;
    return OkStatus();
  }

  /// Layers that have a rotation of their own do not share this one.
  RopeShape ShapeOfMainRope(RopeShape shape) const {
    if (out_.gemma.local_rope) shape.layer_types = {kFullAttention};
    return shape;
  }

  /// DeepSeek-V2 always rotates pairs of neighbours, V3 unless the config says otherwise.
  Status ReadInterleaving() {
    if (!IsDeepseek()) return OkStatus();
    out_.rope.interleaved = true;
    if (out_.architecture == Architecture::kDeepseekV2) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(out_.rope.interleaved, fields_.Bool("rope_interleave", true));
    return OkStatus();
  }

  /// Kinds of attention that the layers have, each once.
  std::vector<std::string> LayerTypes() const {
    std::vector<std::string> types;
    for (const bool slides : {false, true}) {
      if (std::ranges::find(out_.slides, slides) == out_.slides.end()) continue;
      types.emplace_back(slides ? kSlidingAttention : kFullAttention);
    }
    return types;
  }

  const JsonFields fields_;
  const std::string& name_;
  ModelConfig out_;
};

}  // namespace

std::vector<uint32_t> ModelConfig::Windows() const {
  std::vector<uint32_t> windows;
  for (uint32_t layer = 0; layer < num_layers; ++layer) windows.push_back(WindowOf(layer));
  if (std::ranges::count(windows, 0u) == std::ssize(windows)) windows.clear();
  return windows;
}

StatusOr<ModelConfig> ParseModelConfig(std::string_view text, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, name));
  if (!json.is_object()) return InvalidArgument(name, ": not a JSON object");
  return ConfigParser(json, name).Parse();
}

StatusOr<ModelConfig> LoadModelConfig(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  return ParseModelConfig(text, path);
}

}  // namespace quire::worker
