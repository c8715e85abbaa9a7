// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace quire::worker {
namespace {

constexpr uint32_t kMostReuses = 64;

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
  if (limits.max_running == 0 || limits.max_running > kMostReuses) {
    return InvalidArgument("max_running is ", limits.max_running, "; it must be 1 to ",
                           kMostReuses);
  }
  return std::unique_ptr<ReuseQueue>(new ReuseQueue(engine, limits));
}

ReuseQueue::ReuseQueue(const Engine* engine, const ReuseLimits& limits)
    : engine_(engine),
      limits_(limits),
      order_(limits.window),
      threads_({.threads = limits.max_running, .queue_limit = limits.max_waiting}) {}

ReuseQueue::~ReuseQueue() { stopping_ = true; }

StatusOr<std::shared_ptr<ReuseAnswer>> ReuseQueue::Submit(ReuseRequest request) {
  auto answer = std::make_shared<ReuseAnswer>();
  const ReuseWork work = limits_.window == 0 ? ReuseWork{} : WorkOf(request);
  MutexLock lock(mutex_);  // RunNext finds the question.
  const Status queued = threads_.Submit([this] { RunNext(); });
  if (!queued.ok()) {
    refused_.Add();
    return Annotate(queued, "too many questions over several documents wait");
  }
  Span span = ChildOfCurrent("reuse");
  Span queue = span.Child("queue");
  order_.Add({std::move(request), answer, std::move(span), std::move(queue)}, work);
  waiting_.Add();
  submitted_.Add();
  return answer;
}

ReuseWork ReuseQueue::WorkOf(const ReuseRequest& request) const {
  ReuseWork work{.to_compute = request.question.size()};
  for (const DocumentName& name : request.documents) {
    const auto stat = engine_->client().Stat(ContextRef(name));
    if (!stat.ok()) continue;
    const uint64_t tokens = stat->context.num_tokens;
    const uint64_t in_dram = std::min<uint64_t>(
        tokens, uint64_t{stat->segments_in_dram} * engine_->spec().segment_tokens());
    const uint64_t reused = request.options.method == ReuseMethod::kFull ? 0 : in_dram;
    work.cached += reused;
    work.to_compute += tokens - reused;
  }
  return work;
}

void ReuseQueue::RunNext() {
  Question question = [this] {
    MutexLock lock(mutex_);
    return order_.Take();
  }();
  question.queue.End();
  const CurrentSpanScope current(&question.span);
  waiting_.Sub(1);
  running_.Add();
  Run(question.request, question.answer.get());
  running_.Sub(1);
}

void ReuseQueue::Run(const ReuseRequest& request, ReuseAnswer* answer) {
  BatchResult result;
  std::unique_ptr<ReuseRun> run;
  Status status = Compute(request, answer, &run, &result);
  if (stopping_) status = Unavailable("the worker shuts down; ask another one");
  const bool answered = status.ok();
  if (!answered) failed_.Add();
  answer->stream.Finish(std::move(status), result);
  if (answered) variants_kept_.Add(run->KeepVariants());
}

Status ReuseQueue::Compute(const ReuseRequest& request, ReuseAnswer* answer,
                           std::unique_ptr<ReuseRun>* opened, BatchResult* result) {
  const auto keep_going = [this, answer] { return !stopping_ && !answer->stream.cancelled(); };
  ReuseOptions options = request.options;
  options.keep_going = keep_going;
  options.max_new_tokens = request.params.max_new_tokens;
  if (options.variants == 0) options.variants = limits_.variants;
  if (!keep_going()) return MakeStatus(StatusCode::kCancelled, "the question was cancelled");
  QUIRE_ASSIGN_OR_RETURN(*opened, engine_->OpenReuse(request.documents, request.question, options));
  ReuseRun* const run = opened->get();
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
  variants_used_.Add(run->stats().variants_used);
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
  const uint64_t passed = [this] {
    MutexLock lock(mutex_);
    return order_.passed();
  }();
  visit.Counter("reuse_passed_over",
                "Times that a waiting question was passed over by one with more in DRAM.", passed);
  visit.Counter("reuse_variants_used", "Documents read as they were computed behind others.",
                variants_used_.Get());
  visit.Counter("reuse_variants_kept", "Documents kept as they were computed behind others.",
                variants_kept_.Get());
  visit.Gauge("reuse_waiting", "Questions over several documents that have not started.",
              waiting_.Get());
  visit.Gauge("reuse_running", "Questions over several documents that are computed.",
              running_.Get());
  visit.Histogram("reuse_prefill_seconds", "Time from a question's start to its first token.",
                  prefills_);
}

}  // namespace quire::worker
