// SPDX-License-Identifier: Apache-2.0
//
// reuse_isolated: caches are reused as they are, and the question was prefilled alone, too. Its
// last token alone reads everything. The baseline of published comparisons that recompute the last
// token only. Thread-safety: pure function.
#ifndef QUIRE_GPUWORKER_CONTEXT_REUSE_ISOLATED_H_
#define QUIRE_GPUWORKER_CONTEXT_REUSE_ISOLATED_H_

#include <cstdint>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

/// Computes the question. All of its rows but the last see no document.
ReusePlan ReuseIsolated(const PromptLayout& layout, uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_REUSE_ISOLATED_H_
