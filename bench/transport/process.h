// SPDX-License-Identifier: Apache-2.0
//
// Process: a program that a benchmark runs beside itself: a server of ours or of a rival. What it
// prints goes to a file. It is asked to end at destruction, and killed when it does not.
// Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_PROCESS_H_
#define QUIRE_BENCH_TRANSPORT_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "quire/status.h"

namespace quire::bench {

class Process {
 public:
  /// Runs `command`, a program (looked for in PATH) and its arguments; its output is appended to
  /// the file `log`. `environment` ("NAME=value") goes before this program's. UNAVAILABLE when it
  /// cannot be started.
  static StatusOr<std::unique_ptr<Process>> Start(std::vector<std::string> command,
                                                  const std::string& log,
                                                  std::vector<std::string> environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }  ///< -1 when it is known to have ended.
  /// Waits until `ready` answers true. UNAVAILABLE with the end of its output when it ends before,
  /// or when `timeout` passes.
  Status WaitUntil(const std::function<bool()>& ready, Duration timeout);
  /// Waits for its end by itself: OK for exit code 0, UNAVAILABLE with the end of its output
  /// otherwise, or when it takes longer than `timeout`.
  Status WaitForEnd(Duration timeout);
  /// What it has printed.
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
