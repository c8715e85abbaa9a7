// SPDX-License-Identifier: Apache-2.0
//
// StopSignals: how a program that serves waits for its end. From the moment it is made, SIGINT and
// SIGTERM no longer end the process: they are kept for Wait(). It handles them instead of blocking
// them, because libraries start threads before main whose signal masks are not ours.
// Thread-safety: Wait() belongs to one thread. One object a process at a time.
#ifndef QUIRE_COMMON_BASE_STOP_SIGNALS_H_
#define QUIRE_COMMON_BASE_STOP_SIGNALS_H_

#include <signal.h>

#include <memory>

#include "quire/status.h"

namespace quire {

class StopSignals {
 public:
  /// FAILED_PRECONDITION when there is one already.
  static StatusOr<std::unique_ptr<StopSignals>> Install();
  /// Gives both signals back the effect they had.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Blocks until one of the two has come since the last Wait(), or since Install(); returns which.
  int Wait();

 private:
  StopSignals() = default;

  struct sigaction before_int_ = {};
  struct sigaction before_term_ = {};
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_STOP_SIGNALS_H_
