// SPDX-License-Identifier: Apache-2.0
//
// Process: a program that a benchmark runs, such as a server of ours or of a rival. Its output goes
// to a file. The destructor asks it to end, and kills it if it does not. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_PROCESS_H_
#define QUIRE_BENCH_TRANSPORT_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

class Process {
 public:
  /// Runs `command`, a program (searched in PATH) and its arguments, and appends its output to the
  /// file `log`. `environment` ("NAME=value") precedes this program's. UNAVAILABLE if it cannot be
  /// started.
  static StatusOr<std::unique_ptr<Process>> Start(std::vector<std::string> command,
                                                  const std::string& log,
                                                  std::vector<std::string> environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }  ///< -1 once it is known to have ended.
  /// Waits until `ready` returns true. UNAVAILABLE, with the end of its output, if the program ends
  /// first or `timeout` passes.
  Status WaitUntil(const std::function<bool()>& ready, Duration timeout);
  /// Waits for the program to end. OK for exit code 0; otherwise, or after `timeout`, UNAVAILABLE
  /// with the end of its output.
  Status WaitForEnd(Duration timeout);
  /// Its output so far.
  std::string Output() const;

 private:
  Process(pid_t pid, std::string name, std::string log)
      : pid_(pid), name_(std::move(name)), log_(std::move(log)) {}
  bool HasEnded();
  Status Failed(std::string_view what) const;

  pid_t pid_;
  int state_ = 0;
  const std::string name_;
  const std::string log_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_PROCESS_H_
