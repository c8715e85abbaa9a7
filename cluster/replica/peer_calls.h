// SPDX-License-Identifier: Apache-2.0
//
// PeerCalls: PeerNodes over transports. It keeps a transport to each address that it called. A
// segment comes in several replies when it does not fit in one. A member that did not answer in
// time is UNAVAILABLE to reads and questions for the next ten seconds. Thread-safety: all methods
// may be called concurrently.
#ifndef QUIRE_CLUSTER_REPLICA_PEER_CALLS_H_
#define QUIRE_CLUSTER_REPLICA_PEER_CALLS_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/replica/peer_nodes.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "transport/transport.h"

namespace google::protobuf {
class Message;
}

namespace quire::cluster {

class PeerCalls final : public PeerNodes {
 public:
  /// Makes a transport to an address.
  using Connect = std::function<StatusOr<std::unique_ptr<Transport>>(const std::string& address)>;
  /// `timeout` bounds each call without a deadline.
  explicit PeerCalls(Connect connect, Duration timeout = std::chrono::seconds(30))
      : connect_(std::move(connect)), timeout_(timeout) {}

  StatusOr<ChainDescription> Describe(const Member& member, std::string_view tenant,
                                      const SegmentKey& tip) override;
  StatusOr<SegmentCopy> Read(const Member& member, std::string_view tenant, const KvSpec& spec,
                             const SegmentKey& key) override;
  StatusOr<std::vector<ExtraCopy>> ReadExtras(const Member& member, std::string_view tenant,
                                              const DocumentName& name) override;
  StatusOr<std::vector<Held>> Holds(const Member& member, std::string_view tenant,
                                    std::span<const Document> documents) override;
  Status CopyChain(const Member& member, std::string_view tenant, const SegmentKey& tip,
                   std::string_view from, TimePoint deadline) override;
  Status Adopt(const Member& member, std::string_view tenant, const DocumentName& name,
               TimePoint deadline) override;
  Status CopyExtras(const Member& member, std::string_view tenant, const DocumentName& name,
                    std::string_view from, TimePoint deadline) override;

 private:
  StatusOr<std::shared_ptr<Transport>> TransportTo(const std::string& address)
      QUIRE_EXCLUDES(mutex_);
  Status Call(const Member& member, std::string_view tenant, std::string_view method,
              const google::protobuf::Message& request, google::protobuf::Message* reply,
              Payload* payload, Duration timeout);
  /// Call, unless the member was silent of late.
  Status Ask(const Member& member, std::string_view tenant, std::string_view method,
             const google::protobuf::Message& request, google::protobuf::Message* reply,
             Payload* payload, Duration timeout) QUIRE_EXCLUDES(mutex_);
  /// Adds the units from the end of `segment` on.
  Status ReadMore(const Member& member, std::string_view tenant, const SegmentKey& key,
                  SegmentCopy* segment);
  Status ReadRepresentatives(const Member& member, std::string_view tenant, const SegmentKey& key,
                             SegmentCopy* segment);

  const Connect connect_;
  const Duration timeout_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Transport>> transports_ QUIRE_GUARDED_BY(mutex_);
  /// Ends of the pauses of addresses that did not answer.
  std::map<std::string, TimePoint> silent_until_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_PEER_CALLS_H_
