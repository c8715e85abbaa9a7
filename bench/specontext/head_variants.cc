// SPDX-License-Identifier: Apache-2.0
#include "bench/specontext/head_variants.h"

namespace quire::bench {

std::string HeadVariant::key() const {
  const std::string granularity =
      page_tokens == 1 ? "token" : "page_" + std::to_string(page_tokens);
  return std::string(worker::Name(mode)) + "_" + granularity + (as_published ? kAsPublished : "");
}

std::vector<HeadVariant> MakeVariants(const HeadsByMode& heads, worker::HeadMode first,
                                      std::span<const uint32_t> page_tokens) {
  std::vector<HeadVariant> variants = {{first, page_tokens.front()},
                                       {first, page_tokens.front(), /*as_published=*/true}};
  for (const uint32_t tokens : page_tokens) {
    for (const auto& [mode, head] : heads) {
      if (mode != first || tokens != page_tokens.front()) variants.push_back({mode, tokens});
    }
  }
  return variants;
}

}  // namespace quire::bench
