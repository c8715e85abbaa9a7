// SPDX-License-Identifier: Apache-2.0
#include "cluster/view/view_proto.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/cluster.pb.h"

namespace quire::kvserver {

void AddClusterMethods(const ClusterPlace& place, const Clock* clock, Dispatcher* dispatcher) {
  dispatcher->Add<v1::ClusterViewRequest, v1::ClusterViewReply>(
      "quire.v1.Cluster/View",
      [membership = place.membership, clock](const Call& call, const v1::ClusterViewRequest&,
                                             v1::ClusterViewReply* reply) -> Status {
        if (membership == nullptr) {
          return FailedPrecondition("the server is in no cluster: start it with --cluster");
        }
        *reply->mutable_view() = cluster::ToProto(*membership->View(), call.tenant);
        if (const Status frozen = membership->Frozen(); !frozen.ok()) {
          reply->set_frozen(std::string(Message(frozen)));
        }
        reply->set_unix_micros(clock->UnixMicros());
        return OkStatus();
      });
}

}  // namespace quire::kvserver
