// SPDX-License-Identifier: Apache-2.0
//
// AnswerQueue: makes answers that take a while, one after the other on a thread of its own. All
// requests of one target that wait when it is made get the same answer. Its owner asks at most once
// for each connection, so the queue is as bounded as they are. Thread-safety: all methods may be
// called from any thread. `done` is called on the queue's thread, without a lock.
#ifndef QUIRE_COMMON_METRICS_ANSWER_QUEUE_H_
#define QUIRE_COMMON_METRICS_ANSWER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/metrics/http_request.h"

namespace quire {

/// Makes the answer to a request.
using AnswerMaker = std::function<HttpReply(const HttpRequest&)>;
/// Makers by path.
using AnswerMakers = std::map<std::string, AnswerMaker, std::less<>>;
/// A whole answer, shared by those who get it.
using SharedAnswer = std::shared_ptr<const std::string>;

class AnswerQueue {
 public:
  using Done = std::function<void(uint64_t id, SharedAnswer answer)>;
  explicit AnswerQueue(Done done);
  /// Answers no more. Waits for a maker that runs.
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  /// Replaces all makers. The former ones are not called after that.
  void Serve(AnswerMakers makers) QUIRE_EXCLUDES(make_mutex_);
  /// Has `request` answered under a number of the caller's. Answers 503 while its path has no
  /// maker.
  void Ask(uint64_t id, HttpRequest request) QUIRE_EXCLUDES(mutex_);
  /// The answer is not wanted any more.
  void Forget(uint64_t id) QUIRE_EXCLUDES(mutex_);

 private:
  struct Asked {
    HttpRequest request;
    std::vector<uint64_t> ids;
  };
  void Run();
  /// Waits for the next request; an empty one at destruction.
  Asked Next() QUIRE_EXCLUDES(mutex_);
  SharedAnswer Make(const HttpRequest& request) QUIRE_EXCLUDES(make_mutex_);

  const Done done_;
  Mutex make_mutex_;  ///< Held while an answer is made.
  AnswerMakers makers_ QUIRE_GUARDED_BY(make_mutex_);
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<Asked> asked_ QUIRE_GUARDED_BY(mutex_);  ///< In order of arrival.
  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_ANSWER_QUEUE_H_
