// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_queue.h"

#include <chrono>
#include <utility>

namespace quire::worker {
namespace {

constexpr uint32_t kMostRunning = 64;

}  // namespace

ReuseStats ReuseAnswer::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

void ReuseAnswer::SetStats(const ReuseStats& stats) {
  MutexLock lock(mutex_);
  stats_ = stats;
}

StatusOr<std::unique_ptr<ReuseQueue>> ReuseQueue::Create(const Engine* engine,
                                                         const ReuseLimits& limits) {
  if (limits.max_running == 0 || limits.max_running > kMostRunning) {
    return InvalidArgument("max_running is ", limits.max_running, "; it must be 1 to ",
                           kMostRunning);
  }
  return std::unique_ptr<ReuseQueue>(new ReuseQueue(engine, limits));
}

ReuseQueue::ReuseQueue(const Engine* engine, const ReuseLimits& limits)
    : engine_(engine),
      threads_({.threads = limits.max_running, .queue_limit = limits.max_waiting}) {}

ReuseQueue::~ReuseQueue() { stopping_ = true; }

StatusOr<std::shared_ptr<ReuseAnswer>> ReuseQueue::Submit(ReuseRequest request) {
  auto answer = std::make_shared<ReuseAnswer>();
  waiting_.Add();
  const Status queued = threads_.Submit([this, answer, request = std::move(request)] {
    waiting_.Sub(1);
    running_.Add();
    Run(request, answer.get());
    running_.Sub(1);
  });
  if (!queued.ok()) {
    waiting_.Sub(1);
    refused_.Add();
    return Annotate(queued, "too many questions over several documents wait");
  }
  submitted_.Add();
  return answer;
}

void ReuseQueue::Run(const ReuseRequest& request, ReuseAnswer* answer) {
  BatchResult result;
  Status status = Compute(request, answer, &result);
  if (stopping_) status = Unavailable("the worker shuts down; ask another one");
  if (!status.ok()) failed_.Add();
  answer->stream.Finish(std::move(status), result);
}

Status ReuseQueue::Compute(const ReuseRequest& request, ReuseAnswer* answer, BatchResult* result) {
  const auto keep_going = [this, answer] { return !stopping_ && !answer->stream.cancelled(); };
  ReuseOptions options = request.options;
  options.keep_going = keep_going;
  options.max_new_tokens = request.params.max_new_tokens;
  if (!keep_going()) return MakeStatus(StatusCode::kCancelled, "the question was cancelled");
  QUIRE_ASSIGN_OR_RETURN(const auto run,
                         engine_->OpenReuse(request.documents, request.question, options));
  answer->SetStats(run->stats());
  bytes_read_.Add(run->stats().bytes_read);
  prefills_.Record(std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(run->stats().seconds_prefill)));
  GenerateParams params = request.params;
  params.on_token = [&](TokenId token) {
    answer->stream.Push(token);
    return keep_going();
  };
  QUIRE_ASSIGN_OR_RETURN(const Generation generation, run->Generate(params));
  answer->SetStats(run->stats());
  result->num_new_tokens = generation.tokens.size();
  result->stopped = generation.stopped;
  return OkStatus();
}

void ReuseQueue::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("reuse_questions", "Questions over several documents taken in.", submitted_.Get());
  visit.Counter("reuse_refused", "Questions refused because enough were waiting.", refused_.Get());
  visit.Counter("reuse_failed", "Questions that ended with an error or were cancelled.",
                failed_.Get());
  visit.Counter("reuse_read_bytes", "Units of documents read for such questions.",
                bytes_read_.Get());
  visit.Gauge("reuse_waiting", "Questions over several documents that have not started.",
              waiting_.Get());
  visit.Gauge("reuse_running", "Questions over several documents that are computed.",
              running_.Get());
  visit.Histogram("reuse_prefill_seconds", "Time from a question's start to its first token.",
                  prefills_);
}

}  // namespace quire::worker
