// SPDX-License-Identifier: Apache-2.0
//
// Architecture: the decoders that checkpoints are read for, by the names that Hugging Face gives
// them. Pure functions; thread-safe.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_ARCHITECTURE_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_ARCHITECTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::worker {

enum class Architecture : uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kMixtral,
  kQwen3Moe,
  kPhi3,
  kGemma2,
  kGemma3,
  kDeepseekV2,
  kDeepseekV3
};

/// Defaults of Hugging Face's classes, for fields that a file does not have.
struct ClassDefaults {
  uint32_t num_kv_heads = 0;  ///< 0: as many as query heads.
  uint32_t head_dim = 0;      ///< 0: the hidden size divided among the query heads.
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embeddings = false;
};
const ClassDefaults& DefaultsOf(Architecture architecture);

/// "LlamaForCausalLM", ...
std::string_view Name(Architecture architecture);
/// "llama", ...
std::string_view ModelType(Architecture architecture);
/// The architecture of that name; nullopt for one that is not computed.
std::optional<Architecture> FindArchitecture(std::string_view name);
/// About a name that FindArchitecture does not know: what is computed, which of it is nearest, and
/// how that one differs.
std::string DescribeUnsupported(std::string_view name);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_ARCHITECTURE_H_
