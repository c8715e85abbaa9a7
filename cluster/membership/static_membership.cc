// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/static_membership.h"

#include "cluster/membership/cluster_records.h"
#include "common/base/net_address.h"
#include "common/base/small_file.h"

namespace quire::cluster {
namespace {

constexpr size_t kMaxMembersFileBytes = size_t{1} << 20;

Status CheckMembers(const ClusterView& view) {
  QUIRE_RETURN_IF_ERROR(CheckClusterName("the cluster's name", view.name));
  if (view.members.empty()) return InvalidArgument("it lists no members");
  for (const Member& member : view.members) {
    QUIRE_RETURN_IF_ERROR(
        Annotate(NetAddress::ParseServer(member.address).status(), "node ", member.name));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<StaticMembership>> StaticMembership::ReadFile(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const SmallFile file, ReadSmallFile(path, kMaxMembersFileBytes));
  v1::ClusterView proto;
  QUIRE_RETURN_IF_ERROR(FromJsonText(path, file.text, &proto));
  auto view = FromProto(proto);
  if (!view.ok()) return Annotate(view.status(), path);
  QUIRE_RETURN_IF_ERROR(Annotate(CheckMembers(*view), path));
  return std::make_unique<StaticMembership>(*std::move(view));
}

}  // namespace quire::cluster
