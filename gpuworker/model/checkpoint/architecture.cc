// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/architecture.h"

#include <algorithm>

namespace quire::worker {
namespace {

struct Known {
  Architecture architecture;
  std::string_view name;
  std::string_view model_type;
  ClassDefaults defaults;
};

constexpr Known kKnown[] = {
    {Architecture::kDeepseekV2, "DeepseekV2ForCausalLM", "deepseek_v2", {}},
    {Architecture::kDeepseekV3, "DeepseekV3ForCausalLM", "deepseek_v3", {}},
    {Architecture::kLlama, "LlamaForCausalLM", "llama", {}},
    {Architecture::kMistral, "MistralForCausalLM", "mistral", {.num_kv_heads = 8}},
    {Architecture::kMixtral,
     "MixtralForCausalLM",
     "mixtral",
     {.num_kv_heads = 8, .rms_norm_eps = 1e-5, .rope_theta = 1e6}},
    {Architecture::kGemma2,
     "Gemma2ForCausalLM",
     "gemma2",
     {.num_kv_heads = 4, .head_dim = 256, .tied_embeddings = true}},
    {Architecture::kGemma3,
     "Gemma3ForCausalLM",
     "gemma3_text",
     {.num_kv_heads = 4, .head_dim = 256, .rope_theta = 1e6, .tied_embeddings = true}},
    {Architecture::kPhi3, "Phi3ForCausalLM", "phi3", {.rms_norm_eps = 1e-5}},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2", {.num_kv_heads = 32}},
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3", {.num_kv_heads = 32, .head_dim = 128}},
    {Architecture::kQwen3Moe, "Qwen3MoeForCausalLM", "qwen3_moe", {.num_kv_heads = 4}},
};

const Known& EntryOf(Architecture architecture) {
  return *std::ranges::find(kKnown, architecture, &Known::architecture);
}

/// A published architecture that is not computed, and what it has that the nearest one has not.
struct Relative {
  std::string_view name;
  Architecture nearest;
  std::string_view difference;
};

constexpr Relative kRelatives[] = {
    {"Llama4ForCausalLM", Architecture::kLlama,
     "attends in chunks, leaves positions out in some layers, and has experts with a shared one"},
    {"Llama4ForConditionalGeneration", Architecture::kLlama,
     "reads images, attends in chunks, and has experts with a shared one"},
    {"MllamaForConditionalGeneration", Architecture::kLlama,
     "reads images, which some layers attend to"},
    {"GraniteForCausalLM", Architecture::kLlama,
     "multiplies embeddings, scores, residuals and logits by factors of its own"},
    {"OlmoForCausalLM", Architecture::kLlama, "has norms without weights, and clips q, k and v"},
    {"Olmo2ForCausalLM", Architecture::kQwen3,
     "norms the whole of q and k, and what blocks add instead of what they read"},
    {"CohereForCausalLM", Architecture::kLlama,
     "has layer norms, blocks side by side, and a factor on logits"},
    {"Cohere2ForCausalLM", Architecture::kMistral,
     "has layer norms, blocks side by side, and layers without positions"},
    {"StableLmForCausalLM", Architecture::kLlama, "has layer norms with biases"},
    {"Starcoder2ForCausalLM", Architecture::kMistral,
     "has layer norms with biases, and a feed-forward block without a gate"},
    {"Qwen2MoeForCausalLM", Architecture::kQwen3Moe,
     "has biases in q, k and v, no norms of heads, and an expert that every token shares"},
    {"GemmaForCausalLM", Architecture::kGemma2,
     "has no norms behind its blocks, no soft caps, and no sliding windows"},
    {"Gemma3ForConditionalGeneration", Architecture::kGemma3,
     "reads images; its language model alone is a Gemma3ForCausalLM"},
    {"Gemma3nForConditionalGeneration", Architecture::kGemma3,
     "reads images and sound, and has embeddings for each layer"},
    {"RecurrentGemmaForCausalLM", Architecture::kGemma2, "has recurrent layers"},
    {"PhiForCausalLM", Architecture::kPhi3,
     "has layer norms with biases, blocks side by side, and a feed-forward block without a gate"},
    {"Phi3SmallForCausalLM", Architecture::kPhi3,
     "has layer norms with biases, layers of block-sparse attention, and a clipped gate"},
    {"Phi3VForCausalLM", Architecture::kPhi3, "reads images"},
    {"Phi4MMForCausalLM", Architecture::kPhi3, "reads images and sound"},
    {"PhimoeForCausalLM", Architecture::kMixtral,
     "has layer norms with biases, and chooses experts one after the other"},
    {"OlmoeForCausalLM", Architecture::kQwen3Moe, "norms the whole of q and k"},
    {"GptOssForCausalLM", Architecture::kMixtral,
     "has sinks in its softmax, experts with biases and a clipped gate, and weights in four bits"},
    {"GPT2LMHeadModel", Architecture::kLlama,
     "has learned positions, layer norms with biases, and a feed-forward block without a gate"},
    {"GPTNeoXForCausalLM", Architecture::kLlama,
     "has layer norms with biases, blocks side by side, and a feed-forward block without a gate"},
    {"FalconForCausalLM", Architecture::kLlama,
     "has layer norms with biases, blocks side by side, and a feed-forward block without a gate"},
    {"Mistral3ForConditionalGeneration", Architecture::kMistral,
     "reads images; its language model alone may be a MistralForCausalLM"},
    {"Qwen2VLForConditionalGeneration", Architecture::kQwen2,
     "reads images, and rotates by three positions at a time"},
    {"Qwen3NextForCausalLM", Architecture::kQwen3, "has layers of linear attention"},
};

/// Characters that both begin with.
size_t CommonPrefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// The known architecture whose name is most like `name`.
const Known& MostAlike(std::string_view name) {
  return *std::ranges::max_element(kKnown, {}, [&](const Known& known) {
    return std::pair(CommonPrefix(name, known.name), known.architecture == Architecture::kLlama);
  });
}

}  // namespace

const ClassDefaults& DefaultsOf(Architecture architecture) {
  return EntryOf(architecture).defaults;
}

std::string_view Name(Architecture architecture) { return EntryOf(architecture).name; }

std::string_view ModelType(Architecture architecture) { return EntryOf(architecture).model_type; }

std::optional<Architecture> FindArchitecture(std::string_view name) {
  const auto* const found = std::ranges::find(kKnown, name, &Known::name);
  if (found == std::end(kKnown)) return std::nullopt;
  return found->architecture;
}

std::string DescribeUnsupported(std::string_view name) {
  std::string text = "computed are ";
  for (const Known& known : kKnown) {
    if (&known != kKnown) text += &known == std::end(kKnown) - 1 ? " and " : ", ";
    text += known.name;
  }
  const auto* const relative = std::ranges::find(kRelatives, name, &Relative::name);
  if (relative != std::end(kRelatives)) {
    return text + "; the nearest is " + std::string(Name(relative->nearest)) + ", but this one " +
           std::string(relative->difference);
  }
  return text + "; by its name the nearest is " + std::string(MostAlike(name).name) +
         ", and how this one differs is not known here";
}

}  // namespace quire::worker
