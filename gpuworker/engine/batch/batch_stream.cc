// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_stream.h"

#include <utility>

namespace quire::worker {

StatusOr<std::optional<TokenId>> BatchStream::Next() {
  MutexLock lock(mutex_);
  while (!Ready()) changed_.Wait(mutex_);
  if (cancelled_) return Status(StatusCode::kCancelled, "the sequence was cancelled");
  if (!tokens_.empty()) {
    const TokenId token = tokens_.front();
    tokens_.pop_front();
    return std::optional<TokenId>(token);
  }
  QUIRE_RETURN_IF_ERROR(status_);
  return std::nullopt;
}

bool BatchStream::WaitFor(Duration wait) {
  MutexLock lock(mutex_);
  if (!Ready()) changed_.WaitFor(mutex_, wait);
  return Ready();
}

void BatchStream::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
}

BatchResult BatchStream::result() const {
  MutexLock lock(mutex_);
  return result_;
}

bool BatchStream::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

void BatchStream::Push(TokenId token) {
  MutexLock lock(mutex_);
  tokens_.push_back(token);
  changed_.NotifyAll();
}

void BatchStream::Finish(Status status, const BatchResult& result) {
  MutexLock lock(mutex_);
  finished_ = true;
  status_ = std::move(status);
  result_ = result;
  changed_.NotifyAll();
}

}  // namespace quire::worker
