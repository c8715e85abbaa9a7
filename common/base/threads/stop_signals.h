// SPDX-License-Identifier: Apache-2.0
//
// StopSignals: waits for the end of a serving program. From construction on, SIGINT and SIGTERM no
// longer end the process; Wait() returns them. The signals are handled, not blocked: libraries
// start threads before main, whose signal masks are not ours. Thread-safety: Wait() belongs to one
// thread. One object per process at a time.
#ifndef QUIRE_COMMON_BASE_THREADS_STOP_SIGNALS_H_
#define QUIRE_COMMON_BASE_THREADS_STOP_SIGNALS_H_

#include <signal.h>

#include <memory>

#include "quire/status.h"

namespace quire {

class StopSignals {
 public:
  /// FAILED_PRECONDITION when an object exists already.
  static StatusOr<std::unique_ptr<StopSignals>> Install();
  /// Restores the earlier actions of both signals.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Blocks until either signal arrives after the last Wait(), or after Install(). Returns the
  /// signal.
  int Wait();
  /// True when either signal has arrived since the last Wait(), or since Install(). Thread-safe.
  bool HasArrived() const;

 private:
  StopSignals() = default;

  struct sigaction before_int_ = {};
  struct sigaction before_term_ = {};
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_STOP_SIGNALS_H_
