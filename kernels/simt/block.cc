// SPDX-License-Identifier: Apache-2.0
//
// Runs the blocks of a launch: fibers that stand for threads, and their barriers.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/simt/access.h"
#include "kernels/simt/fiber.h"
#include "kernels/simt/simt.h"
#include "kernels/simt/symbols.h"

namespace quire::simt {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr uint8_t kSpoilt = 0xff;  ///< NaN as a float of any size, -1 as an integer.

struct PendingCopy {
  void* to;
  const void* from;
  bool there;
  uint64_t group;
};

enum class State { kReady, kAtBarrier, kInWarp, kReturned };

struct Thread {
  explicit Thread(void (*body)()) : fiber(body) {}
  Fiber fiber;
  dim3 index;
  State state = State::kReturned;
  Place place{};
  // Mask of a warp operation.
  unsigned mask = 0;
  unsigned from = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  std::vector<PendingCopy> copies;
  uint64_t groups = 0;  ///< Groups of copies committed so far.
};

/// The running block. Its threads are kept from one block to the next.
struct Block {
  const Work* work = nullptr;
  std::vector<std::unique_ptr<Thread>> threads;
  unsigned size = 0;  ///< Threads of this block.
  unsigned running = 0;
  unsigned at_barrier = 0;
  Place barrier{};  ///< Place of the waiting threads.
  unsigned current = 0;
  std::vector<unsigned> ready;
  std::unique_ptr<char[]> shared;
  std::minstd_rand random{1};
};
Block block;

/// Guards requests by kernel: launchers make them on threads of their own.
std::mutex asked_mutex;
std::unordered_map<const void*, size_t> asked_shared;

Thread& Mine() { return *block.threads[block.current]; }

std::string At(const dim3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}
std::string At(const Place& place) {
  const std::string file = place.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line);
}
bool Same(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

/// Describes a thread's state, for messages.
std::string About(unsigned i) {
  const Thread& thread = *block.threads[i];
  const std::string who = "thread " + At(thread.index) + " ";
  switch (thread.state) {
    case State::kReady:
      return who + "has its turn to come";
    case State::kAtBarrier:
      return who + "waits for the block at " + At(thread.place);
    case State::kInWarp:
      return who + "waits for its warp at " + At(thread.place);
    case State::kReturned:
      return who + "has returned";
  }
  return who;
}

/// Yields to another thread.
void Wait(State state, Place place) {
  Thread& mine = Mine();
  mine.state = state;
  mine.place = place;
  mine.fiber.Leave();
}

void Wake(unsigned i) {
  block.threads[i]->state = State::kReady;
  block.ready.push_back(i);
}

/// Completes the copies of the groups before `end`.
void LandCopies(Thread* thread, uint64_t end) {
  std::erase_if(thread->copies, [end](const PendingCopy& copy) {
    if (copy.group >= end) return false;
    if (copy.there) {
      memcpy(copy.to, copy.from, 16);
    } else {
      memset(copy.to, 0, 16);
    }
    return true;
  });
}
constexpr uint64_t kEveryGroup = ~uint64_t{0};

/// The start of every fiber: the kernel, once for each block.
void Body() {
  Mine().fiber.Arrived();
  for (;;) {
    block.work->Thread();
    LandCopies(&Mine(), kEveryGroup);
    --block.running;
    Wait(State::kReturned, {});
  }
}

void Prepare() {
  block.size = here.block_size.x * here.block_size.y * here.block_size.z;
  while (block.threads.size() < block.size) {
    block.threads.push_back(std::make_unique<Thread>(&Body));
  }
  block.running = block.size;
  block.at_barrier = 0;
  block.ready.clear();
  for (unsigned i = 0; i < block.size; ++i) {
    const dim3& size = here.block_size;
    block.threads[i]->index = dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
    Wake(i);
  }
}

/// Chooses one of four orders at every turn, so that the choice is cheap.
void Shuffle(std::vector<unsigned>* turn) {
  const auto draw = block.random();
  if (draw % 2 == 0) std::reverse(turn->begin(), turn->end());
  if (draw % 4 < 2) {
    const auto middle = static_cast<std::ptrdiff_t>(block.random() % turn->size());
    std::rotate(turn->begin(), turn->begin() + middle, turn->end());
  }
}

/// Reports a deadlock: each thread waits for one that waits elsewhere, or has returned.
[[noreturn]] void FailStuck() {
  std::string waits;
  std::string others;
  for (unsigned i = 0; i < block.size; ++i) {
    const State state = block.threads[i]->state;
    if (state == State::kReturned) {
      if (others.empty()) others = About(i);
    } else if (waits.empty()) {
      waits = About(i);
      block.current = i;
      here.thread = block.threads[i]->index;
    } else if (others.empty() && !Same(block.threads[i]->place, Mine().place)) {
      others = About(i);
    }
  }
  Fail("threads wait for others that do not come: %s; %s", waits.c_str(), others.c_str());
}

void RunBlock() {
  Prepare();
  std::vector<unsigned> turn;
  while (block.running > 0) {
    turn.clear();
    turn.swap(block.ready);
    if (turn.empty()) FailStuck();
    Shuffle(&turn);
    for (const unsigned i : turn) {
      block.current = i;
      here.thread = block.threads[i]->index;
      block.threads[i]->fiber.Enter();
    }
  }
}

/// Numbers 0..n-1 in an order drawn for the launch: a step that is coprime to n.
class BlockOrder {
 public:
  explicit BlockOrder(uint64_t n) : n_(n), at_(block.random() % n), step_(1 + block.random() % n) {
    while (std::gcd(step_, n_) != 1) ++step_;
  }
  uint64_t Next() { return at_ = (at_ + step_) % n_; }

 private:
  const uint64_t n_;
  uint64_t at_;
  uint64_t step_;
};

bool Refuse(const Size& size, const Work& work, const char* why) {
  fprintf(stderr, "kernels/simt: a GPU would refuse %s, grid %s, block %s, %zu bytes shared: %s\n",
          FunctionName(work.kernel()).c_str(), At(size.grid).c_str(), At(size.block).c_str(),
          size.shared_bytes, why);
  return false;
}

/// Most dynamic shared memory of a block of the kernel, and most of static and dynamic together.
size_t MaxShared(const void* kernel) {
  const std::lock_guard lock(asked_mutex);
  const auto asked = asked_shared.find(kernel);
  return asked == asked_shared.end() ? kMaxShared : asked->second;
}
size_t MaxSharedTogether(const void* kernel) {
  return MaxShared(kernel) > kMaxShared ? kMaxAskedShared : kMaxShared;
}

/// The lanes of this warp that exist in the block.
unsigned LanesOf(unsigned warp) {
  const unsigned left = block.size - warp * kWarp;
  return left >= kWarp ? kAllLanes : (1u << left) - 1;
}

/// Gives the lanes of a mask their results once all of them have called.
void FinishWarpOperation(unsigned warp, unsigned mask) {
  const auto lane = [&](unsigned i) -> Thread& { return *block.threads[warp * kWarp + i]; };
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1) != 0) lane(i).result = lane(lane(i).from).value;
  }
  if (mask == LanesOf(warp)) WarpMet(warp);
}

/// Waits until all lanes of the mask have called this from the same place.
void MeetWarp(unsigned mask, Place place) {
  const unsigned warp = block.current / kWarp;
  const unsigned mine = block.current % kWarp;
  mask &= LanesOf(warp);
  if ((mask >> mine & 1) == 0) {
    Fail("%s: the mask %08x leaves out lane %u, which calls", At(place).c_str(), mask, mine);
  }
  Mine().mask = mask;
  // Lanes run in order, so that the next one mostly has not come. The last one to come checks the
  // others.
  for (unsigned step = 1; step < kWarp; ++step) {
    const unsigned i = (mine + step) % kWarp;
    if ((mask >> i & 1) == 0) continue;
    const unsigned number = warp * kWarp + i;
    const Thread& other = *block.threads[number];
    if (other.state == State::kReady) return Wait(State::kInWarp, place);
    if (other.state == State::kReturned) {
      Fail("%s: lane %u of the mask %08x does not take part: %s", At(place).c_str(), i, mask,
           About(number).c_str());
    }
    if (other.state == State::kAtBarrier || other.mask != mask || !Same(other.place, place)) {
      Fail("%s: lane %u of the mask %08x takes part in something else: %s", At(place).c_str(), i,
           mask, About(number).c_str());
    }
  }
  FinishWarpOperation(warp, mask);
  for (unsigned i = 0; i < kWarp; ++i) {
    if (i != mine && (mask >> i & 1) != 0) Wake(warp * kWarp + i);
  }
}

}  // namespace

void Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "kernels/simt: %s, block %s of %s, thread %s of %s: ",
          FunctionName(block.work->kernel()).c_str(), At(here.block).c_str(), At(here.grid).c_str(),
          At(here.thread).c_str(), At(here.block_size).c_str());
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

unsigned CurrentThread() { return block.current; }
bool OnOwnStack(uintptr_t address) { return Mine().fiber.Holds(address); }
bool OnAnyStack(uintptr_t address) {
  return std::any_of(block.threads.begin(), block.threads.end(),
                     [&](const auto& thread) { return thread->fiber.Holds(address); });
}

bool AskForShared(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > kMaxAskedShared) return false;
  const std::lock_guard lock(asked_mutex);
  asked_shared[kernel] = static_cast<size_t>(bytes);
  return true;
}

bool MayLaunch(const Size& size, const Work& work) {
  constexpr uint64_t kMaxGridX = 2147483647;
  constexpr unsigned kMaxGrid = 65535;
  const dim3& grid = size.grid;
  const dim3& threads = size.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return Refuse(size, work, "no blocks");
  if (grid.x > kMaxGridX || grid.y > kMaxGrid || grid.z > kMaxGrid) {
    return Refuse(size, work, "too many blocks");
  }
  const uint64_t count = uint64_t{threads.x} * threads.y * threads.z;
  if (count == 0 || count > kMaxThreads || threads.z > 64) {
    return Refuse(size, work, "a block has 1 to 1024 threads");
  }
  if (size.shared_bytes > MaxShared(work.kernel())) {
    return Refuse(size, work, "too much shared memory");
  }
  return true;
}

void Run(const Size& size, const Work& work) {
  block.work = &work;
  here.grid = size.grid;
  here.block_size = size.block;
  BeginLaunch(&work, work.bytes());
  const uint64_t blocks = uint64_t{size.grid.x} * size.grid.y * size.grid.z;
  BlockOrder order(blocks);
  // Newly allocated, so that a memory checker detects its end.
  block.shared.reset(new char[size.shared_bytes]);
  for (uint64_t n = 0; n < blocks; ++n) {
    const uint64_t b = order.Next();
    here.block = dim3(static_cast<unsigned>(b % size.grid.x),
                      static_cast<unsigned>(b / size.grid.x % size.grid.y),
                      static_cast<unsigned>(b / size.grid.x / size.grid.y));
    memset(block.shared.get(), kSpoilt, size.shared_bytes);
    BeginBlock(block.shared.get(), size.shared_bytes);
    RunBlock();
    EndBlock();
    if (n == 0 && size.shared_bytes + StaticSharedBytes() > MaxSharedTogether(work.kernel())) {
      Fail("%zu bytes of static and %zu of dynamic shared memory are too much together",
           StaticSharedBytes(), size.shared_bytes);
    }
  }
}

void SetSeed(uint32_t seed) { block.random.seed(seed); }

void* DynamicShared() { return block.shared.get(); }

void SyncBlock(Place place) {
  if (block.running < block.size) {
    const auto returned = std::find_if(block.threads.begin(), block.threads.end(), [](auto& other) {
      return other->state == State::kReturned;
    });
    Fail("%s: a barrier that not all threads reach: %s", At(place).c_str(),
         About(static_cast<unsigned>(returned - block.threads.begin())).c_str());
  }
  if (block.at_barrier > 0 && !Same(block.barrier, place)) {
    Fail("%s: a barrier that not all threads reach: others wait for the block at %s",
         At(place).c_str(), At(block.barrier).c_str());
  }
  block.barrier = place;
  if (++block.at_barrier < block.running) return Wait(State::kAtBarrier, place);
  block.at_barrier = 0;
  BlockMet();
  for (unsigned i = 0; i < block.size; ++i) {
    if (i != block.current) Wake(i);
  }
}

void SyncWarp(unsigned mask, Place place) {
  Mine().from = block.current % kWarp;
  MeetWarp(mask, place);
}

uint64_t Exchange(unsigned mask, uint64_t mine, unsigned from, Place place) {
  Thread& thread = Mine();
  if (from >= kWarp || (mask >> from & 1) == 0 ||
      (LanesOf(block.current / kWarp) >> from & 1) == 0) {
    Fail("%s: asks for the value of lane %u, which the mask %08x leaves out", At(place).c_str(),
         from, mask);
  }
  thread.value = mine;
  thread.from = from;
  MeetWarp(mask, place);
  return thread.result;
}

unsigned Ballot(unsigned mask, bool vote, Place place) {
  Thread& thread = Mine();
  const unsigned lane = block.current % kWarp;
  unsigned votes = 0;
  // Every lane of the mask asks every other; rarely used, so kept simple.
  thread.value = vote ? 1 : 0;
  thread.from = lane;
  MeetWarp(mask, place);
  for (unsigned i = 0; i < kWarp && block.current - lane + i < block.size; ++i) {
    if ((mask >> i & 1) != 0) {
      votes |= static_cast<unsigned>(block.threads[block.current - lane + i]->value) << i;
    }
  }
  MeetWarp(mask, place);
  return votes;
}

int AtomicAdd(int* at, int value) {
  Touch(at, sizeof *at, Act::kAtomic, __builtin_return_address(0));
  const int before = *at;
  *at += value;
  return before;
}

void CopyAsync16(void* to, const void* from, bool there) {
  const void* const where = __builtin_return_address(0);
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    Fail("a copy of 16 bytes from %p to shared memory at %p: not aligned to them", from, to);
  }
  if (there) Touch(from, 16, Act::kRead, where);
  Touch(to, 16, Act::kWrite, where);
  memset(to, kSpoilt, 16);
  Mine().copies.push_back({to, from, there, Mine().groups});
}

namespace {

void AwaitBefore(uint64_t end, const void* where) {
  for (const PendingCopy& copy : Mine().copies) {
    if (copy.group < end) Touch(copy.to, 16, Act::kWrite, where);
  }
  LandCopies(&Mine(), end);
}

}  // namespace

void AwaitCopies() { AwaitBefore(kEveryGroup, __builtin_return_address(0)); }

void CommitCopies() { ++Mine().groups; }

void AwaitCopiesBut(int groups) {
  const uint64_t newest = static_cast<uint64_t>(groups);
  if (Mine().groups <= newest) return;
  AwaitBefore(Mine().groups - newest, __builtin_return_address(0));
}

}  // namespace quire::simt
