// SPDX-License-Identifier: Apache-2.0
//
// PublishedWithin: options of a policy in a comparison. They are as published with the policy,
// except for the budget, which is common to the comparison.
#ifndef QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_
#define QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "gpuworker/retrieval/options.h"

namespace quire::bench {

/// The published options of `policy` (worker::AsPublished) under the budget of `budget`: total,
/// sinks and window, selected part, and exempt layers. Other fields of `budget` are ignored.
/// INVALID_ARGUMENT for an unknown policy.
StatusOr<worker::RetrievalOptions> PublishedWithin(const worker::RetrievalOptions& budget,
                                                   std::string policy, uint32_t page_tokens);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_
