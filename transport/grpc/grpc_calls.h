// SPDX-License-Identifier: Apache-2.0
//
// GrpcCalls: the calls of a gRPC server that hold a thread, from their request to the end of their
// answer: how many of whom, and since when the client takes nothing of an answer. One that does not
// take it in time is cancelled, so that nobody keeps threads by taking nothing. A refusal is an
// answer, too: of those only some hold a thread at a time, and further calls that would be refused
// are cut off without a word.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/periodic_task.h"
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
    uint32_t max_calls = UINT32_MAX;  ///< Admitted calls of all tenants.
    uint32_t max_per_tenant = UINT32_MAX;
    uint32_t max_refusals = UINT32_MAX;  ///< Refusals of all callers, while they are sent.
    /// For an answer, besides the time that it takes at kSlowestBytesPerSecond.
    Duration stall_timeout = std::chrono::seconds(30);
  };
  static constexpr uint64_t kSlowestBytesPerSecond = uint64_t{1} << 20;

  /// `health` is told of calls that are refused, cut off or cancelled; it may be null, and outlives
  /// the calls.
  GrpcCalls(const Limits& limits, Health* health);
  ~GrpcCalls();

  /// For a server whose calls these are: `threads` may hold one. Where gRPC has none for a call,
  /// its last one says so and waits for the client to take it, for ever; so the server has more,
  /// for calls that are refused or cut off here, each in a moment. Unknown methods take none.
  void Configure(uint32_t threads, grpc::ServerBuilder* builder);

  /// A handler that tells of the calls of `inner`. The calls outlive it.
  std::unique_ptr<grpc::internal::MethodHandler> Count(
      std::unique_ptr<grpc::internal::MethodHandler> inner);

  /// Its call is of `tenant`. RESOURCE_EXHAUSTED with a retry hint when that one, or all together,
  /// have enough, until answers have been sent.
  [[nodiscard]] Status Admit(grpc::ServerContext* context, const std::string& tenant)
      QUIRE_EXCLUDES(mutex_);
  /// Its handler has made an answer of so many bytes, which is sent from now on. For a call that
  /// was not admitted that is a refusal.
  void Answering(grpc::ServerContext* context, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// The client has taken the part of an answer that was being sent, and the next is not made yet.
  void Taken(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);

  /// Number of calls that hold a thread.
  size_t size() const QUIRE_EXCLUDES(mutex_);
  uint64_t refused() const { return refused_.Get(); }
  uint64_t stalled() const { return stalled_.Get(); }
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  class Handler;
  struct Call {
    std::string tenant;  ///< Empty: not admitted.
    bool refused = false;
    TimePoint answer_end = TimePoint::max();  ///< When the answer must be taken.
  };
  /// `context` has a thread; it stays valid until Left.
  void Entered(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);
  void Left(grpc::ServerContext* context) QUIRE_EXCLUDES(mutex_);
  void CancelStalled() QUIRE_EXCLUDES(mutex_);
  /// Takes in a call of `tenant`, if it may come.
  [[nodiscard]] Status Take(grpc::ServerContext* context, const std::string& tenant)
      QUIRE_EXCLUDES(mutex_);

  const Limits limits_;
  Health* const health_;
  const std::unique_ptr<grpc::CallbackGenericService> unknown_;  ///< Answers what nobody does.
  Counter refused_, cut_off_, stalled_;
  mutable Mutex mutex_;
  std::map<grpc::ServerContext*, Call> calls_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t> of_tenants_ QUIRE_GUARDED_BY(mutex_);
  uint32_t admitted_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t refusals_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< That are being sent.
  PeriodicTask sweeper_;                            ///< The last member: it uses the others.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CALLS_H_
