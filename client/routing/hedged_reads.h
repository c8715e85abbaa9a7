// SPDX-License-Identifier: Apache-2.0
//
// HedgedReads: reads that are asked of a second node when the first is slow. Slow is later than the
// 95th percentile of the latest answers to the same method. The first good answer counts, and the
// other call is cancelled. An error of the second node counts for nothing.
//
// A time is taken from the start of the call that was answered, so that a slow node does not make
// the pace slow. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_CLIENT_ROUTING_HEDGED_READS_H_
#define QUIRE_CLIENT_ROUTING_HEDGED_READS_H_

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "client/routing/node_choice.h"
#include "client/routing/read_pace.h"
#include "common/base/observe/counters.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class HedgedReads {
 public:
  /// Methods that read what every node with the documents has.
  static constexpr std::array<std::string_view, 6> kMethods = {
      "quire.v1.Store/Lookup",     "quire.v1.Store/Fetch",  "quire.v1.Store/Stat",
      "quire.v1.Store/ReadTokens", "quire.v1.Registry/Get", "quire.v1.Registry/GetExtra"};
  /// Place in kMethods; nullopt for a call that is no such read.
  static std::optional<size_t> MethodIndex(std::string_view method);

  /// `choice` and `clock` outlive this. Deadlines of the transports' calls are on `clock`.
  HedgedReads(NodeChoice* choice, Clock* clock) : choice_(*choice), clock_(*clock) {}

  /// Calls method `index` of kMethods at `node`, and at a second node when that is slow: `given`,
  /// or a spare of the choice when it is null. Errors are those of `node`. Sets `*reply` only on
  /// OK.
  Status Call(const NodeChoice::Node& node, size_t index, const CallMessage& request,
              CallMessage* reply, const CallOptions& options,
              const NodeChoice::Node* given = nullptr);

  uint64_t num_reads() const { return reads_.Get(); }
  uint64_t num_hedged() const { return hedged_.Get(); }  ///< A second node was asked.
  uint64_t num_won() const { return won_.Get(); }        ///< The second node answered first.

 private:
  /// A call in flight, or none after its end.
  struct Run {
    std::unique_ptr<PendingCall> call;
    TimePoint start;
    TimePoint end;
    Status failure = {};
  };
  /// Waits until `until` for the answer. True when it has come; the run is over then, or when it
  /// has a failure.
  bool Poll(Run* run, TimePoint until, CallMessage* reply);
  Run Start(const NodeChoice::Node& node, size_t index, const CallMessage& request,
            const CallOptions& options);
  /// Waits for the first good answer, or both failures, of which that of `first` counts.
  Status Race(Run* first, Run* second, size_t index, CallMessage* reply);
  Status Unhedged(const NodeChoice::Node& node, size_t index, const CallMessage& request,
                  CallMessage* reply, const CallOptions& options);

  NodeChoice& choice_;
  Clock& clock_;
  std::array<ReadPace, kMethods.size()> paces_;
  Counter reads_, hedged_, won_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_HEDGED_READS_H_
