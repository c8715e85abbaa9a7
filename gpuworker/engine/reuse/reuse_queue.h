// SPDX-License-Identifier: Apache-2.0
//
// ReuseQueue: questions over several documents for many callers. Threads of its own prefill and
// generate, a few questions at a time. Steps of a Batch go on beside them.
//
//   QUIRE_ASSIGN_OR_RETURN(auto queue, ReuseQueue::Create(engine.get(), ReuseLimits{}));
//   QUIRE_ASSIGN_OR_RETURN(auto answer, queue->Submit({.documents = names, .question = ids}));
//   while (auto token = answer->stream.Next(); token.ok() && token->has_value()) { ... **token ...
//   }
//
// Thread-safety: safe for concurrent use. Ownership: the engine outlives the queue; answers stand
// on their own.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_QUEUE_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/latency_histogram.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/executor.h"
#include "common/base/threads/mutex.h"
#include "common/base/trace/span.h"
#include "gpuworker/engine/batch/batch_stream.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/reuse/reuse_order.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "quire/status.h"

namespace quire::worker {

struct ReuseLimits {
  uint32_t max_running = 1;   ///< Questions that are computed at a time, 1 to 64.
  uint32_t max_waiting = 64;  ///< Questions that have not started yet.
  uint32_t variants = 0;      ///< ReuseOptions::variants of questions that leave it 0.
  /// Times that a question may be passed over by others with more of their documents in DRAM
  /// (reuse_order.h). 0: questions start as they came.
  uint32_t window = 0;
};

struct ReuseRequest {
  std::vector<DocumentName> documents;
  std::vector<TokenId> question;
  ReuseOptions options;   ///< Without keep_going.
  GenerateParams params;  ///< Without on_token: tokens go to the stream.
};

/// One answer. Thread-safety: safe for concurrent use.
class ReuseAnswer {
 public:
  BatchStream stream;

  /// Complete once the stream has ended.
  ReuseStats stats() const QUIRE_EXCLUDES(mutex_);

 private:
  friend class ReuseQueue;
  void SetStats(const ReuseStats& stats) QUIRE_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  ReuseStats stats_ QUIRE_GUARDED_BY(mutex_);
};

class ReuseQueue {
 public:
  /// INVALID_ARGUMENT for limits out of range.
  static StatusOr<std::unique_ptr<ReuseQueue>> Create(const Engine* engine,
                                                      const ReuseLimits& limits);
  /// Ends what is left with UNAVAILABLE, each within a layer of its prefill or a token.
  ~ReuseQueue();
  ReuseQueue(const ReuseQueue&) = delete;
  ReuseQueue& operator=(const ReuseQueue&) = delete;

  /// Queues a question. RESOURCE_EXHAUSTED, with a retry hint, when the queue is full. Errors of
  /// the question itself (reuse_run.h) end its stream.
  StatusOr<std::shared_ptr<ReuseAnswer>> Submit(ReuseRequest request) QUIRE_EXCLUDES(mutex_);

  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  ReuseQueue(const Engine* engine, const ReuseLimits& limits);
  struct Question {
    ReuseRequest request;
    std::shared_ptr<ReuseAnswer> answer;
    Span span = {};   ///< From Submit to the end.
    Span queue = {};  ///< Until the question starts.
  };
  /// Estimates the work before the question starts. Documents that cannot be found count as none.
  ReuseWork WorkOf(const ReuseRequest& request) const;
  /// Takes the next question, and computes its answer.
  void RunNext() QUIRE_EXCLUDES(mutex_);
  /// Computes one answer, ends its stream, and keeps variants then.
  void Run(const ReuseRequest& request, ReuseAnswer* answer);
  /// Leaves the run in `run`, once it is open.
  Status Compute(const ReuseRequest& request, ReuseAnswer* answer, std::unique_ptr<ReuseRun>* run,
                 BatchResult* result);

  const Engine* const engine_;
  const ReuseLimits limits_;
  mutable Mutex mutex_;
  ReuseOrder<Question> order_ QUIRE_GUARDED_BY(mutex_);  ///< Questions that wait.
  std::atomic<bool> stopping_ = false;
  Counter submitted_, refused_, failed_, bytes_read_, waiting_, running_;
  Counter variants_used_, variants_kept_;
  LatencyHistogram prefills_;
  ThreadPool threads_;  ///< Last: what it runs uses all of the above.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_QUEUE_H_
