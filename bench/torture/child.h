// SPDX-License-Identifier: Apache-2.0
//
// Child: a program that is run to be killed. Its standard output is a pipe of events. A child that
// still runs is killed at destruction. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CHILD_H_
#define QUIRE_BENCH_TORTURE_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/torture/event.h"
#include "common/base/status.h"

namespace quire::torture {

class Child {
 public:
  /// Runs `command`, program and arguments. UNAVAILABLE when it cannot be started.
  static StatusOr<std::unique_ptr<Child>> Start(std::vector<std::string> command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Blocks for the next event; false when there is none any more. An event of which only a part
  /// arrived does not count.
  bool Read(Event* event);
  /// For a program that writes lines instead: blocks for the next one, without its end. False when
  /// there is none any more.
  bool ReadLine(std::string* line);
  void Kill();
  /// Waits for its end. OK when it was killed; INTERNAL with what it did when it ended otherwise.
  Status AwaitKilled();

 private:
  Child(pid_t pid, int events) : pid_(pid), events_(events) {}
  int Wait();

  pid_t pid_;
  const int events_;
};

/// Writes each event to a descriptor with one call, and ends the process when that fails: then
/// nobody is left to tell.
class DescriptorSink final : public EventSink {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}
  void Emit(const Event& event) override;

 private:
  const int descriptor_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CHILD_H_
