// SPDX-License-Identifier: Apache-2.0
#include "client/routing/hedged_reads.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace quire::internal {
namespace {

/// Time that each of two calls in flight is waited for in turn.
constexpr Duration kTurn = std::chrono::microseconds(500);

}  // namespace

std::optional<size_t> HedgedReads::MethodIndex(std::string_view method) {
  const auto found = std::ranges::find(kMethods, method);
  if (found == kMethods.end()) return std::nullopt;
  return static_cast<size_t>(found - kMethods.begin());
}

bool HedgedReads::Poll(Run* run, TimePoint until, CallMessage* reply) {
  if (run->call == nullptr) return false;
  auto part = run->call->Next(std::min(until, run->end));
  if (IsDeadlineExceeded(part.status()) && clock_.Now() < run->end) return false;
  run->failure = part.status();
  if (part.ok() && !part->has_value()) {
    run->failure = Internal("the server answered without a reply");
  }
  run->call.reset();
  if (!run->failure.ok()) return false;
  *reply = **std::move(part);
  return true;
}

HedgedReads::Run HedgedReads::Start(const NodeChoice::Node& node, size_t index,
                                    const CallMessage& request, const CallOptions& options) {
  Run run{.call = nullptr, .start = clock_.Now(), .end = {}};
  run.end = run.start + options.timeout;
  auto call = node.transport->Start(kMethods[index], request, options);
  run.failure = call.status();
  if (call.ok()) run.call = *std::move(call);
  return run;
}

Status HedgedReads::Unhedged(const NodeChoice::Node& node, size_t index, const CallMessage& request,
                             CallMessage* reply, const CallOptions& options) {
  const TimePoint start = clock_.Now();
  const Status status = node.transport->Call(kMethods[index], request, reply, options);
  if (status.ok()) paces_[index].Add(clock_.Now() - start);
  return status;
}

Status HedgedReads::Call(const NodeChoice::Node& node, size_t index, const CallMessage& request,
                         CallMessage* reply, const CallOptions& options,
                         const NodeChoice::Node* given) {
  reads_.Add();
  const std::optional<Duration> slow_after = paces_[index].SlowAfter();
  std::optional<NodeChoice::Node> spare;
  if (slow_after && *slow_after < options.timeout) {
    spare = given != nullptr ? std::optional(*given) : choice_.Spare(node);
  }
  if (!spare) return Unhedged(node, index, request, reply, options);
  Run first = Start(node, index, request, options);
  if (Poll(&first, first.start + *slow_after, reply)) {
    paces_[index].Add(clock_.Now() - first.start);
    return OkStatus();
  }
  if (first.call == nullptr) return first.failure;
  hedged_.Add();
  CallOptions rest = options;
  rest.timeout = std::max<Duration>(first.end - clock_.Now(), kTurn);
  Run second = Start(*spare, index, request, rest);
  const Status status = Race(&first, &second, index, reply);
  choice_.Note(node, first.failure);
  choice_.Note(*spare, second.failure);
  return status;
}

Status HedgedReads::Race(Run* first, Run* second, size_t index, CallMessage* reply) {
  while (first->call != nullptr || second->call != nullptr) {
    const bool first_answered = Poll(first, clock_.Now() + kTurn, reply);
    if (!first_answered && !Poll(second, clock_.Now() + kTurn, reply)) continue;
    if (!first_answered) won_.Add();
    paces_[index].Add(clock_.Now() - (first_answered ? first : second)->start);
    return OkStatus();
  }
  return first->failure;
}

}  // namespace quire::internal
