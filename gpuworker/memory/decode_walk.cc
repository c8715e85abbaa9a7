// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/decode_walk.h"

#include <algorithm>
#include <deque>

namespace quire::worker {
namespace {

struct Request {
  uint32_t number;
  uint64_t length;
  uint64_t end;  ///< Length at which it leaves.
};

class Walk {
 public:
  Walk(const MemoryModel& model, const DecodeLoad& load)
      : model_(model), memory_(&model, load.lead_steps) {
    for (uint32_t i = 0; i < load.prompts.size(); ++i) {
      waiting_.push_back({i, load.prompts[i], load.prompts[i] + load.generated});
    }
  }

  StatusOr<DecodeWalk> Run() {
    QUIRE_RETURN_IF_ERROR(CheckEachAlone());
    for (; !running_.empty() || !waiting_.empty(); ++walk_.steps) Step();
    return std::move(walk_);
  }

 private:
  Status CheckEachAlone() const {
    for (const Request& request : waiting_) {
      if (model_.FewestOffloaded(model_.LoadOf(1, request.end))) continue;
      return InvalidArgument(
          "request ", request.number,
          " does not fit by itself with every layer off the device: ", request.end, " tokens take ",
          static_cast<uint64_t>(model_.Bytes(model_.num_layers(), model_.LoadOf(1, request.end))),
          " bytes of ", model_.options().device_bytes);
    }
    return OkStatus();
  }

  void Step() {
    const bool started = StartRequests();
    const StepMemory memory = memory_.BeforeStep(Lengths());
    for (uint32_t i = 0; i < memory.preempted; ++i) Preempt();
    NoteLayers(memory, started);
    for (Request& request : running_) ++request.length;
    walk_.most_running = std::max(walk_.most_running, static_cast<uint32_t>(running_.size()));
    walk_.most_bytes = std::max(walk_.most_bytes, model_.Bytes(memory.offloaded, Load()));
    std::erase_if(running_, [&](const Request& request) {
      if (request.length < request.end) return false;
      Note(DecodeEventKind::kFinished, request.number, request.length);
      return true;
    });
  }

  /// A request that is alone starts without the room that Admits wants: it fits to its end.
  bool StartRequests() {
    bool started = false;
    while (!waiting_.empty() &&
           (running_.empty() || memory_.Admits(Lengths(), waiting_.front().length))) {
      running_.push_back(waiting_.front());
      waiting_.pop_front();
      Note(DecodeEventKind::kStarted, running_.back().number, running_.back().length);
      started = true;
    }
    return started;
  }

  void Preempt() {
    Note(DecodeEventKind::kPreempted, running_.back().number, running_.back().length);
    waiting_.push_front(running_.back());
    running_.pop_back();
  }

  void NoteLayers(const StepMemory& memory, bool started) {
    const uint32_t last = model_.num_layers() - 1;
    uint64_t longest = 0;
    for (const Request& request : running_) longest = std::max(longest, request.length);
    for (; written_ < memory.written; ++written_) {
      Note(DecodeEventKind::kWriteBegins, last - written_, longest);
    }
    written_ = memory.written;
    const uint32_t before = offloaded_;
    for (; offloaded_ < memory.offloaded; ++offloaded_) {
      Note(DecodeEventKind::kLayerLeaves, last - offloaded_, longest);
    }
    if (!started) {
      walk_.most_left_in_a_step = std::max(walk_.most_left_in_a_step, offloaded_ - before);
    }
    for (; offloaded_ > memory.offloaded; --offloaded_) {
      Note(DecodeEventKind::kLayerReturns, last - (offloaded_ - 1), longest);
    }
    walk_.most_offloaded = std::max(walk_.most_offloaded, offloaded_);
  }

  std::vector<uint64_t> Lengths() const {
    std::vector<uint64_t> lengths;
    for (const Request& request : running_) lengths.push_back(request.length);
    return lengths;
  }
  MemoryLoad Load() const {
    MemoryLoad load;
    for (const Request& request : running_) {
      load.tokens += request.length;
      load.buffered += std::min(request.length, model_.options().budget_tokens);
    }
    return load;
  }
  void Note(DecodeEventKind kind, uint32_t subject, uint64_t tokens) {
    walk_.events.push_back(
        {.step = walk_.steps, .kind = kind, .subject = subject, .tokens = tokens});
  }

  const MemoryModel& model_;
  AdaptiveMemory memory_;
  std::deque<Request> waiting_;
  std::vector<Request> running_;  ///< Oldest first.
  uint32_t offloaded_ = 0;
  uint32_t written_ = 0;
  DecodeWalk walk_;
};

}  // namespace

std::string_view Name(DecodeEventKind kind) {
  switch (kind) {
    case DecodeEventKind::kStarted:
      return "started";
    case DecodeEventKind::kPreempted:
      return "preempted";
    case DecodeEventKind::kFinished:
      return "finished";
    case DecodeEventKind::kWriteBegins:
      return "write begins";
    case DecodeEventKind::kLayerLeaves:
      return "layer leaves";
    case DecodeEventKind::kLayerReturns:
      return "layer returns";
  }
  return "unknown";
}

StatusOr<DecodeWalk> WalkDecode(const MemoryModel& model, const DecodeLoad& load) {
  if (load.prompts.empty() || load.generated == 0) {
    return InvalidArgument("a decode needs one request or more, and one token or more of each");
  }
  return Walk(model, load).Run();
}

}  // namespace quire::worker
