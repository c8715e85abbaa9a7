// SPDX-License-Identifier: Apache-2.0
//
// Fiber: a stack that alternates with the thread that enters it.
#ifndef QUIRE_KERNELS_SIMT_FIBER_H_
#define QUIRE_KERNELS_SIMT_FIBER_H_

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace quire::simt {

class Fiber {
 public:
  /// The first Enter calls `body`, which never returns.
  explicit Fiber(void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it leaves.
  void Enter();
  /// Returns to the thread that entered; call it on the fiber.
  void Leave();
  bool Holds(uintptr_t address) const { return address - bottom_ < kStackBytes; }

  /// Tells memory checkers of a first entry. Every fiber's start calls it.
  void Arrived();

 private:
  static constexpr size_t kStackBytes = 256 * 1024;  ///< The lowest page is a guard.

  uintptr_t bottom_;
#if defined(__x86_64__)
  void* inside_ = nullptr;   ///< Stack pointer of the fiber while it waits.
  void* outside_ = nullptr;  ///< Stack pointer of the thread that entered.
#else
  ucontext_t inside_, outside_;
#endif
  [[maybe_unused]] void* inside_fake_ = nullptr;  ///< AddressSanitizer's fake stack.
  [[maybe_unused]] void* outside_fake_ = nullptr;
  [[maybe_unused]] const void* outside_bottom_ = nullptr;
  [[maybe_unused]] size_t outside_bytes_ = 0;
};

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_FIBER_H_
