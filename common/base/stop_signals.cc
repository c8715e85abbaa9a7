// SPDX-License-Identifier: Apache-2.0
#include "common/base/stop_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>

namespace quire {
namespace {

/// Where the handler writes; -1 while none is installed. A handler can reach nothing but globals.
std::atomic<int> write_end = -1;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not lock");

void OnSignal(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  // When the pipe is full there is a signal to wait for already.
  [[maybe_unused]] const ssize_t written = write(write_end.load(), &byte, 1);
  errno = error;
}

}  // namespace

StatusOr<std::unique_ptr<StopSignals>> StopSignals::Install() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return ResourceExhausted("no file descriptors left for a pipe; raise the limit (ulimit -n)");
  }
  int none = -1;
  if (!write_end.compare_exchange_strong(none, ends[1])) {
    close(ends[0]);
    close(ends[1]);
    return FailedPrecondition("StopSignals is installed already");
  }
  fcntl(ends[1], F_SETFL, O_NONBLOCK);  // The handler never waits.
  std::unique_ptr<StopSignals> self(new StopSignals(ends[0]));
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
  close(write_end.exchange(-1));
  close(read_end_);
}

int StopSignals::Wait() {
  unsigned char signal = 0;
  while (read(read_end_, &signal, 1) != 1) {
  }
  return signal;
}

}  // namespace quire
