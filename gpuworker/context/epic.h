// SPDX-License-Identifier: Apache-2.0
//
// EPIC (arXiv 2410.15332), LegoLink-k: the first tokens of documents are computed, as they draw the
// most attention to the wrong place. Thread-safety: pure function.
#ifndef QUIRE_GPUWORKER_CONTEXT_EPIC_H_
#define QUIRE_GPUWORKER_CONTEXT_EPIC_H_

#include <cstdint>

#include "gpuworker/context/reuse_plan.h"

namespace quire::worker {

/// Computes the first `k` tokens of each document but the first, whole documents where they are
/// shorter, and the question.
ReusePlan Epic(const PromptLayout& layout, uint32_t num_layers, uint64_t k);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_EPIC_H_
