// SPDX-License-Identifier: Apache-2.0
#include "client/routing/nearest_answer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace quire::internal {
namespace {

/// Time that each of several calls in flight is waited for in turn.
constexpr Duration kTurnOfNode = std::chrono::milliseconds(1);

/// Calls to nodes, begun one after another.
class NodeRace {
 public:
  NodeRace(ClusterMembers* members, std::span<const std::string> addresses, std::string_view method,
           std::string request)
      : members_(*members),
        clock_(*members->options().clock),
        addresses_(addresses),
        method_(method),
        request_(std::move(request)) {}

  StatusOr<std::string> Winner() {
    for (;;) {
      const bool none_runs = std::ranges::none_of(runs_, &Run::is_running);
      if (none_runs && runs_.size() == addresses_.size()) return silence_;
      if (none_runs || (runs_.size() < addresses_.size() && clock_.Now() >= next_)) StartNext();
      for (size_t i = 0; i < runs_.size(); ++i) {
        if (runs_[i].is_running() && Answers(&runs_[i])) return addresses_[i];
      }
    }
  }

 private:
  struct Run {
    std::unique_ptr<PendingCall> call;
    TimePoint end;
    bool is_running() const { return call != nullptr; }
  };

  void StartNext() {
    Run run{.call = nullptr, .end = clock_.Now() + members_.options().node_timeout};
    auto call = members_.Start(addresses_[runs_.size()], method_, request_);
    if (call.ok()) {
      run.call = *std::move(call);
    } else {
      NoteSilence(call.status(), runs_.size());
    }
    runs_.push_back(std::move(run));
    next_ = clock_.Now() + kNextNodeAfter;
  }

  /// True when the node has answered. A run that is over is none any more.
  bool Answers(Run* run) {
    const auto part = run->call->Next(std::min(clock_.Now() + kTurnOfNode, run->end));
    if (IsDeadlineExceeded(part.status()) && clock_.Now() < run->end) return false;
    if (!IsSilence(part.status())) return true;
    run->call->Cancel();
    run->call.reset();
    NoteSilence(part.status(), static_cast<size_t>(run - runs_.data()));
    return false;
  }

  void NoteSilence(const Status& why, size_t node) {
    silence_.Update(Unavailable("node at ", addresses_[node], ": ", Message(why)));
    members_.NoteDoubt();
  }

  ClusterMembers& members_;
  Clock& clock_;
  const std::span<const std::string> addresses_;
  const std::string_view method_;
  const std::string request_;
  std::vector<Run> runs_;
  TimePoint next_ = TimePoint::min();
  Status silence_;
};

}  // namespace

StatusOr<std::string> NearestToAnswer(ClusterMembers* members,
                                      std::span<const std::string> addresses,
                                      std::string_view method,
                                      const google::protobuf::Message& request) {
  if (addresses.empty()) return Unavailable("there is no node to ask");
  return NodeRace(members, addresses, method, request.SerializeAsString()).Winner();
}

}  // namespace quire::internal
