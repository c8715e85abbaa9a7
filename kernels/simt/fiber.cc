// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_SIMT_ASAN 1
#endif
#endif
#if defined(QUIRE_SIMT_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves the callee-saved registers, stores the stack pointer in *from, and continues at `to`.
// swapcontext would ask the kernel for the signal mask each time.
extern "C" void quire_simt_switch(void** from, void* to);
asm(R"(
.text
.globl quire_simt_switch
.type quire_simt_switch, @function
quire_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size quire_simt_switch, .-quire_simt_switch
)");
#endif

namespace quire::simt {
namespace {

constexpr size_t kGuardBytes = 4096;

uintptr_t NewStack(size_t bytes) {
  void* const stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kGuardBytes, PROT_NONE) != 0) {
    perror("kernels/simt: no stack for a thread");
    abort();
  }
  return reinterpret_cast<uintptr_t>(stack);
}

}  // namespace

Fiber::Fiber(void (*body)()) : bottom_(NewStack(kStackBytes)) {
#if defined(__x86_64__)
  // Six registers, then the target of `ret`, then the return address of `body`.
  auto* const top = reinterpret_cast<void**>(bottom_ + kStackBytes);
  void** const frame = top - 8;
  for (int i = 0; i < 8; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(body);
  inside_ = frame;
#else
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = reinterpret_cast<void*>(bottom_);
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, body, 0);
#endif
}

Fiber::~Fiber() { munmap(reinterpret_cast<void*>(bottom_), kStackBytes); }

void Fiber::Enter() {
#if defined(QUIRE_SIMT_ASAN)
  __sanitizer_start_switch_fiber(&outside_fake_, reinterpret_cast<void*>(bottom_), kStackBytes);
#endif
#if defined(__x86_64__)
  quire_simt_switch(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
#if defined(QUIRE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(outside_fake_, nullptr, nullptr);
#endif
}

void Fiber::Arrived() {
#if defined(QUIRE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(inside_fake_, &outside_bottom_, &outside_bytes_);
#endif
}

void Fiber::Leave() {
#if defined(QUIRE_SIMT_ASAN)
  __sanitizer_start_switch_fiber(&inside_fake_, outside_bottom_, outside_bytes_);
#endif
#if defined(__x86_64__)
  quire_simt_switch(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
  Arrived();
}

}  // namespace quire::simt
