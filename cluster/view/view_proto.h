// SPDX-License-Identifier: Apache-2.0
//
// Views and their parts on the wire and in etcd. Pure functions.
#ifndef QUIRE_CLUSTER_VIEW_VIEW_PROTO_H_
#define QUIRE_CLUSTER_VIEW_VIEW_PROTO_H_

#include <string_view>

#include "cluster/view/cluster_view.h"
#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

[[nodiscard]] v1::ClusterMember ToProto(const Member& member);
[[nodiscard]] v1::ClusterSettings ToProto(const ClusterSettings& settings);
/// Names the hot documents of `tenant` only, without what keeps them hot.
[[nodiscard]] v1::ClusterView ToProto(const ClusterView& view, std::string_view tenant);
/// Fills defaults for what is 0. INVALID_ARGUMENT for names, weights or settings out of range.
[[nodiscard]] StatusOr<Member> FromProto(const v1::ClusterMember& member);
[[nodiscard]] StatusOr<ClusterSettings> FromProto(const v1::ClusterSettings& settings);
/// INVALID_ARGUMENT without a name, or for extra_replicas out of range.
[[nodiscard]] StatusOr<HotDocument> FromProto(const v1::HotDocument& document);
/// Also INVALID_ARGUMENT for a name or node id that two members have.
[[nodiscard]] StatusOr<ClusterView> FromProto(const v1::ClusterView& view);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_VIEW_VIEW_PROTO_H_
