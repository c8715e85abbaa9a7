// SPDX-License-Identifier: Apache-2.0
//
// BatchStream: the tokens that one sequence of a batch generates, between the thread of the batch,
// which writes, and the caller's, which reads. Unread tokens wait here: at most max_new_tokens.
//
// Thread-safety: safe for concurrent use by one writer and any readers.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_STREAM_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_STREAM_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/threads/mutex.h"
#include "gpuworker/engine/sequence.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

struct BatchResult {
  uint64_t num_new_tokens = 0;
  bool stopped = false;    ///< A stop token ended it.
  uint64_t preempted = 0;  ///< Times that it gave its slots back.
  SequenceStats stats = {};
};

class BatchStream {
 public:
  // The reader's side.

  /// Waits for the next token; nullopt at the end. After a failure, once the tokens before it are
  /// read, its status; CANCELLED after Cancel.
  [[nodiscard]] StatusOr<std::optional<TokenId>> Next() QUIRE_EXCLUDES(mutex_);
  /// Waits for at most `wait` until Next would not wait; false when it still would.
  [[nodiscard]] bool WaitFor(Duration wait) QUIRE_EXCLUDES(mutex_);
  /// The sequence ends within a step, and releases what it holds.
  void Cancel() QUIRE_EXCLUDES(mutex_);
  /// Totals, complete once Next has said that it is the end.
  BatchResult result() const QUIRE_EXCLUDES(mutex_);

  // The batch's side.

  bool cancelled() const QUIRE_EXCLUDES(mutex_);
  void Push(TokenId token) QUIRE_EXCLUDES(mutex_);
  /// The end; `status` is OK when everything was generated.
  void Finish(Status status, const BatchResult& result) QUIRE_EXCLUDES(mutex_);

 private:
  bool Ready() const QUIRE_REQUIRES(mutex_) { return cancelled_ || finished_ || !tokens_.empty(); }

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TokenId> tokens_ QUIRE_GUARDED_BY(mutex_);
  bool cancelled_ QUIRE_GUARDED_BY(mutex_) = false;
  bool finished_ QUIRE_GUARDED_BY(mutex_) = false;
  Status status_ QUIRE_GUARDED_BY(mutex_);
  BatchResult result_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_STREAM_H_
