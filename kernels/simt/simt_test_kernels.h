// SPDX-License-Identifier: Apache-2.0
//
// Kernels for simt_test.cc, right and wrong ones, in a source that is built as the kernels are.
#ifndef QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_
#define QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_

#include "kernels/api/status.h"
#include "kernels/simt/simt.h"

namespace quire::kernels::cuda::testing {

/// Whether this build looks at every access of a kernel.
extern const bool kChecksAccesses;

/// Adds 1 to the entry of every thread of the grid.
OpStatus CountRuns(dim3 grid, dim3 block, int* runs);
/// turns[b] = how many blocks ran before block b.
OpStatus TakeTurns(int blocks, int* next, int* turns);
OpStatus SumOfIndices(int blocks, int threads, int* sums);
OpStatus VoteOfOddLanes(unsigned* votes);
/// to[0] = z of *from, to[1] = 0, by copies to shared memory.
OpStatus CopyThroughShared(const uint4* from, unsigned* to, bool await);
/// Starts three copies, each a group, and waits for all but the newest `but` of them.
OpStatus CopyInGroups(const uint4* from, unsigned* to, int but);
/// Launches with so much dynamic shared memory once `asked` bytes have been asked for.
OpStatus LaunchAsking(int asked, size_t shared_bytes);
OpStatus DoNothing(dim3 grid, dim3 block, size_t shared_bytes);

enum class Barrier { kSomeReturn, kTwoPlaces, kSomeInWarp };
void BarrierOf(Barrier kind);

enum class Shuffle { kLaneReturned, kLaneElsewhere, kCallerNotInMask, kSourceNotInMask };
void ShuffleOf(Shuffle kind);

/// Each thread of 64 reads what its neighbour has put in shared memory.
enum class Order { kBarrier, kWarp, kNone };
OpStatus Neighbours(Order order, int* out);
OpStatus NeighboursInWarp(bool sync, int* out);
/// 8 blocks count themselves.
OpStatus CountBlocks(bool atomically, int* count);
OpStatus ReadUnwritten(bool dynamic, int* out);
OpStatus Fill(int* out, int n);
OpStatus LoadVector(const void* from, int* out);
/// 1024 bytes of static shared memory, and dynamic.
OpStatus UseBothShared(size_t dynamic_bytes);

}  // namespace quire::kernels::cuda::testing

#endif  // QUIRE_KERNELS_SIMT_SIMT_TEST_KERNELS_H_
