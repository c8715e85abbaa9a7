// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/session_convert.h"

#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"

namespace quire::kvserver {
namespace {

/// The wire's pooling numbers are the kernels'; 0 means the default.
static_assert(static_cast<int>(kernels::Pooling::kMaxQ) == v1::POOLING_MAX_Q);
static_assert(static_cast<int>(kernels::Pooling::kAvgSdM) == v1::POOLING_AVG_SDM);

StatusOr<PageQuery> QueryFromProto(const v1::QuerySelection& proto) {
  PageQuery query;
  QUIRE_ASSIGN_OR_RETURN(
      query.query,
      wire::FloatsFromBytes(proto.query(), proto.query().size() / sizeof(float), "query"));
  query.ranges = {{.first_page = proto.first_page(), .end_page = proto.end_page()}};
  query.num_pages = proto.num_pages();
  const int pooling = proto.pooling();
  if (pooling < v1::POOLING_UNSPECIFIED || pooling > v1::POOLING_AVG_SDM) {
    return InvalidArgument("pooling is ", pooling, ": must be 0..", v1::POOLING_AVG_SDM);
  }
  if (pooling != v1::POOLING_UNSPECIFIED) query.pooling = static_cast<kernels::Pooling>(pooling);
  if (proto.scale() != 0) query.scale = proto.scale();
  return query;
}

StatusOr<LayerWant> WantFromProto(const v1::LayerRecall& proto) {
  LayerWant want;
  want.layer = proto.layer();
  if (proto.has_query()) {
    QUIRE_ASSIGN_OR_RETURN(want.query, QueryFromProto(proto.query()));
    return want;
  }
  if (!proto.has_units()) return InvalidArgument("a layer has neither units nor a query");
  for (const v1::HeadPages& head : proto.units().heads()) {
    QUIRE_ASSIGN_OR_RETURN(auto pages,
                           wire::AscendingFromProto(head.pages(), wire::kMaxContextPages, "pages"));
    want.pages.push_back(std::move(pages));
  }
  return want;
}

void PlacementsToProto(const std::vector<Placement>& placements, v1::HeadPlacement* proto) {
  const int count = static_cast<int>(placements.size());
  proto->mutable_slots()->Reserve(count);
  proto->mutable_generations()->Reserve(count);
  proto->mutable_pages()->Reserve(count);
  proto->mutable_replaced()->Reserve(count);
  for (const Placement& placement : placements) {
    proto->add_slots(placement.slot);
    proto->add_generations(placement.generation);
    proto->add_pages(placement.page);
    proto->add_replaced(placement.replaced);
  }
}

}  // namespace

StatusOr<SessionManager::OpenArgs> OpenArgsFromProto(const v1::OpenSessionRequest& proto) {
  SessionManager::OpenArgs args;
  QUIRE_ASSIGN_OR_RETURN(args.context, wire::ContextRefFromProto<DocumentName>(proto.context()));
  QUIRE_ASSIGN_OR_RETURN(args.spec, wire::KvSpecFromProto(proto.spec()));
  args.slots_per_head = proto.slots_per_head();
  args.managed_layers.assign(proto.managed_layers().begin(), proto.managed_layers().end());
  return args;
}

StatusOr<RecallArgs> RecallArgsFromProto(const v1::RecallRequest& proto) {
  RecallArgs args{proto.epoch(), proto.sequence(), proto.acked_sequence(), {}};
  args.layers.reserve(static_cast<size_t>(proto.layers_size()));
  for (const v1::LayerRecall& layer : proto.layers()) {
    auto want = WantFromProto(layer);
    if (!want.ok()) return Annotate(want.status(), "layer ", layer.layer());
    args.layers.push_back(*std::move(want));
  }
  return args;
}

StatusOr<std::vector<LayerSlots>> LayerSlotsFromProto(const v1::ResyncRequest& proto) {
  std::vector<LayerSlots> layers;
  for (const v1::LayerMap& map : proto.layers()) {
    LayerSlots& layer = layers.emplace_back();
    layer.layer = map.layer();
    for (const v1::HeadMap& head : map.heads()) {
      layer.pages.emplace_back(head.pages().begin(), head.pages().end());
      layer.generations.emplace_back(head.generations().begin(), head.generations().end());
    }
  }
  return layers;
}

void RecallAnswerToProto(const RecallArgs& args, const RecallAnswer& answer,
                         v1::RecallReply* proto) {
  proto->set_sequence(args.sequence);
  proto->set_epoch(args.epoch);
  for (const LayerPlacement& layer : answer.layers) {
    v1::LayerPlacement* out = proto->add_layers();
    out->set_layer(layer.layer);
    for (const auto& placements : layer.heads) PlacementsToProto(placements, out->add_heads());
    for (const auto& pages : layer.selected) {
      out->add_selected()->mutable_pages()->Add(pages.begin(), pages.end());
    }
  }
}

}  // namespace quire::kvserver
