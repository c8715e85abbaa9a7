// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/simt_test_kernels.h"

#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda::testing {
namespace {

__global__ void CountKernel(int* runs) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  runs[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

__global__ void TurnKernel(int* next, int* turns) { turns[blockIdx.x] = atomicAdd(next, 1); }

__global__ void SumKernel(int* sums) {
  const int sum = BlockReduce(static_cast<int>(threadIdx.x), 0, Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void VoteKernel(unsigned* votes) {
  const unsigned odd = __ballot_sync(kAllLanes, threadIdx.x % 2 == 1);
  if (threadIdx.x == 0) *votes = odd;
}

__global__ void CopyKernel(const uint4* from, unsigned* to, bool await) {
  uint4* shared = DynamicShared<uint4>();
  CopyAsync16(&shared[threadIdx.x], from, threadIdx.x == 0);
  if (await) AwaitCopies();
  to[threadIdx.x] = shared[threadIdx.x].z;
}

__global__ void GroupsKernel(const uint4* from, unsigned* to, int but) {
  uint4* shared = DynamicShared<uint4>();
  for (int i = 0; i < 3; ++i) {
    CopyAsync16(&shared[i], &from[i], true);
    CommitCopies();
  }
  if (but == 0) AwaitCopiesBut<0>();
  if (but == 1) AwaitCopiesBut<1>();
  if (but == 2) AwaitCopiesBut<2>();
  if (but == 3) AwaitCopiesBut<3>();
  for (int i = 0; i < 3; ++i) to[i] = shared[i].z;
}

__global__ void IdleKernel() {}
__global__ void AskingKernel() {}

__global__ void BarrierKernel(Barrier kind) {
  if (kind == Barrier::kSomeReturn) {
    if (threadIdx.x >= 16) return;
    __syncthreads();
  } else if (kind == Barrier::kTwoPlaces) {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  } else if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void ShuffleKernel(Shuffle kind) {
  const unsigned lane = threadIdx.x;
  if (kind == Shuffle::kLaneReturned) {
    if (lane == 7) return;
    __shfl_xor_sync(kAllLanes, lane, 1);
  } else if (kind == Shuffle::kLaneElsewhere) {
    if (lane == 7) {
      __syncwarp();
    } else {
      __shfl_xor_sync(kAllLanes, lane, 1);
    }
  } else if (kind == Shuffle::kCallerNotInMask) {
    __syncwarp(0xffffu);
  } else if (lane < 16) {
    __shfl_xor_sync(0xffffu, lane, 16);
  }
}

__global__ void NeighboursKernel(Order order, int* out) {
  __shared__ int shared[64];
  shared[threadIdx.x] = 0;
  __syncthreads();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (order == Order::kBarrier) __syncthreads();
  if (order == Order::kWarp) __syncwarp();
  out[threadIdx.x] = shared[63 - threadIdx.x];
}

__global__ void NeighboursInWarpKernel(bool sync, int* out) {
  __shared__ int shared[64];
  shared[threadIdx.x] = 0;
  __syncthreads();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (sync) __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

__global__ void CountBlocksKernel(bool atomically, int* count) {
  if (atomically) {
    atomicAdd(count, 1);
  } else {
    *count += 1;
  }
}

__global__ void ReadUnwrittenKernel(bool dynamic, int* out) {
  __shared__ int shared[2];
  if (threadIdx.x == 0) shared[0] = DynamicShared<int>()[0] = 1;
  __syncthreads();
  out[threadIdx.x] = dynamic ? DynamicShared<int>()[threadIdx.x] : shared[threadIdx.x];
}

__global__ void FillKernel(int* out, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) out[i] = i;
}

__global__ void LoadVectorKernel(const void* from, int* out) {
  *reinterpret_cast<uint4*>(out) = *static_cast<const uint4*>(from);
}

__global__ void BothSharedKernel() {
  __shared__ int shared[256];
  shared[threadIdx.x] = 1;
  __syncthreads();
  DynamicShared<int>()[threadIdx.x] = shared[threadIdx.x ^ 1];
}

}  // namespace

#if defined(QUIRE_SIMT_CHECKS_ACCESSES)
const bool kChecksAccesses = true;
#else
const bool kChecksAccesses = false;
#endif

OpStatus CountRuns(dim3 grid, dim3 block, int* runs) {
  return Launch(CountKernel, grid, block, 0, nullptr, runs);
}
OpStatus TakeTurns(int blocks, int* next, int* turns) {
  return Launch(TurnKernel, Grid(blocks), Grid(1), 0, nullptr, next, turns);
}
OpStatus SumOfIndices(int blocks, int threads, int* sums) {
  return Launch(SumKernel, Grid(blocks), Grid(threads), 0, nullptr, sums);
}
OpStatus VoteOfOddLanes(unsigned* votes) {
  return Launch(VoteKernel, Grid(1), Grid(32), 0, nullptr, votes);
}
OpStatus CopyThroughShared(const uint4* from, unsigned* to, bool await) {
  return Launch(CopyKernel, Grid(1), Grid(2), 32, nullptr, from, to, await);
}
OpStatus CopyInGroups(const uint4* from, unsigned* to, int but) {
  return Launch(GroupsKernel, Grid(1), Grid(1), 48, nullptr, from, to, but);
}
OpStatus LaunchAsking(int asked, size_t shared_bytes) {
  const OpStatus status = AskForShared(AskingKernel, asked);
  if (status != OpStatus::kOk) return status;
  return Launch(AskingKernel, Grid(1), Grid(1), shared_bytes, nullptr);
}
OpStatus DoNothing(dim3 grid, dim3 block, size_t shared_bytes) {
  return Launch(IdleKernel, grid, block, shared_bytes, nullptr);
}
void BarrierOf(Barrier kind) { (void)Launch(BarrierKernel, Grid(1), Grid(64), 0, nullptr, kind); }
void ShuffleOf(Shuffle kind) { (void)Launch(ShuffleKernel, Grid(1), Grid(32), 0, nullptr, kind); }
OpStatus Neighbours(Order order, int* out) {
  return Launch(NeighboursKernel, Grid(1), Grid(64), 0, nullptr, order, out);
}
OpStatus NeighboursInWarp(bool sync, int* out) {
  return Launch(NeighboursInWarpKernel, Grid(1), Grid(64), 0, nullptr, sync, out);
}
OpStatus CountBlocks(bool atomically, int* count) {
  return Launch(CountBlocksKernel, Grid(8), Grid(1), 0, nullptr, atomically, count);
}
OpStatus ReadUnwritten(bool dynamic, int* out) {
  return Launch(ReadUnwrittenKernel, Grid(1), Grid(2), 8, nullptr, dynamic, out);
}
OpStatus Fill(int* out, int n) {
  return Launch(FillKernel, Grid(1), Grid(128), 0, nullptr, out, n);
}
OpStatus LoadVector(const void* from, int* out) {
  return Launch(LoadVectorKernel, Grid(1), Grid(1), 0, nullptr, from, out);
}
OpStatus UseBothShared(size_t dynamic_bytes) {
  return Launch(BothSharedKernel, Grid(1), Grid(256), dynamic_bytes, nullptr);
}

}  // namespace quire::kernels::cuda::testing
