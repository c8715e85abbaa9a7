// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/simt.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace quire::simt {
namespace {

constexpr size_t kStackBytes = 128 * 1024;

/// A thread of the running block: a context with its own stack.
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  dim3 index;
  bool done = false;
};

/// What the lanes of a warp give each other. Two buffers in turn: nobody is two exchanges ahead.
struct Warp {
  uint64_t values[2][kWarp];
  int arrived = 0;
  int lanes = 0;
  unsigned round = 0;
};

/// The block that runs. Stacks are kept from one block to the next.
struct Block {
  const std::function<void()>* thread = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::unique_ptr<char[]> shared;
  ucontext_t scheduler;
  size_t current = 0;
  size_t threads = 0;
  size_t running = 0;
  size_t arrived = 0;
  unsigned round = 0;
};
Block block;

void OpenBarrierIfAllArrived() {
  if (block.arrived < block.running) return;
  block.arrived = 0;
  ++block.round;
}

void Enter() {
  (*block.thread)();
  block.fibers[block.current]->done = true;
  --block.running;
  if (block.running > 0) OpenBarrierIfAllArrived();
  swapcontext(&block.fibers[block.current]->context, &block.scheduler);
}

void Yield() { swapcontext(&block.fibers[block.current]->context, &block.scheduler); }

void Resume(size_t i) {
  if (block.fibers[i]->done) return;
  block.current = i;
  threadIdx = block.fibers[i]->index;
  swapcontext(&block.scheduler, &block.fibers[i]->context);
}

void Prepare(dim3 size) {
  block.threads = block.running = size_t{size.x} * size.y * size.z;
  block.arrived = 0;
  while (block.fibers.size() < block.threads) block.fibers.push_back(std::make_unique<Fiber>());
  block.warps.assign((block.threads + kWarp - 1) / kWarp, Warp{});
  for (size_t i = 0; i < block.threads; ++i) {
    Fiber& fiber = *block.fibers[i];
    fiber.done = false;
    fiber.index =
        dim3(static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
             static_cast<unsigned>(i / size.x / size.y));
    ++block.warps[i / kWarp].lanes;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, Enter, 0);
  }
}

void RunBlock() {
  Prepare(blockDim);
  for (bool forward = true; block.running > 0; forward = !forward) {
    for (size_t n = 0; n < block.threads; ++n) Resume(forward ? n : block.threads - 1 - n);
  }
}

}  // namespace

bool Run(dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()>& thread) {
  constexpr unsigned kMaxGridX = 2147483647;
  constexpr unsigned kMaxGrid = 65535;
  const size_t threads = size_t{size.x} * size.y * size.z;
  if (threads == 0 || threads > kMaxThreads || size.z > 64 || shared_bytes > kMaxShared) {
    return false;
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return false;
  if (grid.x > kMaxGridX || grid.y > kMaxGrid || grid.z > kMaxGrid) return false;
  block.thread = &thread;
  block.shared.reset(new char[shared_bytes]);  // new, so that a memory checker sees its end
  gridDim = grid;
  blockDim = size;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        RunBlock();
      }
    }
  }
  return true;
}

void* DynamicShared() { return block.shared.get(); }

void SyncBlock() {
  const unsigned round = block.round;
  ++block.arrived;
  OpenBarrierIfAllArrived();
  while (block.round == round) Yield();
}

const uint64_t* Exchange(uint64_t mine) {
  Warp& warp = block.warps[block.current / kWarp];
  const unsigned round = warp.round;
  uint64_t* values = warp.values[round % 2];
  values[block.current % kWarp] = mine;
  if (++warp.arrived == warp.lanes) {
    warp.arrived = 0;
    ++warp.round;
  }
  while (warp.round == round) Yield();
  return values;
}

}  // namespace quire::simt
