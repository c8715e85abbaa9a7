// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/adapters/unit_fetch.h"

#include <numeric>

#include "quire/layout.h"

namespace quire::kvserver {

StatusOr<std::vector<UnitBytes>> FetchRanges(PageStore& store, const Caller& caller,
                                             const ContextViewPtr& view,
                                             std::span<const UnitRange> ranges,
                                             const UnitSizes& sizes, uint64_t max_bytes) {
  const KvSpec& spec = *view->spec;
  const uint64_t unit_bytes = sizes.raw();
  uint64_t count = 0;
  for (const UnitRange& range : ranges) {
    const uint64_t heads = range.heads.empty() ? spec.num_kv_heads : range.heads.size();
    count += range.pages.size() * heads;
    if (count > max_bytes / unit_bytes) {
      return ResourceExhausted("more than ", max_bytes / unit_bytes, " units of ", unit_bytes,
                               " bytes do not fit in one reply: fetch fewer at a time");
    }
  }
  std::vector<uint32_t> all_heads(spec.num_kv_heads);
  std::iota(all_heads.begin(), all_heads.end(), 0u);
  std::vector<UnitRef> refs;
  refs.reserve(count);
  for (const UnitRange& range : ranges) {
    for (const uint32_t page : range.pages) {
      for (const uint32_t head : range.heads.empty() ? all_heads : range.heads) {
        refs.push_back({range.layer, page, head});
      }
    }
  }
  std::vector<UnitBytes> units;
  QUIRE_RETURN_IF_ERROR(ReadUnits(store, caller, view, refs, &units, sizes.sent()));
  for (const UnitBytes& unit : units) {
    if (unit.size_bytes() == sizes.Of(unit.codec())) continue;
    return Internal("a unit is stored in ", unit.size_bytes(), " bytes, and its codec makes ",
                    sizes.Of(unit.codec()));
  }
  return units;
}

StatusOr<ChainStat> StatContext(PageStore& store, std::string_view tenant,
                                const ContextView& view) {
  ChainStat stat;
  if (!view.keys->empty()) {
    const uint64_t tail_tokens = view.tail.size() * uint64_t{view.spec->page_tokens};
    const Chain stored{*view.spec, *view.keys, view.num_tokens - tail_tokens};
    QUIRE_ASSIGN_OR_RETURN(stat, store.StatChain(tenant, stored));
  }
  stat.bytes += SegmentBytes(*view.spec, static_cast<uint32_t>(view.tail.size()));
  return stat;
}

StatusOr<uint32_t> DeleteSegments(DocumentRegistry& registry, std::string_view tenant,
                                  std::span<const SegmentKey> keys) {
  for (const SegmentKey& key : keys) {
    QUIRE_RETURN_IF_ERROR(registry.CheckUnreferenced(tenant, key));
  }
  uint32_t deleted = 0;
  for (const SegmentKey& key : keys) {
    const Status status = registry.DeleteSegment(tenant, key);
    if (status.ok()) ++deleted;
    if (!status.ok() && !IsNotFound(status)) return status;
  }
  if (deleted == 0) return NotFound("none of the ", keys.size(), " segments is stored");
  return deleted;
}

}  // namespace quire::kvserver
