// SPDX-License-Identifier: Apache-2.0
//
// FitAdvice: what would make requests fit that do not, one change at a time. Pure functions.
// Units: bytes; tokens.
#ifndef QUIRE_GPUWORKER_MEMORY_FIT_ADVICE_H_
#define QUIRE_GPUWORKER_MEMORY_FIT_ADVICE_H_

#include <cstdint>
#include <optional>

#include "gpuworker/memory/memory_model.h"

namespace quire::worker {

/// Each alone lets the requests reach the length with all layers off the device. Unset: no value
/// of it does.
struct FitAdvice {
  uint64_t device_bytes = 0;                   ///< Least memory of the device.
  std::optional<uint32_t> requests = {};       ///< Most of them.
  std::optional<uint64_t> budget_tokens = {};  ///< Largest budget, below options' own.
  std::optional<uint64_t> tokens = {};         ///< Longest length.
};

/// Advice for options().requests requests of `tokens` tokens. All options but device_bytes are as
/// MemoryModel::Create wants them; device_bytes may be too small for the weights.
FitAdvice WhatWouldFit(const MemoryModelOptions& options, uint64_t tokens);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_FIT_ADVICE_H_
