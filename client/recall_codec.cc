// SPDX-License-Identifier: Apache-2.0
#include "client/recall_codec.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "client/validate.h"
#include "common/page/layout.h"
#include "common/wire/convert.h"
#include "common/wire/limits.h"

namespace quire {
namespace {

static_assert(static_cast<int>(RecallPooling::kMaxQ) + 1 == v1::POOLING_MAX_Q);
static_assert(static_cast<int>(RecallPooling::kAvgSdM) + 1 == v1::POOLING_AVG_SDM);

bool IsAscending(std::span<const uint32_t> pages) {
  return std::adjacent_find(pages.begin(), pages.end(), std::greater_equal<>()) == pages.end();
}

Status CheckPages(const LayerWant& want, const KvSpec& spec, const ResidentMap& map) {
  if (want.pages.size() != spec.num_kv_heads) {
    return InvalidArgument("layer ", want.layer, ": ", want.pages.size(), " page lists for ",
                           spec.num_kv_heads, " KV heads");
  }
  for (const std::vector<uint32_t>& pages : want.pages) {
    if (pages.size() > map.slots_per_head()) {
      return InvalidArgument("layer ", want.layer, ": ", pages.size(), " pages for ",
                             map.slots_per_head(),
                             " slots per head; select fewer or open the session with more slots");
    }
    if (!IsAscending(pages) || (!pages.empty() && pages.back() >= wire::kMaxContextPages)) {
      return InvalidArgument("layer ", want.layer, ": pages must be ascending, distinct and below ",
                             wire::kMaxContextPages);
    }
  }
  return OkStatus();
}

Status CheckQuery(const LayerWant& want, const KvSpec& spec, const ResidentMap& map) {
  const size_t floats = size_t{spec.num_query_heads} * spec.key_dim();
  if (want.query.size() != floats) {
    return InvalidArgument("layer ", want.layer, ": a query of ", want.query.size(),
                           " floats; [n_q][d] is ", floats);
  }
  if (want.first_page >= want.end_page || want.end_page > wire::kMaxContextPages) {
    return InvalidArgument("layer ", want.layer, ": the candidate pages [", want.first_page, ", ",
                           want.end_page, ") must be a range of 1 to ", wire::kMaxContextPages,
                           " pages");
  }
  if (want.num_pages == 0 || want.num_pages > map.slots_per_head()) {
    return InvalidArgument("layer ", want.layer, ": num_pages is ", want.num_pages,
                           "; it must be 1 to ", map.slots_per_head(), ", the slots per head");
  }
  return OkStatus();
}

/// Reads the placements of one reply. `after_` and `slots_` are scratch, kept between heads.
class ReplyReader {
 public:
  ReplyReader(const ResidentMap& map, RecallResult* result) : map_(map), result_(result) {}

  Status ReadLayer(const v1::LayerPlacement& layer, const LayerWant& want) {
    if (layer.layer() != want.layer)
      return DataLoss("layer ", layer.layer(), " instead of ", want.layer);
    const uint32_t heads = map_.num_heads();
    if (static_cast<uint32_t>(layer.heads_size()) != heads) {
      return DataLoss("layer ", want.layer, " has ", layer.heads_size(), " heads instead of ",
                      heads);
    }
    const bool by_query = !want.query.empty();
    if (static_cast<uint32_t>(layer.selected_size()) != (by_query ? heads : 0)) {
      return DataLoss("layer ", want.layer, " has ", layer.selected_size(), " selections");
    }
    QUIRE_RETURN_IF_ERROR(ReadSelected(layer, want));
    for (uint32_t head = 0; head < heads; ++head) {
      const auto& wanted = by_query ? result_->selected.back()[head] : want.pages[head];
      const Status status = ReadHead(layer.heads(head), want.layer, head, wanted);
      if (!status.ok()) return Annotate(status, "layer ", want.layer, ", head ", head);
    }
    return OkStatus();
  }

 private:
  Status ReadSelected(const v1::LayerPlacement& layer, const LayerWant& want) {
    auto& selected = result_->selected.emplace_back();
    for (const v1::HeadPages& head : layer.selected()) {
      const auto& pages = selected.emplace_back(head.pages().begin(), head.pages().end());
      const bool in_range =
          pages.empty() || (pages.front() >= want.first_page && pages.back() < want.end_page);
      if (pages.size() > want.num_pages || !IsAscending(pages) || !in_range) {
        return DataLoss("layer ", want.layer, ": a selection is not ", want.num_pages,
                        " pages of [", want.first_page, ", ", want.end_page,
                        ") in ascending order");
      }
    }
    return OkStatus();
  }

  Status ReadHead(const v1::HeadPlacement& head, uint32_t layer, uint32_t head_index,
                  const std::vector<uint32_t>& wanted) {
    const int count = head.slots_size();
    if (head.generations_size() != count || head.pages_size() != count ||
        head.replaced_size() != count) {
      return DataLoss("placement arrays of different lengths");
    }
    const auto before = map_.Slots(layer, head_index);
    slots_.assign(before.begin(), before.end());
    for (int i = 0; i < count; ++i) {
      const Placement placement{.layer = layer,
                                .head = head_index,
                                .slot = head.slots(i),
                                .generation = head.generations(i),
                                .page = head.pages(i),
                                .replaced = head.replaced(i)};
      QUIRE_RETURN_IF_ERROR(Place(placement, wanted));
      result_->placements.push_back(placement);
    }
    return CheckResident(wanted);
  }

  Status Place(const Placement& placement, const std::vector<uint32_t>& wanted) {
    if (placement.slot >= slots_.size())
      return DataLoss("slot ", placement.slot, " of ", slots_.size());
    ResidentMap::Slot& slot = slots_[placement.slot];
    if (placement.generation != slot.generation + 1 || placement.replaced != slot.page) {
      return DataLoss("slot ", placement.slot, " holds page ", slot.page, " of generation ",
                      slot.generation, "; the placement replaces page ", placement.replaced,
                      " by generation ", placement.generation);
    }
    if (!std::binary_search(wanted.begin(), wanted.end(), placement.page)) {
      return DataLoss("page ", placement.page, " was not asked for");
    }
    slot = {static_cast<int32_t>(placement.page), placement.generation};
    return OkStatus();
  }

  /// After the placements, no page may lie in two slots and every wanted one must lie in one.
  Status CheckResident(const std::vector<uint32_t>& wanted) {
    after_.clear();
    for (const ResidentMap::Slot& slot : slots_) {
      if (slot.page >= 0) after_.push_back(static_cast<uint32_t>(slot.page));
    }
    std::sort(after_.begin(), after_.end());
    if (!IsAscending(after_)) return DataLoss("a page would lie in two slots");
    if (!std::includes(after_.begin(), after_.end(), wanted.begin(), wanted.end())) {
      return DataLoss("a page that was asked for is neither resident nor placed");
    }
    return OkStatus();
  }

  const ResidentMap& map_;
  RecallResult* const result_;
  std::vector<ResidentMap::Slot> slots_;
  std::vector<uint32_t> after_;
};

}  // namespace

Status CheckWants(std::span<const LayerWant> wants, const KvSpec& spec, const ResidentMap& map) {
  std::vector<bool> asked(spec.num_layers);
  for (const LayerWant& want : wants) {
    if (!map.Manages(want.layer)) {
      return InvalidArgument("layer ", want.layer,
                             " has no slots in this session; name it in managed_layers");
    }
    if (asked[want.layer]) return InvalidArgument("layer ", want.layer, " is asked for twice");
    asked[want.layer] = true;
    if (want.pages.empty() == want.query.empty()) {
      return InvalidArgument("layer ", want.layer, ": give either pages or a query");
    }
    QUIRE_RETURN_IF_ERROR(want.query.empty() ? CheckPages(want, spec, map)
                                             : CheckQuery(want, spec, map));
  }
  return wants.empty() ? InvalidArgument("a recall asks for at least one layer") : OkStatus();
}

void WantsToProto(std::span<const LayerWant> wants, v1::RecallRequest* request) {
  for (const LayerWant& want : wants) {
    v1::LayerRecall& layer = *request->add_layers();
    layer.set_layer(want.layer);
    for (const std::vector<uint32_t>& pages : want.pages) {
      layer.mutable_units()->add_heads()->mutable_pages()->Add(pages.begin(), pages.end());
    }
    if (want.query.empty()) continue;
    v1::QuerySelection& query = *layer.mutable_query();
    query.set_query(wire::FloatsToBytes(want.query));
    query.set_first_page(want.first_page);
    query.set_end_page(want.end_page);
    query.set_num_pages(want.num_pages);
    query.set_pooling(static_cast<v1::Pooling>(static_cast<int>(want.pooling) + 1));
    query.set_scale(want.scale);
  }
}

StatusOr<RecallResult> RecallFromProto(const v1::RecallReply& reply, Payload payload,
                                       const v1::RecallRequest& request,
                                       std::span<const LayerWant> wants, const KvSpec& spec,
                                       const ResidentMap& map) {
  if (reply.sequence() != request.sequence() || reply.epoch() != request.epoch()) {
    return DataLoss("it is for sequence ", reply.sequence(), " of epoch ", reply.epoch(),
                    ", not for ", request.sequence(), " of ", request.epoch());
  }
  if (static_cast<size_t>(reply.layers_size()) != wants.size()) {
    return DataLoss(reply.layers_size(), " layers instead of ", wants.size());
  }
  RecallResult result;
  result.sequence = reply.sequence();
  ReplyReader reader(map, &result);
  for (size_t i = 0; i < wants.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(reader.ReadLayer(reply.layers(static_cast<int>(i)), wants[i]));
  }
  const std::span<const uint32_t> checksums(reply.unit_crc32c().data(), reply.unit_crc32c().size());
  QUIRE_RETURN_IF_ERROR(CheckUnits(payload, result.placements.size(), UnitBytes(spec), checksums));
  result.payload = std::move(payload);
  return result;
}

void MapToProto(const ResidentMap& map, v1::ResyncRequest* request) {
  for (const uint32_t layer_index : map.layers()) {
    v1::LayerMap& layer = *request->add_layers();
    layer.set_layer(layer_index);
    for (uint32_t head = 0; head < map.num_heads(); ++head) {
      v1::HeadMap& out = *layer.add_heads();
      for (const ResidentMap::Slot& slot : map.Slots(layer_index, head)) {
        out.add_pages(slot.page);
        out.add_generations(slot.generation);
      }
    }
  }
}

}  // namespace quire
