// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_scheduler.h"

#include <algorithm>
#include <chrono>

#include "common/base/retry_hint.h"
#include "gpuworker/model/decoder.h"

namespace quire::worker {
namespace {

constexpr uint32_t kMostRunning = 256;
constexpr uint32_t kMostWaiting = 65536;
constexpr Duration kRetryWhenFull = std::chrono::milliseconds(100);

Status CheckRange(const char* name, uint64_t value, uint64_t low, uint64_t high) {
  if (low <= value && value <= high) return OkStatus();
  return InvalidArgument(name, " is ", value, "; it must be ", low, " to ", high);
}

}  // namespace

Status Validate(const BatchLimits& limits) {
  QUIRE_RETURN_IF_ERROR(CheckRange("max_running", limits.max_running, 1, kMostRunning));
  QUIRE_RETURN_IF_ERROR(CheckRange("max_waiting", limits.max_waiting, 1, kMostWaiting));
  QUIRE_RETURN_IF_ERROR(CheckRange("step_tokens", limits.step_tokens, 1, Decoder::kBlockTokens));
  if (limits.step_tokens < limits.max_running) {
    return InvalidArgument("step_tokens is ", limits.step_tokens, ", less than max_running (",
                           limits.max_running,
                           "): every running sequence takes a token of a step; raise the first or "
                           "lower the second");
  }
  return OkStatus();
}

StatusOr<BatchScheduler::Id> BatchScheduler::Add(const Request& request) {
  QUIRE_RETURN_IF_ERROR(CheckRange("priority", request.priority, 0, kMaxPriority));
  const uint64_t most = request.demand.Bytes(request.most_tokens);
  if (most > limits_.slot_bytes) {
    return ResourceExhausted(
        "a sequence of up to ", request.most_tokens, " tokens needs ", most,
        " bytes of slots, more than the ", limits_.slot_bytes, " that this worker has, where ",
        request.demand.MostTokens(limits_.slot_bytes, request.most_tokens),
        " tokens fit; ask for fewer, lower the budget, keep fewer layers uncompressed, or raise "
        "slot_bytes");
  }
  if (waiting() >= limits_.max_waiting) {
    return WithRetryAfter(ResourceExhausted(limits_.max_waiting,
                                            " sequences wait for this worker already; try again "
                                            "in a moment"),
                          kRetryWhenFull);
  }
  const Id id = next_id_++;
  // Places start beyond the largest head start, so that none is negative.
  const uint64_t place = id + kHeadStart * (kMaxPriority - request.priority);
  const Rank rank{.place = place, .id = id};
  sequences_[rank] = {.id = id, .request = request};
  ranks_[id] = rank;
  return id;
}

uint64_t BatchScheduler::NextPage(const Sequence& sequence) {
  const Request& request = sequence.request;
  const uint64_t next = std::min(request.num_tokens + 1 + request.demand.page_tokens,
                                 std::max(request.most_tokens, request.num_tokens + 1));
  return request.BytesAt(next) - request.BytesAt(request.num_tokens + 1);
}

bool BatchScheduler::Fits(const Sequence& sequence, const Room& room) {
  if (room.places == 0 || room.tokens == 0) return false;
  const uint64_t bytes = sequence.request.BytesAt(sequence.request.num_tokens + 1);
  if (bytes > room.bytes) return false;
  if (sequence.phase == Phase::kRunning || !room.somebody) return true;
  return bytes + room.next_pages + NextPage(sequence) <= room.bytes;
}

void BatchScheduler::Take(const Sequence& sequence, Room* room) {
  --room->places;
  --room->tokens;
  room->bytes -= sequence.request.BytesAt(sequence.request.num_tokens + 1);
  room->next_pages += NextPage(sequence);
  room->somebody = true;
}

uint32_t BatchScheduler::Extra(const Sequence& sequence, const Room& room) {
  const Request& request = sequence.request;
  uint64_t tokens =
      std::min(request.pending, request.is_dense() ? request.dense_tokens - request.num_tokens
                                                   : uint64_t{request.max_step_tokens});
  tokens = std::min<uint64_t>(tokens, uint64_t{1} + room.tokens);
  const uint64_t held = request.BytesAt(request.num_tokens + 1);
  while (tokens > 1 && request.BytesAt(request.num_tokens + tokens) - held > room.bytes) {
    tokens -= std::min<uint64_t>(tokens - 1, request.demand.page_tokens);
  }
  return static_cast<uint32_t>(tokens - 1);
}

BatchScheduler::Plan BatchScheduler::Next() {
  Plan plan;
  Room room{
      .places = limits_.max_running, .tokens = limits_.step_tokens, .bytes = limits_.slot_bytes};
  bool blocked = false;
  for (auto& [rank, sequence] : sequences_) {
    const bool ran = sequence.phase == Phase::kRunning;
    if (!ran && blocked) continue;
    if (Fits(sequence, room)) {
      Take(sequence, &room);
      if (!ran) plan.start.push_back(sequence.id);
      sequence.phase = Phase::kRunning;
      plan.run.push_back({.id = sequence.id, .tokens = 1});
    } else if (ran) {
      plan.preempt.push_back(sequence.id);
      sequence.phase = Phase::kPreempted;
    } else {
      blocked = true;
    }
  }
  for (Share& share : plan.run) {
    const Sequence& sequence = Find(share.id);
    const uint32_t extra = Extra(sequence, room);
    share.tokens += extra;
    room.tokens -= extra;
    const Request& request = sequence.request;
    room.bytes -= request.BytesAt(request.num_tokens + share.tokens) -
                  request.BytesAt(request.num_tokens + 1);
  }
  return plan;
}

std::vector<SequenceLoad> BatchScheduler::Loads(const Plan& plan) const {
  std::vector<SequenceLoad> loads;
  for (const Share& share : plan.run) {
    const Request& request = Find(share.id).request;
    loads.push_back({.demand = &request.demand,
                     .dense = request.is_dense() ? &request.dense : nullptr,
                     .tokens = request.num_tokens + share.tokens,
                     .most_tokens = request.most_tokens,
                     .starts = std::ranges::find(plan.start, share.id) != plan.start.end()});
  }
  return loads;
}

void BatchScheduler::OnStepDone(Id id, uint64_t tokens, uint64_t pending) {
  Request& request = Find(id).request;
  request.num_tokens += tokens;
  request.pending = pending;
}

void BatchScheduler::Restart(Id id, uint64_t num_tokens, uint64_t pending, uint64_t dense_tokens) {
  Sequence& sequence = Find(id);
  sequence.phase = Phase::kPreempted;
  sequence.request.num_tokens = num_tokens;
  sequence.request.pending = pending;
  sequence.request.dense_tokens = dense_tokens;
}

void BatchScheduler::Remove(Id id) {
  sequences_.erase(ranks_.at(id));
  ranks_.erase(id);
}

size_t BatchScheduler::Count(Phase phase) const {
  return static_cast<size_t>(std::ranges::count_if(
      sequences_, [&](const auto& entry) { return entry.second.phase == phase; }));
}
size_t BatchScheduler::running() const { return Count(Phase::kRunning); }
size_t BatchScheduler::waiting() const { return Count(Phase::kWaiting); }
size_t BatchScheduler::preempted() const { return Count(Phase::kPreempted); }

uint64_t BatchScheduler::slot_bytes(uint32_t offloaded) const {
  uint64_t bytes = 0;
  for (const auto& [rank, sequence] : sequences_) {
    if (sequence.phase != Phase::kRunning) continue;
    const Request& request = sequence.request;
    const SequenceLoad load{.demand = &request.demand,
                            .dense = request.is_dense() ? &request.dense : nullptr,
                            .tokens = request.num_tokens};
    const auto layers = static_cast<uint32_t>(request.demand.buffer_slots.size());
    bytes += load.Bytes(layers, 0)[std::min(offloaded, layers)];
  }
  return bytes;
}

}  // namespace quire::worker
