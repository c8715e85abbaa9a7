// SPDX-License-Identifier: Apache-2.0
//
// choose_experts: the router of a mixture of experts. Each row keeps the k experts with the largest
// logits, and their weights after a softmax over all experts.
//
// Experts come by falling logit, equal ones by number; NaN come last. A NaN logit makes every
// weight of its row NaN. Tolerance: experts exact, weights kChooseExpertsTolerance.
// Errors: kBadShape for n_experts < 1, k outside 1..n_experts, rows < 0, a missing pointer.
#ifndef QUIRE_KERNELS_API_CHOOSE_EXPERTS_H_
#define QUIRE_KERNELS_API_CHOOSE_EXPERTS_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kChooseExpertsTolerance{.absolute = 1e-7, .relative = 1e-5};

struct ChooseExpertsArgs {
  const float* logits = nullptr;  ///< [rows][n_experts]
  int32_t* experts = nullptr;     ///< Out [rows][k]
  float* weights = nullptr;       ///< Out [rows][k]
  int64_t rows = 0;
  int64_t n_experts = 0;
  int64_t k = 0;
  bool normalize = false;  ///< The weights of a row are divided by their sum.
  void* stream = nullptr;
};
using ChooseExpertsFn = OpStatus (*)(const ChooseExpertsArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_CHOOSE_EXPERTS_H_
