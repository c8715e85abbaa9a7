// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/published_options.h"

#include <utility>

#include "gpuworker/retrieval/policy.h"

namespace quire::bench {

StatusOr<worker::RetrievalOptions> PublishedWithin(const worker::RetrievalOptions& budget,
                                                   std::string policy, uint32_t page_tokens) {
  worker::RetrievalOptions options;
  options.policy = std::move(policy);
  QUIRE_ASSIGN_OR_RETURN(options, worker::AsPublished(std::move(options), page_tokens));
  options.budget_tokens = budget.budget_tokens;
  options.select_tokens = budget.select_tokens;
  options.sink_tokens = budget.sink_tokens;
  options.window_tokens = budget.window_tokens;
  options.uncompressed_layers = budget.uncompressed_layers;
  return options;
}

}  // namespace quire::bench
