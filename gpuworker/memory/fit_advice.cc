// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/fit_advice.h"

#include <functional>
#include <limits>

namespace quire::worker {
namespace {

/// Bytes with all layers off, or with none where that takes less.
double LeastBytes(MemoryModelOptions options, uint64_t tokens) {
  options.device_bytes = std::numeric_limits<uint64_t>::max();  // Whatever the weights take.
  const auto model = MemoryModel::Create(options);
  if (!model.ok()) return std::numeric_limits<double>::infinity();
  return std::min(model->Bytes(options.num_layers, tokens), model->Bytes(0, tokens));
}

/// The largest value in 1 .. `most` that `fits`, which holds for small ones if for any.
std::optional<uint64_t> Largest(uint64_t most, const std::function<bool(uint64_t)>& fits) {
  if (most == 0 || !fits(1)) return std::nullopt;
  uint64_t low = 1;
  while (low < most) {
    const uint64_t middle = low + (most - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

}  // namespace

FitAdvice WhatWouldFit(const MemoryModelOptions& options, uint64_t tokens) {
  const auto fits = [&](const MemoryModelOptions& changed) {
    return LeastBytes(changed, tokens) <= static_cast<double>(options.device_bytes);
  };
  FitAdvice advice;
  advice.device_bytes = WholeBytes(LeastBytes(options, tokens));
  if (const auto requests = Largest(options.requests - 1, [&](uint64_t count) {
        MemoryModelOptions fewer = options;
        fewer.requests = static_cast<uint32_t>(count);
        return fits(fewer);
      })) {
    advice.requests = static_cast<uint32_t>(*requests);
  }
  advice.budget_tokens = Largest(options.budget_tokens - 1, [&](uint64_t budget) {
    MemoryModelOptions smaller = options;
    smaller.budget_tokens = budget;
    return fits(smaller);
  });
  if (const auto model = MemoryModel::Create(options); model.ok()) {
    if (model->thresholds().back() > 0) advice.tokens = model->thresholds().back();
  }
  return advice;
}

}  // namespace quire::worker
