// SPDX-License-Identifier: Apache-2.0
#include "cluster/view/view_proto.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

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
  return proto;
}

v1::ClusterView ToProto(const ClusterView& view) {
  v1::ClusterView proto;
  proto.set_name(view.name);
  proto.set_cluster_id(view.id);
  proto.set_epoch(view.epoch);
  *proto.mutable_settings() = ToProto(view.settings);
  for (const Member& member : view.members) *proto.add_members() = ToProto(member);
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
  return settings;
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
  return view;
}

}  // namespace quire::cluster
