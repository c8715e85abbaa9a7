// SPDX-License-Identifier: Apache-2.0
//
// Child: a program that is run to be killed. Its standard output is a pipe of events. A child that
// still runs is killed at destruction. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CHILD_H_
#define QUIRE_BENCH_TORTURE_CHILD_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/torture/event.h"
#include "quire/status.h"

namespace quire::torture {

class Child {
 public:
  /// Runs `command`, program and arguments. UNAVAILABLE when it cannot be started.
  static StatusOr<std::unique_ptr<Child>> Start(std::vector<std::string> command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Blocks for the next event, of the kind that the program writes; false when there is none any
  /// more. An event of which only a part arrived does not count.
  template <typename AnyEvent>
  bool Read(AnyEvent* event) {
    static_assert(std::is_trivially_copyable_v<AnyEvent>);
    return ReadBytes(std::as_writable_bytes(std::span(event, 1)));
  }
  /// For a program that writes lines instead: blocks for the next one, without its end. False when
  /// there is none any more.
  bool ReadLine(std::string* line);
  void Kill();
  /// Waits for its end. OK when it was killed; INTERNAL with what it did when it ended otherwise.
  Status AwaitKilled();

 private:
  bool ReadBytes(std::span<std::byte> bytes);
  Child(pid_t pid, int events) : pid_(pid), events_(events) {}
  int Wait();

  pid_t pid_;
  const int events_;
};

/// Writes an event to a descriptor with one call, and ends the process when that fails: then nobody
/// is left to tell.
void WriteEvent(int descriptor, std::span<const std::byte> event);

class DescriptorSink final : public EventSink {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}
  void Emit(const Event& event) override {
    WriteEvent(descriptor_, std::as_bytes(std::span(&event, 1)));
  }

 private:
  const int descriptor_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CHILD_H_
