// SPDX-License-Identifier: Apache-2.0
//
// PromptPages: the stored pages of a prompt's documents, by where their tokens lie in it.
// Thread-safety: pure functions. Units: positions of the prompt. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_HOPS_PROMPT_PAGES_H_
#define QUIRE_GPUWORKER_CONTEXT_HOPS_PROMPT_PAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpuworker/context/prompt_layout.h"

namespace quire::worker {

/// Tokens [first, end) of one page. Tokens that the layout leaves out are not among them.
struct PromptPage {
  size_t document = 0;
  uint64_t first = 0;
  uint64_t end = 0;
};

/// Pages that the store has for a document in the prompt.
inline uint64_t StoredPages(const PlacedSource& source, uint32_t page_tokens) {
  return (source.skipped + source.tokens + page_tokens - 1) / page_tokens;
}

/// All pages of all documents, in the order of the prompt. A page may be empty.
inline std::vector<PromptPage> PagesOf(const PromptLayout& layout, uint32_t page_tokens) {
  std::vector<PromptPage> pages;
  for (size_t i = 0; i < layout.sources.size(); ++i) {
    const PlacedSource& source = layout.sources[i];
    const auto position = [&](uint64_t token) {
      return source.first + std::clamp(token, source.skipped, source.skipped + source.tokens) -
             source.skipped;
    };
    for (uint64_t page = 0; page < StoredPages(source, page_tokens); ++page) {
      pages.push_back({i, position(page * page_tokens), position((page + 1) * page_tokens)});
    }
  }
  return pages;
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_HOPS_PROMPT_PAGES_H_
