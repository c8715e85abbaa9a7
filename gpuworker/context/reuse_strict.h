// SPDX-License-Identifier: Apache-2.0
//
// reuse_strict: caches are reused as they are, with keys turned to their places in the prompt.
// Thread-safety: pure function.
#ifndef QUIRE_GPUWORKER_CONTEXT_REUSE_STRICT_H_
#define QUIRE_GPUWORKER_CONTEXT_REUSE_STRICT_H_

#include <cstdint>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

/// Computes the question alone.
ReusePlan ReuseStrict(const PromptLayout& layout, uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_REUSE_STRICT_H_
