// SPDX-License-Identifier: Apache-2.0
//
// PublishedWithin: what a policy of a comparison runs with. Everything is as it was published with
// the policy, but for the budget, which all of the comparison share.
#ifndef QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_
#define QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_

#include <cstdint>
#include <string>

#include "gpuworker/retrieval/options.h"
#include "quire/status.h"

namespace quire::bench {

/// What was published with `policy` (worker::AsPublished), under the budget of `budget`: its total,
/// its sinks and window, how much of it is selected, and which layers are not under it. Nothing
/// else of `budget` counts. INVALID_ARGUMENT for a policy that there is none of.
StatusOr<worker::RetrievalOptions> PublishedWithin(const worker::RetrievalOptions& budget,
                                                   std::string policy, uint32_t page_tokens);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_PUBLISHED_OPTIONS_H_
