// SPDX-License-Identifier: Apache-2.0
//
// Reads the sliding windows of a config.json: which layers see only the last tokens, and how many.
// Architectures say it in ways of their own:
//   Mistral, Mixtral, Phi-3   sliding_window: all layers
//   Gemma 2                   sliding_window: every second layer, the first one among them
//   Gemma 3                   sliding_window: all but every sliding_window_pattern-th layer
//   Qwen3-MoE                 use_sliding_window and sliding_window: all layers
//   Qwen2, Qwen3              use_sliding_window, sliding_window, and layer_types or
//   max_window_layers
// A list of layer types takes precedence where the architecture has one. transformers ignores the
// windows of a Llama, so they are refused where they would matter.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_WINDOW_CONFIG_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_WINDOW_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gpuworker/model/checkpoint/architecture.h"
#include "quire/status.h"

namespace quire::worker {

class JsonFields;

inline constexpr char kFullAttention[] = "full_attention";
inline constexpr char kSlidingAttention[] = "sliding_attention";

struct LayerWindows {
  std::vector<bool> slides;  ///< [num_layers]: whether the layer is one of sliding attention.
  uint32_t window = 0;       ///< Tokens that those see, the own one counted; 0 without any.
};

/// Shapes that the fields refer to.
struct WindowShape {
  Architecture architecture = Architecture::kLlama;
  uint32_t num_layers = 0;
  uint32_t max_positions = 0;
};

/// INVALID_ARGUMENT names the field.
StatusOr<LayerWindows> ParseWindows(const JsonFields& config, const WindowShape& shape);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_WINDOW_CONFIG_H_
