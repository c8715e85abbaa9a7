// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/stream_context.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/random.h"
#include "common/page/dtype.h"
#include "common/page/layout.h"

namespace quire::bench {
namespace {

/// A seed for each layer and head.
uint64_t SeedOf(uint64_t seed, uint32_t layer, uint32_t head) {
  return SeededRandom(seed * 1000003 + layer * 1024 + head).Next();
}

/// Writes `keys`, then as many random values.
void WriteUnit(DType dtype, std::span<const float> keys, uint64_t seed, std::byte* out) {
  for (size_t i = 0; i < keys.size(); ++i) {
    StoreElement(out, static_cast<int64_t>(i), dtype, keys[i]);
  }
  SeededRandom random(seed);
  for (size_t i = 0; i < keys.size(); ++i) {
    StoreElement(out, static_cast<int64_t>(keys.size() + i), dtype,
                 static_cast<float>(random.Uniform()));
  }
}

}  // namespace

StatusOr<StreamContext> StreamContext::Make(const KvSpec& spec, TopicShape shape) {
  shape.page_tokens = spec.page_tokens;
  shape.head_dim = spec.head_dim;
  const uint64_t seed = shape.seed;
  const uint64_t unit_bytes = UnitBytes(spec);
  std::vector<TopicPages> heads;
  std::vector<std::byte> units(SegmentBytes(spec, shape.pages));
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      shape.seed = SeedOf(seed, layer, head);
      const TopicPages& keys = heads.emplace_back(shape);
      for (uint32_t page = 0; page < shape.pages; ++page) {
        const uint64_t unit = (uint64_t{layer} * shape.pages + page) * spec.num_kv_heads + head;
        WriteUnit(spec.dtype, keys.keys(page), SeedOf(page, layer, head),
                  units.data() + unit * unit_bytes);
      }
    }
  }
  QUIRE_ASSIGN_OR_RETURN(PagedContext context, PagedContext::Make(spec, std::move(units)));
  return StreamContext(std::move(context), std::move(heads));
}

StatusOr<StreamSelections> StreamSelections::Make(const StreamContext& context,
                                                  QueryOptions queries, const PageBudget& budget) {
  const KvSpec& spec = context.spec();
  const uint64_t seed = queries.seed;
  queries.group_size = spec.group_size();
  StreamSelections selections(context, budget);
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      queries.seed = SeedOf(seed, layer, head);
      selections.streams_.emplace_back(context.pages(layer, head), queries);
    }
  }
  QUIRE_RETURN_IF_ERROR(selections.Select());
  return selections;
}

Status StreamSelections::Step() {
  for (QueryStream& stream : streams_) stream.Step();
  return Select();
}

Status StreamSelections::Select() {
  const KvSpec& spec = context_->spec();
  StepSelection selection;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    std::vector<float> queries;
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      std::ranges::copy(streams_[size_t{layer} * spec.num_kv_heads + head].queries(),
                        std::back_inserter(queries));
    }
    QUIRE_ASSIGN_OR_RETURN(auto selected,
                           context_->Select(layer, queries, budget_, context_->num_pages()));
    selection.push_back(std::move(selected));
  }
  selection_ = std::move(selection);
  return OkStatus();
}

}  // namespace quire::bench
