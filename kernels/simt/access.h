// SPDX-License-Identifier: Apache-2.0
//
// What the running block's threads do to memory, looked at access by access (access.cc). Between
// blocks the checker is off: accesses of launchers and hosts are passed over.
#ifndef QUIRE_KERNELS_SIMT_ACCESS_H_
#define QUIRE_KERNELS_SIMT_ACCESS_H_

#include <cstddef>
#include <cstdint>

namespace quire::simt {

enum class Act { kRead, kWrite, kAtomic };

/// A launch begins; `parameters` are read by all its threads.
void BeginLaunch(const void* parameters, size_t parameter_bytes);
/// A block begins with this dynamic shared memory; static shared memory is spoilt here.
void BeginBlock(void* shared, size_t shared_bytes);
void EndBlock();
/// Bytes of the static shared arrays that the launch has touched so far.
size_t StaticSharedBytes();

/// The block's threads have met: what they did before comes before what they do now.
void BlockMet();
/// Likewise for the threads of one warp.
void WarpMet(unsigned warp);

/// Of the running thread. `where` is a program address, for messages.
void Touch(const void* memory, size_t bytes, Act act, const void* where);

// In block.cc.

/// Ends the program: the running kernel, block and thread, and this.
[[noreturn, gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);
/// Number of the running thread in its block.
unsigned CurrentThread();
/// Whether the running thread's stack holds the address.
bool OnOwnStack(uintptr_t address);
/// Whether any thread's stack does.
bool OnAnyStack(uintptr_t address);

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_ACCESS_H_
