// SPDX-License-Identifier: Apache-2.0
#include "common/base/threads/stop_signals.h"

#include <errno.h>
#include <semaphore.h>

#include <atomic>

namespace quire {
namespace {

// State of the handler: it can reach only globals, and may neither lock nor wait.
std::atomic<bool> is_installed = false;
std::atomic<bool> interrupted = false;
std::atomic<bool> terminated = false;
sem_t arrived;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not lock");

void OnSignal(int signal) {
  const int error = errno;
  (signal == SIGINT ? interrupted : terminated) = true;
  sem_post(&arrived);
  errno = error;
}

}  // namespace

StatusOr<std::unique_ptr<StopSignals>> StopSignals::Install() {
  if (is_installed.exchange(true)) return FailedPrecondition("StopSignals is installed already");
  interrupted = false;
  terminated = false;
  sem_init(&arrived, /*pshared=*/0, 0);
  std::unique_ptr<StopSignals> self(new StopSignals());
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &self->before_int_);
  sigaction(SIGTERM, &action, &self->before_term_);
  return self;
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  is_installed = false;  // The semaphore stays: a handler may still be running.
}

int StopSignals::Wait() {
  for (;;) {
    // Not a read from a pipe: ThreadSanitizer runs handlers late inside calls that it does not know
    // to block.
    while (sem_wait(&arrived) != 0) {
    }
    if (terminated.exchange(false)) return SIGTERM;
    if (interrupted.exchange(false)) return SIGINT;
  }
}

bool StopSignals::HasArrived() const { return interrupted || terminated; }

}  // namespace quire
