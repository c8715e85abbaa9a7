// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/memory_model.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace quire::worker {
namespace {

/// Upper limit of a threshold; no device holds as many.
constexpr double kMaxTokens = 0x1p62;

double WeightBytes(const MemoryModelOptions& options) {
  const double weights =
      static_cast<double>(options.model_bytes) + static_cast<double>(options.draft_bytes);
  if (options.runtime_bytes) return weights + static_cast<double>(*options.runtime_bytes);
  return MemoryModel::kWeightShare * weights;
}

}  // namespace

uint64_t WholeBytes(double bytes) {
  constexpr double kMost = 0x1p63;
  return static_cast<uint64_t>(std::clamp(std::ceil(bytes), 0.0, kMost));
}

StatusOr<MemoryModel> MemoryModel::Create(const MemoryModelOptions& options) {
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, uint64_t>>{
           {"device_bytes", options.device_bytes},
           {"model_bytes", options.model_bytes},
           {"num_layers", options.num_layers},
           {"num_kv_heads", options.num_kv_heads},
           {"key_bytes", options.key_bytes},
           {"requests", options.requests},
           {"budget_tokens", options.budget_tokens}}) {
    if (value == 0) return InvalidArgument("memory model: ", name, " is 0; it must be at least 1");
  }
  if (static_cast<double>(options.device_bytes) < WeightBytes(options)) {
    return InvalidArgument("memory model: device_bytes ", options.device_bytes,
                           " is less than the weights and their run-time memory, ",
                           WholeBytes(WeightBytes(options)), " bytes (model_bytes ",
                           options.model_bytes, ", draft_bytes ", options.draft_bytes, ")");
  }
  return MemoryModel(options);
}

MemoryModel::MemoryModel(const MemoryModelOptions& options)
    : options_(options), weight_bytes_(WeightBytes(options)) {
  const double keys = options.num_kv_heads * static_cast<double>(options.key_bytes);
  const double values = options.num_kv_heads * static_cast<double>(options.value_bytes);
  layer_bytes_ = keys + values;
  head_bytes_ = options.head_has_values ? layer_bytes_ : keys;
  const double free_bytes = static_cast<double>(options.device_bytes) - weight_bytes_;
  const double buffer_bytes =
      options.requests * layer_bytes_ * static_cast<double>(options.budget_tokens);
  uint64_t threshold = 0;
  for (uint32_t i = 0; i <= num_layers(); ++i) {
    const double tokens =
        std::floor((free_bytes - i * buffer_bytes) / (options.requests * TokenBytes(i)));
    threshold = std::max(threshold, static_cast<uint64_t>(std::clamp(tokens, 0.0, kMaxTokens)));
    thresholds_.push_back(threshold);
  }
}

double MemoryModel::TokenBytes(uint32_t offloaded) const {
  const double layers = static_cast<double>(num_layers() - offloaded) + options_.repeated_heads;
  return layers * layer_bytes_ + head_bytes_;
}

double MemoryModel::Bytes(uint32_t offloaded, MemoryLoad load) const {
  return weight_bytes_ + TokenBytes(offloaded) * static_cast<double>(load.tokens) +
         offloaded * layer_bytes_ * static_cast<double>(load.buffered);
}

std::optional<uint32_t> MemoryModel::FewestOffloaded(MemoryLoad load) const {
  if (Fits(0, load)) return 0;
  if (!Fits(num_layers(), load)) return std::nullopt;
  // The division may be off by its rounding: the result is checked.
  const double gained = layer_bytes_ * static_cast<double>(load.tokens - load.buffered);
  const double excess = Bytes(0, load) - static_cast<double>(options_.device_bytes);
  auto layers = static_cast<uint32_t>(
      std::clamp(std::ceil(excess / gained), 1.0, static_cast<double>(num_layers())));
  while (layers < num_layers() && !Fits(layers, load)) ++layers;
  while (layers > 1 && Fits(layers - 1, load)) --layers;
  return layers;
}

}  // namespace quire::worker
