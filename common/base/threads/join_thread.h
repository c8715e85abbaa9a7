// SPDX-License-Identifier: Apache-2.0
//
// JoinThread: ends a thread whose owner may be destroyed on that very thread. Detaching would let
// the thread run while the process exits and destroys what the thread uses.
#ifndef QUIRE_COMMON_BASE_THREADS_JOIN_THREAD_H_
#define QUIRE_COMMON_BASE_THREADS_JOIN_THREAD_H_

#include <thread>

namespace quire {

/// Joins `thread`. A thread that calls this for itself is taken over: a later call joins it once it
/// has ended, or exit does. It must be about to end, and must not use what its owner destroys.
/// Thread-safe.
void JoinThread(std::thread& thread);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_THREADS_JOIN_THREAD_H_
