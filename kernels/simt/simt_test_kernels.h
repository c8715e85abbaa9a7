// SPDX-License-Identifier: Apache-2.0
//
// Kernels for simt_test.cc, correct and faulty ones, in a source that is built as the kernels are.
#ifndef QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_
#define QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_

#include "kernels/api/status.h"
#include "kernels/simt/simt.h"

namespace quire::kernels::cuda::testing {

/// True if this build checks every access of a kernel.
extern const bool kChecksAccesses;

/// Adds 1 to the entry of every thread of the grid.
OpStatus CountRuns(dim3 grid, dim3 block, int* runs);
/// turns[b] = number of blocks that ran before block b.
OpStatus TakeTurns(int blocks, int* next, int* turns);
OpStatus SumOfIndices(int blocks, int threads, int* sums);
OpStatus VoteOfOddLanes(unsigned* votes);
/// to[0] = z of *from, to[1] = 0, by copies to shared memory.
OpStatus CopyThroughShared(const uint4* from, unsigned* to, bool await);
/// Starts three copies, each a group, and waits for all but the newest `but` of them.
OpStatus CopyInGroups(const uint4* from, unsigned* to, int but);
/// Requests `asked` bytes of dynamic shared memory, then launches with `shared_bytes`.
OpStatus LaunchAsking(int asked, size_t shared_bytes);
OpStatus DoNothing(dim3 grid, dim3 block, size_t shared_bytes);

enum class Barrier { kSomeReturn, kTwoPlaces, kSomeInWarp };
void BarrierOf(Barrier kind);

enum class Shuffle { kLaneReturned, kLaneElsewhere, kCallerNotInMask, kSourceNotInMask };
void ShuffleOf(Shuffle kind);

/// Each of 64 threads reads what its neighbour wrote to shared memory, ordered as given.
enum class Order { kBarrier, kWarp, kNone };
OpStatus Neighbours(Order order, int* out);
OpStatus NeighboursInWarp(bool sync, int* out);
/// Counts 8 blocks, by the blocks themselves.
OpStatus CountBlocks(bool atomically, int* count);
OpStatus ReadUnwritten(bool dynamic, int* out);
OpStatus Fill(int* out, int n);
OpStatus LoadVector(const void* from, int* out);
/// Uses 1024 bytes of static shared memory, and dynamic shared memory.
OpStatus UseBothShared(size_t dynamic_bytes);

}  // namespace quire::kernels::cuda::testing

#endif  // QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_
