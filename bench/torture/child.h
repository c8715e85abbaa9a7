// SPDX-License-Identifier: Apache-2.0
//
// Child: a program that is run to be killed. Its standard output is a pipe of events. The
// destructor kills a child that still runs. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CHILD_H_
#define QUIRE_BENCH_TORTURE_CHILD_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/torture/store/event.h"
#include "quire/status.h"

namespace quire::torture {

class Child {
 public:
  /// Runs `command`, program and arguments. UNAVAILABLE when it cannot be started.
  static StatusOr<std::unique_ptr<Child>> Start(std::vector<std::string> command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Blocks for the next event, of the kind that the program writes; false at the end. A partial
  /// event does not count.
  template <typename AnyEvent>
  bool Read(AnyEvent* event) {
    static_assert(std::is_trivially_copyable_v<AnyEvent>);
    return ReadBytes(std::as_writable_bytes(std::span(event, 1)));
  }
  /// Blocks for the next line of a program that writes lines, without its end; false at the end of
  /// the output.
  bool ReadLine(std::string* line);
  void Kill();
  /// Stops it until Continue(). It may still run for a moment.
  void Stop();
  void Continue();
  /// Waits for its end. OK if it was killed; otherwise INTERNAL with the manner of its end.
  Status AwaitKilled();
  /// Waits for its end. OK for exit code 0; otherwise INTERNAL with the manner of its end.
  Status AwaitSuccess();

 private:
  bool ReadBytes(std::span<std::byte> bytes);
  Child(pid_t pid, int events) : pid_(pid), events_(events) {}
  int Wait();

  pid_t pid_;
  const int events_;
};

/// Writes an event to a descriptor with one call. Ends the process if that fails, because the
/// reader is then gone.
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
