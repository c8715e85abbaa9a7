// SPDX-License-Identifier: Apache-2.0
//
// full: every token is computed, and nothing is read from caches. The other methods are measured
// against it. Thread-safety: pure function.
#ifndef QUIRE_GPUWORKER_CONTEXT_FULL_PREFILL_H_
#define QUIRE_GPUWORKER_CONTEXT_FULL_PREFILL_H_

#include <cstdint>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

/// Computes documents and question in every layer.
ReusePlan FullPrefill(const PromptLayout& layout, uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_FULL_PREFILL_H_
