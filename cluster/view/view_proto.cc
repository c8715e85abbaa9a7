// SPDX-License-Identifier: Apache-2.0
#include "cluster/view/view_proto.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "cluster/placement/placement_key.h"

namespace quire::cluster {
namespace {

MemberState StateOf(v1::ClusterMemberState state) {
  switch (state) {
    case v1::CLUSTER_MEMBER_STATE_DRAINING:
      return MemberState::kDraining;
    case v1::CLUSTER_MEMBER_STATE_LEFT:
      return MemberState::kLeft;
    case v1::CLUSTER_MEMBER_STATE_LOST:
      return MemberState::kLost;
    default:
      return MemberState::kUp;
  }
}

v1::ClusterMemberState ToProto(MemberState state) {
  switch (state) {
    case MemberState::kUp:
      return v1::CLUSTER_MEMBER_STATE_UP;
    case MemberState::kDraining:
      return v1::CLUSTER_MEMBER_STATE_DRAINING;
    case MemberState::kLeft:
      return v1::CLUSTER_MEMBER_STATE_LEFT;
    case MemberState::kLost:
      return v1::CLUSTER_MEMBER_STATE_LOST;
  }
  return v1::CLUSTER_MEMBER_STATE_UNSPECIFIED;
}

}  // namespace

v1::ClusterMember ToProto(const Member& member) {
  v1::ClusterMember proto;
  proto.set_name(member.name);
  proto.set_node_id(member.node_id);
  proto.set_state(ToProto(member.state));
  proto.set_zone(member.zone);
  proto.set_weight(member.weight);
  proto.set_address(member.address);
  proto.set_protocol(member.protocol);
  proto.set_oldest_protocol(member.oldest_protocol);
  proto.set_version(member.version);
  proto.set_incarnation(member.incarnation);
  proto.set_dram_bytes(member.dram_bytes);
  proto.set_ssd_bytes(member.ssd_bytes);
  return proto;
}

v1::ClusterSettings ToProto(const ClusterSettings& settings) {
  v1::ClusterSettings proto;
  proto.set_replicas(settings.replicas);
  proto.set_max_clock_skew_millis(settings.max_clock_skew_millis);
  proto.set_min_replicas(settings.min_replicas);
  proto.set_copy_bytes_per_second(settings.copy_bytes_per_second);
  proto.set_hot_reads_per_second(settings.hot_reads_per_second);
  proto.set_hot_replicas(settings.hot_replicas);
  proto.set_hot_keep_seconds(settings.hot_keep_seconds);
  return proto;
}

v1::ClusterView ToProto(const ClusterView& view, std::string_view tenant) {
  v1::ClusterView proto;
  proto.set_name(view.name);
  proto.set_cluster_id(view.id);
  proto.set_epoch(view.epoch);
  *proto.mutable_settings() = ToProto(view.settings);
  for (const Member& member : view.members) *proto.add_members() = ToProto(member);
  for (const HotDocument& hot : view.hot_documents) {
    if (hot.tenant != tenant) continue;
    v1::HotDocument& told = *proto.add_hot_documents();
    told.set_tenant(hot.tenant);
    told.set_collection(hot.collection);
    told.set_document(hot.document);
    told.set_extra_replicas(hot.extra_replicas);
  }
  return proto;
}

StatusOr<Member> FromProto(const v1::ClusterMember& proto) {
  QUIRE_RETURN_IF_ERROR(CheckClusterName("the node's name", proto.name()));
  if (!proto.zone().empty()) QUIRE_RETURN_IF_ERROR(CheckClusterName("the zone", proto.zone()));
  const uint32_t weight = proto.weight() == 0 ? 1 : proto.weight();
  if (weight > kMaxMemberWeight) {
    return InvalidArgument("node ", proto.name(), ": its weight is ", weight, ", must be 1..",
                           kMaxMemberWeight);
  }
  const uint32_t protocol = proto.protocol() == 0 ? kClusterProtocol : proto.protocol();
  const uint32_t oldest = proto.oldest_protocol() == 0 ? protocol : proto.oldest_protocol();
  return Member{.name = proto.name(),
                .node_id = proto.node_id().empty() ? proto.name() : proto.node_id(),
                .state = StateOf(proto.state()),
                .zone = proto.zone(),
                .weight = weight,
                .address = proto.address(),
                .protocol = protocol,
                .oldest_protocol = std::min(oldest, protocol),
                .version = proto.version(),
                .incarnation = proto.incarnation(),
                .dram_bytes = proto.dram_bytes(),
                .ssd_bytes = proto.ssd_bytes()};
}

StatusOr<ClusterSettings> FromProto(const v1::ClusterSettings& proto) {
  ClusterSettings settings;
  if (proto.replicas() > kMaxReplicas) {
    return InvalidArgument("replicas is ", proto.replicas(), ", must be 1..", kMaxReplicas);
  }
  if (proto.replicas() > 0) settings.replicas = proto.replicas();
  if (proto.max_clock_skew_millis() > 0) {
    settings.max_clock_skew_millis = proto.max_clock_skew_millis();
  }
  if (proto.min_replicas() > kMaxReplicas) {
    return InvalidArgument("min_replicas is ", proto.min_replicas(), ", must be 1..", kMaxReplicas);
  }
  if (proto.min_replicas() > 0) settings.min_replicas = proto.min_replicas();
  if (proto.has_copy_bytes_per_second()) {
    settings.copy_bytes_per_second = proto.copy_bytes_per_second();
  }
  if (proto.has_hot_reads_per_second()) {
    settings.hot_reads_per_second = proto.hot_reads_per_second();
  }
  if (proto.hot_replicas() > kMaxReplicas) {
    return InvalidArgument("hot_replicas is ", proto.hot_replicas(), ", must be 1..", kMaxReplicas);
  }
  if (proto.hot_replicas() > 0) settings.hot_replicas = proto.hot_replicas();
  if (proto.hot_keep_seconds() == 0) return settings;
  if (proto.hot_keep_seconds() < kMinHotKeepSeconds ||
      proto.hot_keep_seconds() > kMaxHotKeepSeconds) {
    return InvalidArgument("hot_keep_seconds is ", proto.hot_keep_seconds(), ", must be ",
                           kMinHotKeepSeconds, "..", kMaxHotKeepSeconds);
  }
  settings.hot_keep_seconds = proto.hot_keep_seconds();
  return settings;
}

StatusOr<HotDocument> FromProto(const v1::HotDocument& proto) {
  if (proto.tenant().empty() || proto.collection().empty() || proto.document().empty()) {
    return InvalidArgument("a hot document has no tenant, collection or name");
  }
  if (proto.extra_replicas() < 1 || proto.extra_replicas() > kMaxReplicas) {
    return InvalidArgument("hot document ", proto.document(), ": extra_replicas is ",
                           proto.extra_replicas(), ", must be 1..", kMaxReplicas);
  }
  return HotDocument{
      .tenant = proto.tenant(),
      .collection = proto.collection(),
      .document = proto.document(),
      .extra_replicas = proto.extra_replicas(),
      .placement_hash = KeyOfDocument(proto.tenant(), proto.collection(), proto.document()).hash,
      .lease = proto.lease()};
}

StatusOr<ClusterView> FromProto(const v1::ClusterView& proto) {
  ClusterView view{.name = proto.name(), .id = proto.cluster_id(), .epoch = proto.epoch()};
  QUIRE_ASSIGN_OR_RETURN(view.settings, FromProto(proto.settings()));
  std::set<std::string> names, ids;
  for (const v1::ClusterMember& member : proto.members()) {
    QUIRE_ASSIGN_OR_RETURN(Member parsed, FromProto(member));
    if (!names.insert(parsed.name).second) {
      return InvalidArgument("two members are named ", parsed.name, ": name each node once");
    }
    if (!ids.insert(parsed.node_id).second) {
      return InvalidArgument("two members have the node id ", parsed.node_id);
    }
    view.members.push_back(std::move(parsed));
  }
  std::ranges::sort(view.members, {}, &Member::name);
  for (const v1::HotDocument& document : proto.hot_documents()) {
    QUIRE_ASSIGN_OR_RETURN(HotDocument parsed, FromProto(document));
    view.hot_documents.push_back(std::move(parsed));
  }
  std::ranges::sort(view.hot_documents, {}, &HotDocument::placement_hash);
  return view;
}

}  // namespace quire::cluster
