// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/options.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

Status CheckPages(const RetrievalOptions& options, uint32_t p) {
  const std::pair<const char*, uint32_t> parts[] = {{"budget_tokens", options.budget_tokens},
                                                    {"sink_tokens", options.sink_tokens},
                                                    {"window_tokens", options.window_tokens},
                                                    {"select_tokens", options.select_tokens}};
  for (const auto& [name, tokens] : parts) {
    if (tokens % p != 0) {
      return InvalidArgument(name, " is ", tokens, ", which is not a multiple of the page of ", p,
                             " tokens; use ", tokens / p * p, " or ", (tokens / p + 1) * p);
    }
  }
  if (options.window_tokens < 2 * p) {
    return InvalidArgument("window_tokens is ", options.window_tokens,
                           "; the window needs two pages, ", 2 * p, " tokens, or more");
  }
  const uint64_t least =
      uint64_t{options.sink_tokens} + options.window_tokens + std::max(p, options.select_tokens);
  if (options.budget_tokens < least) {
    return InvalidArgument("budget_tokens is ", options.budget_tokens,
                           ", less than sinks, window and ",
                           options.select_tokens > 0 ? "select_tokens" : "one page", " together (",
                           least, " tokens); raise the budget or lower those");
  }
  return OkStatus();
}

}  // namespace

RetrievalOptions Divide(std::string policy, uint32_t page_tokens, const BudgetDivision& division) {
  const auto whole = [&](uint32_t tokens) {
    return static_cast<uint32_t>(DivideRoundUp(tokens, page_tokens) * page_tokens);
  };
  RetrievalOptions options;
  options.policy = std::move(policy);
  options.uncompressed_layers = division.uncompressed_layers;
  options.sink_tokens = whole(division.sinks);
  options.window_tokens = std::max(whole(division.window), 2 * page_tokens);
  const uint32_t ends = options.sink_tokens + options.window_tokens;
  const uint32_t selected = whole(division.selected);
  const uint32_t slots = std::max(
      {page_tokens, selected, whole(division.total) - std::min(ends, whole(division.total))});
  options.select_tokens = selected < slots ? selected : 0;
  options.budget_tokens = ends + slots;
  return options;
}

Status Validate(const RetrievalOptions& options, const KvSpec& spec) {
  QUIRE_RETURN_IF_ERROR(CheckPages(options, spec.page_tokens));
  for (uint32_t layer : options.uncompressed_layers) {
    if (layer >= spec.num_layers) {
      return InvalidArgument("uncompressed_layers names layer ", layer,
                             "; the model has layers 0 to ", spec.num_layers - 1);
    }
  }
  for (uint32_t head : options.retrieval_heads) {
    if (head >= spec.num_layers * spec.num_kv_heads) {
      return InvalidArgument("retrieval_heads names head ", head, "; the model has heads 0 to ",
                             spec.num_layers * spec.num_kv_heads - 1, " over all layers");
    }
  }
  if (!kernels::IsKnown(options.pooling)) {
    return InvalidArgument("pooling is ", static_cast<int>(options.pooling),
                           ", which is none of the known modes (1 to 7)");
  }
  if (!std::isfinite(options.score_scale) || options.score_scale <= 0) {
    return InvalidArgument("score_scale is ", options.score_scale,
                           "; it must be finite and above 0");
  }
  if (!Selects(options.digest) || !kernels::HasDigest(spec, options.digest)) {
    return InvalidArgument("digest is ", static_cast<int>(options.digest),
                           ", which is none of the kinds that select (1 to ",
                           static_cast<int>(kSelectingKinds.back()),
                           "), or discs of keys with an odd number of channels");
  }
  if (!std::isfinite(options.correction_threshold)) {
    return InvalidArgument("correction_threshold is ", options.correction_threshold,
                           "; it must be finite, 0.8 is a good value");
  }
  const uint32_t width = spec.num_kv_heads * spec.key_dim();
  if (options.key_rank > width) {
    return InvalidArgument("key_rank is ", options.key_rank, "; keys of this model are ", width,
                           " channels wide, use 1 to ", width, ", or 0 for the published share");
  }
  if (options.selection_memory < 1 || options.selection_memory > kMostSelectionMemory) {
    return InvalidArgument("selection_memory is ", options.selection_memory, "; use 1 to ",
                           kMostSelectionMemory, " tokens, 1 as published");
  }
  if (options.recall_deadline < Duration::zero()) {
    return InvalidArgument("recall_deadline is negative; use 0 to wait as long as it takes");
  }
  if (options.recall_buffers < 1 || options.recall_buffers > 2) {
    return InvalidArgument("recall_buffers is ", options.recall_buffers,
                           "; use 2, or 1 to take in one group of units after the other");
  }
  return OkStatus();
}

CodecSet RecalledCodecs(RecallLayout layout, UnitPart part) {
  const bool decodes = layout == RecallLayout::kUnits && part == UnitPart::kWhole;
  return decodes ? CodecSet::All() : CodecSet();
}

Status RequireWorkerSide(const RetrievalOptions& options) {
  if (options.side == SelectionSide::kWorker) return OkStatus();
  return InvalidArgument("policy '", options.policy,
                         "' scores pages by what only the worker keeps; select at the worker");
}

}  // namespace quire::worker
