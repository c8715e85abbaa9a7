// SPDX-License-Identifier: Apache-2.0
//
// HistorySink: a history that several threads report to. Thread-safety: all methods are safe.
#ifndef QUIRE_BENCH_TORTURE_STORE_HISTORY_SINK_H_
#define QUIRE_BENCH_TORTURE_STORE_HISTORY_SINK_H_

#include "bench/torture/store/history.h"
#include "common/base/threads/mutex.h"

namespace quire::torture {

class HistorySink final : public EventSink {
 public:
  void Emit(const Event& event) override {
    MutexLock lock(mutex_);
    history_.Apply(event);
  }
  History Copy() const {
    MutexLock lock(mutex_);
    return history_;
  }

 private:
  mutable Mutex mutex_;
  History history_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_HISTORY_SINK_H_
