// SPDX-License-Identifier: Apache-2.0
//
// GrpcCalls: limits on the calls of a gRPC server that hold a thread, from request to the end of
// the answer. Calls are counted per tenant. A call whose client does not read the answer in time is
// cancelled, so a client cannot occupy threads by not reading. A refusal is an answer too, and only
// a limited number hold a thread at a time. Further calls that would be refused are cut off without
// an answer.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/periodic_task.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace grpc {
class CallbackGenericService;
class ServerBuilder;
class ServerContext;
namespace internal {
class MethodHandler;
}  // namespace internal
}  // namespace grpc

namespace quire {

class GrpcCalls {
 public:
  struct Limits {
    uint32_t max_calls = UINT32_MAX;  ///< Most admitted calls, over all tenants.
    uint32_t max_per_tenant = UINT32_MAX;
    uint32_t max_refusals = UINT32_MAX;  ///< Most refusals being sent, over all callers.
    /// Longest time for an answer, in addition to the time it takes at kSlowestBytesPerSecond.
    Duration stall_timeout = std::chrono::seconds(30);
  };
  static constexpr uint64_t kSlowestBytesPerSecond = uint64_t{1} << 20;

  /// `health` receives the calls that are refused, cut off or cancelled; it may be null, and
  /// outlives the calls.
  GrpcCalls(const Limits& limits, Health* health);
  ~GrpcCalls();

  /// Gives the server `threads` threads for these calls, and some more for refusals. When gRPC has
  /// no thread for a call, its last one reports that and waits for the client without a limit. The
  /// extra threads serve calls that are refused or cut off here, each within a moment. Unknown
  /// methods take no thread.
  void Configure(uint32_t threads, grpc::ServerBuilder* builder);

  /// A handler that counts the calls of `inner`. The calls outlive it.
  std::unique_ptr<grpc::internal::MethodHandler> Count(
      std::unique_ptr<grpc::internal::MethodHandler> inner);

  /// Admits the call of `context` for `tenant`. RESOURCE_EXHAUSTED with a retry hint when that
  /// tenant, or all together, have reached their limit.
  [[nodiscard]] Status Admit(grpc::ServerContext* context, const std::string& tenant)
      QUIRE_EXCLUDES(mutex_);
  /// Notes that the handler has made an answer of `bytes` bytes, which is being sent from now on.
  /// For a call that was not admitted the answer is a refusal.
  void Answering(grpc::ServerContext* context, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Notes that the client has read the part being sent, and that the next one is not made yet.
  void Taken(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);

  /// Number of calls that hold a thread.
  size_t size() const QUIRE_EXCLUDES(mutex_);
  uint64_t refused() const { return refused_.Get(); }
  uint64_t stalled() const { return stalled_.Get(); }
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  class Handler;
  struct Call {
    std::string tenant;  ///< Empty while not admitted.
    bool refused = false;
    TimePoint answer_end = TimePoint::max();  ///< Deadline for the client to read the answer.
  };
  /// Notes that `context` has a thread; it stays valid until OnThreadLeft.
  void OnThreadEntered(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);
  void OnThreadLeft(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);
  void CancelStalled() QUIRE_EXCLUDES(mutex_);
  /// Counts a call of `tenant` if the limits allow it.
  [[nodiscard]] Status Take(grpc::ServerContext* context, const std::string& tenant)
      QUIRE_EXCLUDES(mutex_);

  const Limits limits_;
  Health* const health_;
  const std::unique_ptr<grpc::CallbackGenericService> unknown_;  ///< Answers unknown methods.
  Counter refused_, cut_off_, stalled_;
  mutable Mutex mutex_;
  std::map<grpc::ServerContext*, Call> calls_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t> of_tenants_ QUIRE_GUARDED_BY(mutex_);
  uint32_t admitted_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t refusals_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Number of refusals being sent.
  PeriodicTask sweeper_;                            ///< Last member, because it uses the others.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_
