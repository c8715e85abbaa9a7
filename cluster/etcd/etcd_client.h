// SPDX-License-Identifier: Apache-2.0
//
// EtcdClient: calls to etcd's v3 API over gRPC. A call goes to the endpoint that answered last.
// When that one cannot be reached, the others are tried in turn until the call's time is over.
//
// A call that was lost on the way is made again, so a transaction may be carried out twice. Its
// comparisons must make the second one fail: compare the revisions of the keys that it changes.
//
// Thread-safety: all methods may be called concurrently. Errors name the endpoint. They are
// UNAVAILABLE when no endpoint answers in time, and NOT_FOUND for a lease that has ended. They are
// OUT_OF_RANGE for a revision that etcd has compacted, and others as etcd gives them.
#ifndef QUIRE_CLUSTER_ETCD_ETCD_CLIENT_H_
#define QUIRE_CLUSTER_ETCD_ETCD_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etcd/etcd.pb.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace quire::cluster {

struct EtcdOptions {
  std::vector<std::string> endpoints;               ///< "host:port", at least one.
  Duration call_timeout = std::chrono::seconds(3);  ///< Time of one call at all endpoints.
};

class EtcdClient {
 public:
  /// Connects at the first call. INVALID_ARGUMENT for no endpoint or a malformed one.
  static StatusOr<std::unique_ptr<EtcdClient>> Create(const EtcdOptions& options);
  virtual ~EtcdClient();

  /// "127.0.0.1:2379,127.0.0.1:2389", for messages.
  const std::string& endpoints() const { return endpoints_; }

  /// Reads the newest state of keys.
  virtual StatusOr<etcdserverpb::RangeResponse> Read(const etcdserverpb::RangeRequest& request);
  /// The same for every key that begins with `prefix`.
  StatusOr<etcdserverpb::RangeResponse> ReadPrefix(std::string_view prefix);
  virtual StatusOr<etcdserverpb::TxnResponse> Commit(const etcdserverpb::TxnRequest& txn);

  /// Grants a lease of at least `ttl`, rounded up to seconds. Returns its id.
  virtual StatusOr<int64_t> GrantLease(Duration ttl);
  /// Renews a lease for its whole time. NOT_FOUND when it has ended.
  virtual Status KeepAlive(int64_t lease);
  /// Ends a lease and deletes its keys.
  virtual Status RevokeLease(int64_t lease);

  /// A running Watch, which another thread or its deadline may end.
  class WatchCall;
  using OnWatchResponse = std::function<Status(const etcdserverpb::WatchResponse&)>;
  /// Watches keys that begin with `prefix`, from `first_revision` on. Hands each response to
  /// `on_response`, and returns its error, or why the stream ended. DEADLINE_EXCEEDED at the call's
  /// deadline.
  virtual Status Watch(std::string_view prefix, int64_t first_revision, WatchCall& call,
                       const OnWatchResponse& on_response);

 protected:
  /// For simulations, which override the calls.
  explicit EtcdClient(const EtcdOptions& options);

 private:
  struct Endpoint;
  using OneCall = std::function<grpc::Status(Endpoint&, grpc::ClientContext&)>;
  /// Makes one call, at one endpoint after another.
  Status Call(const OneCall& call);
  /// The next call goes to the endpoint behind `failed`.
  void LeaveEndpoint(size_t failed);

  const EtcdOptions options_;
  std::string endpoints_;
  std::vector<std::unique_ptr<Endpoint>> all_;
  std::atomic<size_t> current_{0};
};

class EtcdClient::WatchCall {
 public:
  /// The deadline is one of the system's monotonic clock.
  explicit WatchCall(TimePoint deadline = TimePoint::max());
  ~WatchCall();
  /// Ends the watch, or the next one when none runs. Thread-safe.
  void Cancel();

 private:
  friend class EtcdClient;
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_ETCD_ETCD_CLIENT_H_
