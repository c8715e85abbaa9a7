// SPDX-License-Identifier: Apache-2.0
//
// A memory model of a small device, for tests. Nothing that ships includes this.
#ifndef QUIRE_GPUWORKER_MEMORY_TESTING_SMALL_MODEL_H_
#define QUIRE_GPUWORKER_MEMORY_TESTING_SMALL_MODEL_H_

#include <gtest/gtest.h>

#include <utility>

#include "gpuworker/memory/memory_model.h"

namespace quire::worker {

/// 1000 bytes free, and 2 bytes for a token in each of 3 layers and the head: thresholds 125, 163,
/// 240 and 470.
inline MemoryModelOptions SmallDevice() {
  return {.device_bytes = 1130,
          .model_bytes = 100,
          .num_layers = 3,
          .num_kv_heads = 1,
          .key_bytes = 1,
          .value_bytes = 1,
          .budget_tokens = 10};
}

inline MemoryModel ModelOf(const MemoryModelOptions& options) {
  auto model = MemoryModel::Create(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_TESTING_SMALL_MODEL_H_
