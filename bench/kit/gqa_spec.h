// SPDX-License-Identifier: Apache-2.0
//
// GqaSpec: the KvSpec of a made-up model whose keys are rotated whole, in float16, with the usual
// pages and segments. A benchmark changes what it varies. A pure function.
#ifndef QUIRE_BENCH_KIT_GQA_SPEC_H_
#define QUIRE_BENCH_KIT_GQA_SPEC_H_

#include <cstdint>
#include <string>
#include <utility>

#include "quire/kv_spec.h"

namespace quire::bench {

struct GqaShape {
  uint32_t layers = 1;
  uint32_t query_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 128;
};

inline KvSpec GqaSpec(std::string model, const GqaShape& shape) {
  KvSpec spec;
  spec.model = std::move(model);
  spec.num_layers = shape.layers;
  spec.num_query_heads = shape.query_heads;
  spec.num_kv_heads = shape.kv_heads;
  spec.head_dim = spec.rope.rotary_dim = shape.head_dim;
  return spec;
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_GQA_SPEC_H_
