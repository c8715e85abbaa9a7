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
  return MemoryModel::kWeightShare *
         (static_cast<double>(options.model_bytes) + static_cast<double>(options.draft_bytes));
}

}  // namespace

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
    return InvalidArgument("memory model: device_bytes ", options.device_bytes, " is less than ",
                           kWeightShare, " times the weights (model_bytes ", options.model_bytes,
                           ", draft_bytes ", options.draft_bytes, ")");
  }
  return MemoryModel(options);
}

MemoryModel::MemoryModel(const MemoryModelOptions& options)
    : options_(options), weight_bytes_(WeightBytes(options)) {
  const double heads = static_cast<double>(options.requests) * options.num_kv_heads;
  const double keys = heads * static_cast<double>(options.key_bytes);
  const double values = heads * static_cast<double>(options.value_bytes);
  layer_bytes_ = keys + values;
  head_bytes_ = options.head_has_values ? layer_bytes_ : keys;
  const double free_bytes = static_cast<double>(options.device_bytes) - weight_bytes_;
  const double buffer_bytes = layer_bytes_ * static_cast<double>(options.budget_tokens);
  uint64_t threshold = 0;
  for (uint32_t i = 0; i <= num_layers(); ++i) {
    const double tokens = std::floor((free_bytes - i * buffer_bytes) / TokenBytes(i));
    threshold = std::max(threshold, static_cast<uint64_t>(std::clamp(tokens, 0.0, kMaxTokens)));
    thresholds_.push_back(threshold);
  }
}

double MemoryModel::TokenBytes(uint32_t offloaded) const {
  const double layers = static_cast<double>(num_layers() - offloaded) + options_.repeated_heads;
  return layers * layer_bytes_ + head_bytes_;
}

double MemoryModel::Bytes(uint32_t offloaded, uint64_t tokens) const {
  const auto buffered = static_cast<double>(std::min(tokens, options_.budget_tokens));
  return weight_bytes_ + TokenBytes(offloaded) * static_cast<double>(tokens) +
         offloaded * layer_bytes_ * buffered;
}

uint32_t MemoryModel::OffloadedLayers(uint64_t tokens, uint32_t offloaded) const {
  const auto reload_below = [this](uint32_t i) {
    return kReloadShare * static_cast<double>(thresholds_[i]);
  };
  offloaded = std::min(offloaded, num_layers());
  while (offloaded < num_layers() && tokens >= thresholds_[offloaded]) ++offloaded;
  while (offloaded > 0 && static_cast<double>(tokens) < reload_below(offloaded - 1)) --offloaded;
  return offloaded;
}

}  // namespace quire::worker
