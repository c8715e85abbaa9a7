// SPDX-License-Identifier: Apache-2.0
//
// Policies over one small layer on the CPU device, for tests that follow what they select.
#ifndef QUIRE_GPUWORKER_TESTING_ONE_LAYER_POLICY_H_
#define QUIRE_GPUWORKER_TESTING_ONE_LAYER_POLICY_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "gpuworker/retrieval/policy.h"

namespace quire::worker::testing {

/// Two query heads for each KV head; the layer is compressed whatever `options` name.
inline PolicyContext OneLayerContext(uint32_t num_kv_heads, uint32_t head_dim, uint32_t page_tokens,
                                     RetrievalOptions options) {
  PolicyContext context;
  context.spec.dtype = DType::kF32;
  context.spec.num_layers = 1;
  context.spec.num_query_heads = 2 * num_kv_heads;
  context.spec.num_kv_heads = num_kv_heads;
  context.spec.head_dim = head_dim;
  context.spec.page_tokens = page_tokens;
  context.device = &CpuDevice();
  context.max_context_tokens = 1024;
  context.options = std::move(options);
  context.options.uncompressed_layers = {};
  return context;
}

inline std::unique_ptr<RetrievalPolicy> MakeValid(const PolicyContext& context) {
  auto policy = MakePolicy(context);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return std::move(policy).value();
}

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_ONE_LAYER_POLICY_H_
