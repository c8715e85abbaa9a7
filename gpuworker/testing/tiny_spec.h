// SPDX-License-Identifier: Apache-2.0
//
// TinySpec: the smallest spec with several layers, heads, pages and segments, for tests of recalls.
#ifndef QUIRE_GPUWORKER_TESTING_TINY_SPEC_H_
#define QUIRE_GPUWORKER_TESTING_TINY_SPEC_H_

#include "quire/kv_spec.h"

namespace quire::worker::testing {

inline KvSpec TinySpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF32;
  spec.num_layers = 2;
  spec.num_query_heads = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 4;
  spec.page_tokens = 2;
  spec.segment_pages = 4;
  spec.rope.rotary_dim = 4;
  return spec;
}

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_TINY_SPEC_H_
