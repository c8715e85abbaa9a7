// SPDX-License-Identifier: Apache-2.0
//
// Checks of every memory access by the threads of the running block (access.cc). Between blocks the
// checker is off: accesses by launchers and hosts are ignored.
#ifndef QUIRE_KERNELS_SIMT_ACCESS_H_
#define QUIRE_KERNELS_SIMT_ACCESS_H_

#include <cstddef>
#include <cstdint>

namespace quire::simt {

enum class Act { kRead, kWrite, kAtomic };

/// Begins a launch; all its threads read `parameters`.
void BeginLaunch(const void* parameters, size_t parameter_bytes);
/// Begins a block with this dynamic shared memory; overwrites static shared memory.
void BeginBlock(void* shared, size_t shared_bytes);
void EndBlock();
/// Bytes of the static shared arrays that the launch has accessed so far.
size_t StaticSharedBytes();

/// Notes a barrier of the block: earlier accesses precede later ones.
void BlockMet();
/// Notes a barrier of one warp's threads.
void WarpMet(unsigned warp);

/// Notes an access by the running thread. `where` is a program address, for messages.
void Touch(const void* memory, size_t bytes, Act act, const void* where);

// Defined in block.cc.

/// Ends the program with the running kernel, block and thread, and this message.
[[noreturn, gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);
/// Number of the running thread in its block.
unsigned CurrentThread();
/// True if the running thread's stack contains the address.
bool OnOwnStack(uintptr_t address);
/// True if any thread's stack does.
bool OnAnyStack(uintptr_t address);

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_ACCESS_H_
