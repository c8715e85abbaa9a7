// SPDX-License-Identifier: Apache-2.0
//
// embed: gathers rows of a table (token embeddings, or any row gather in f32), times a factor.
//
// Tolerance: exact. Errors: kBadShape for vocab or dim < 1, rows < 0, an id out of range, a missing
// pointer.
#ifndef QUIRE_KERNELS_API_EMBED_H_
#define QUIRE_KERNELS_API_EMBED_H_

#include <cstdint>

#include "kernels/api/status.h"

namespace quire::kernels {

/// y[r] = scale * table[ids[r]]
struct EmbedArgs {
  const float* table = nullptr;  ///< [vocab][dim]
  const int32_t* ids = nullptr;  ///< [rows], each in [0, vocab)
  float* y = nullptr;            ///< Out [rows][dim]
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t dim = 0;
  float scale = 1.0f;
  void* stream = nullptr;
};
using EmbedFn = OpStatus (*)(const EmbedArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_EMBED_H_
