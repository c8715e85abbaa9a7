// SPDX-License-Identifier: Apache-2.0
//
// ClusterMembers: a client's view of a cluster, read from any node and kept for a while, and its
// connections to the nodes. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_CLIENT_ROUTING_CLUSTER_MEMBERS_H_
#define QUIRE_CLIENT_ROUTING_CLUSTER_MEMBERS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/placement/placement.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class ClusterMembers {
 public:
  /// `options` are complete (DocumentRouter::Create).
  explicit ClusterMembers(DocumentRouter::Options options) : options_(std::move(options)) {}

  /// Members of the cluster, as a server told them.
  struct Told {
    std::shared_ptr<const cluster::Placement> placement;
    std::string frozen = {};  ///< Why the view may be old; empty when it is current.
    uint64_t epoch() const { return placement->view().epoch; }
  };
  /// The view, read anew until `end` when it is too old. UNAVAILABLE when no server tells it.
  /// FAILED_PRECONDITION when the servers are of another cluster than before.
  StatusOr<Told> Current(TimePoint end) QUIRE_EXCLUDES(mutex_);
  /// End of something that may take `timeout` from now on.
  TimePoint EndOf(Duration timeout) const {
    const TimePoint now = options_.clock->Now();
    return timeout > TimePoint::max() - now ? TimePoint::max() : now + timeout;
  }
  /// The view may be old, as when a member did not answer. It is read anew before its next use.
  void NoteDoubt() QUIRE_EXCLUDES(mutex_);

  const DocumentRouter::Options& options() const { return options_; }
  StatusOr<std::shared_ptr<Transport>> ConnectTo(const std::string& address) QUIRE_EXCLUDES(mutex_);
  /// Begins a call to the node at `address`, within its time.
  StatusOr<std::unique_ptr<PendingCall>> Start(const std::string& address, std::string_view method,
                                               std::string request);
  /// One call to the node at `address`, within its time and until `end`.
  template <typename Reply>
  StatusOr<Reply> Ask(const std::string& address, std::string_view method,
                      const google::protobuf::Message& request, TimePoint end) {
    QUIRE_ASSIGN_OR_RETURN(const CallMessage answer,
                           Answer(address, method, request.SerializeAsString(), end));
    Reply reply;
    if (reply.ParseFromString(answer.control)) return reply;
    return Internal("node at ", address, ": its reply is no ", reply.GetTypeName());
  }

 private:
  StatusOr<Told> Read(TimePoint end) QUIRE_EXCLUDES(mutex_);
  /// Asks one server. FAILED_PRECONDITION when it is of another cluster than `known`.
  StatusOr<Told> ToldBy(const std::string& address, const std::optional<Told>& known,
                        TimePoint end);
  std::optional<Told> Known() QUIRE_EXCLUDES(mutex_);
  std::vector<std::string> AddressesToAsk() QUIRE_EXCLUDES(mutex_);
  StatusOr<CallMessage> Answer(const std::string& address, std::string_view method,
                               std::string request, TimePoint end);

  const DocumentRouter::Options options_;
  Mutex mutex_;
  std::optional<Told> known_ QUIRE_GUARDED_BY(mutex_);
  TimePoint read_at_ QUIRE_GUARDED_BY(mutex_);
  bool known_is_old_ QUIRE_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Transport>> nodes_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_CLUSTER_MEMBERS_H_
