// SPDX-License-Identifier: Apache-2.0
//
// Checks every access of the running block. Time is counted in barriers. Each byte records the
// thread and time of its last write, and of its last two reads.
#include "kernels/simt/access.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/simt/simt.h"
#include "kernels/simt/symbols.h"

namespace quire::simt {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMaxPages = 2048;  ///< Most shadow pages kept from one launch to the next.
constexpr uint32_t kLateTime = 1u << 31;
constexpr uint32_t kSpoilt = 0xffffffffu;

/// Without the compiler's calls (a sanitizer takes their place), only the few calls of block.cc
/// would be checked, out of context.
#if defined(QUIRE_SIMT_CHECKS_ACCESSES)
constexpr bool kChecksAccesses = true;
#else
constexpr bool kChecksAccesses = false;
#endif

/// Time and thread of an access; time 0 is never.
struct Stamp {
  uint32_t time = 0;
  uint16_t thread = 0;
  bool atomic = false;

  bool operator==(const Stamp&) const = default;
};
struct Byte {
  Stamp write;
  Stamp reads[2];  ///< By different threads, the last first.

  bool operator==(const Byte&) const = default;
};
struct Page {
  Byte bytes[kPageBytes];
};

struct Range {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool Holds(uintptr_t address) const { return address - begin < bytes; }
  bool Holds(uintptr_t address, size_t n) const {
    return address - begin < bytes && n <= bytes - (address - begin);
  }
};

Range RangeOf(const void* memory, size_t bytes) {
  return {reinterpret_cast<uintptr_t>(memory), bytes};
}

struct Checker {
  Range parameters;
  Range dynamic_shared;
  Range static_shared;     ///< From the first to the last array.
  std::vector<bool> used;  ///< Static arrays used in this launch.
  std::map<uintptr_t, size_t> watched;
  std::array<Range, 16> recent;  ///< Watched ranges found last.

  uint32_t time = 0;
  uint32_t launch_began = 0;
  uint32_t block_began = 0;
  uint32_t block_met = 0;
  std::array<uint32_t, kMaxThreads / kWarp> warp_met{};

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  struct Found {
    uintptr_t number = 0;
    Page* page = nullptr;
  };
  std::array<Found, 1024> found;
};
Checker checker;
/// True on the OS thread that runs kernels. Accesses of other threads, such as launchers, are not
/// checked.
thread_local bool runs_kernels = false;

Page& PageOf(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  Checker::Found& found = checker.found[number % checker.found.size()];
  if (found.page == nullptr || found.number != number) {
    std::unique_ptr<Page>& page = checker.pages[number];
    if (page == nullptr) page = std::make_unique<Page>();
    found = {number, page.get()};
  }
  return *found.page;
}

void Forget() {
  checker.pages.clear();
  checker.found.fill({});
}

/// The watched range that contains the address, or an empty one.
Range Watched(uintptr_t address) {
  Range& recent = checker.recent[address / kPageBytes % checker.recent.size()];
  if (recent.Holds(address)) return recent;
  auto after = checker.watched.upper_bound(address);
  if (after == checker.watched.begin()) return {};
  --after;
  const Range range{after->first, after->second};
  if (!range.Holds(address)) return {};
  return recent = range;
}

const SharedArray* StaticArray(uintptr_t address) {
  if (!checker.static_shared.Holds(address)) return nullptr;
  const auto& arrays = SharedArrays();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (address - arrays[i].begin >= arrays[i].bytes) continue;
    checker.used[i] = true;
    return &arrays[i];
  }
  return nullptr;
}

std::string Name(uintptr_t address) {
  if (checker.dynamic_shared.Holds(address)) {
    return "byte " + std::to_string(address - checker.dynamic_shared.begin) +
           " of dynamic shared memory";
  }
  if (const SharedArray* array = StaticArray(address)) {
    return "byte " + std::to_string(address - array->begin) + " of " + array->name;
  }
  char text[32];
  snprintf(text, sizeof text, "%p", reinterpret_cast<void*>(address));
  const Range range = Watched(address);
  if (range.bytes == 0) return text;
  return std::string(text) + ", byte " + std::to_string(address - range.begin) + " of " +
         std::to_string(range.bytes) + " bytes of device memory";
}

const char* Verb(Act act) {
  return act == Act::kRead ? "reads" : act == Act::kWrite ? "writes" : "atomically changes";
}

struct Access {
  uintptr_t address;
  size_t bytes;
  Act act;
  const void* where;
};

[[noreturn]] void FailAccess(const Access& access, const std::string& why) {
  Fail("%s %zu bytes at %s: %s (code at %s)", Verb(access.act), access.bytes,
       Name(access.address).c_str(), why.c_str(), CodeName(access.where).c_str());
}

bool Ordered(const Stamp& stamp, bool shared, unsigned thread) {
  if (stamp.time < checker.launch_began) return true;
  if (stamp.time < checker.block_began) return shared;
  if (stamp.thread == thread || stamp.time < checker.block_met) return true;
  return stamp.thread / kWarp == thread / kWarp && stamp.time < checker.warp_met[thread / kWarp];
}

[[noreturn]] void FailRace(const Access& access, const Stamp& other, const char* did) {
  const std::string who = other.time < checker.block_began
                              ? "another block of the launch"
                              : "thread " + std::to_string(other.thread) + " of the block";
  FailAccess(access, who + " " + did + " it, and nothing orders the two");
}

/// Checks the first byte of `access`, and records the access in it.
void CheckByte(const Access& access, bool shared, const Stamp& now, Byte& byte) {
  if (shared && access.act != Act::kWrite && byte.write.time < checker.block_began) {
    FailAccess(access, "nothing of the block has written it");
  }
  if (!(now.atomic && byte.write.atomic) && !Ordered(byte.write, shared, now.thread)) {
    FailRace(access, byte.write, byte.write.atomic ? "atomically changes" : "writes");
  }
  if (access.act == Act::kRead) {
    if (byte.reads[0].thread != now.thread || byte.reads[0].time < checker.block_began) {
      byte.reads[1] = byte.reads[0];
    }
    byte.reads[0] = now;
    return;
  }
  for (const Stamp& read : byte.reads) {
    if (!Ordered(read, shared, now.thread)) FailRace(access, read, "reads");
  }
  byte.write = now;
}

/// Bytes with the same record, which those of one value mostly have, are checked once.
void CheckBytes(const Access& access, bool shared) {
  const Stamp now{checker.time, static_cast<uint16_t>(CurrentThread()), access.act == Act::kAtomic};
  Byte before;
  const Byte* after = nullptr;
  Byte* page = nullptr;
  for (size_t i = 0; i < access.bytes; ++i) {
    const uintptr_t address = access.address + i;
    if (page == nullptr || address % kPageBytes == 0) page = PageOf(address).bytes;
    Byte& byte = page[address % kPageBytes];
    if (after != nullptr && byte == before) {
      byte = *after;
      continue;
    }
    before = byte;
    CheckByte({address, access.bytes - i, access.act, access.where}, shared, now, byte);
    after = &byte;
  }
}

/// Checks memory outside of kernels: only constants of the program may be read.
void CheckElsewhere(const Access& access) {
  if (OnAnyStack(access.address)) FailAccess(access, "it is on another thread's stack");
  if (access.act == Act::kRead && IsProgramConstant(access.address)) return;
  FailAccess(access, "it is not the device's");
}

/// Writes by itself: AddressSanitizer's functions treat the redzone behind an array as its part.
__attribute__((no_sanitize("address"))) void Spoil(const SharedArray& array) {
  auto* const words = reinterpret_cast<volatile uint32_t*>(array.begin);
  for (size_t i = 0; i < array.bytes / sizeof *words; ++i) words[i] = kSpoilt;
}

}  // namespace

void BeginLaunch(const void* parameters, size_t parameter_bytes) {
  if (checker.pages.size() > kMaxPages || checker.time > kLateTime) Forget();
  if (checker.time > kLateTime) checker.time = 0;
  checker.launch_began = ++checker.time;
  checker.parameters = RangeOf(parameters, parameter_bytes);
  const auto& arrays = SharedArrays();
  checker.used.assign(arrays.size(), false);
  if (!arrays.empty()) {
    const uintptr_t end = arrays.back().begin + arrays.back().bytes;
    checker.static_shared = {arrays.front().begin, end - arrays.front().begin};
  }
}

void BeginBlock(void* shared, size_t shared_bytes) {
  for (const SharedArray& array : SharedArrays()) Spoil(array);
  checker.dynamic_shared = RangeOf(shared, shared_bytes);
  checker.block_began = checker.block_met = ++checker.time;
  checker.warp_met.fill(checker.time);
  runs_kernels = true;
}

void EndBlock() { runs_kernels = false; }

size_t StaticSharedBytes() {
  size_t bytes = 0;
  for (size_t i = 0; i < checker.used.size(); ++i) {
    if (checker.used[i]) bytes += (SharedArrays()[i].bytes + 15) / 16 * 16;
  }
  return bytes;
}

void BlockMet() { checker.block_met = ++checker.time; }
void WarpMet(unsigned warp) { checker.warp_met[warp] = ++checker.time; }

void WatchMemory(const void* memory, size_t bytes) {
  checker.watched[reinterpret_cast<uintptr_t>(memory)] = bytes;
}
void UnwatchMemory(const void* memory) {
  checker.watched.erase(reinterpret_cast<uintptr_t>(memory));
  checker.recent.fill({});
}

void Touch(const void* memory, size_t bytes, Act act, const void* where) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (!kChecksAccesses || !runs_kernels || OnOwnStack(address) ||
      RangeOf(&here, sizeof here).Holds(address))
    return;
  const Access access{address, bytes, act, where};
  if (checker.dynamic_shared.Holds(address)) {
    if (!checker.dynamic_shared.Holds(address, bytes)) FailAccess(access, "it ends outside");
    return CheckBytes(access, true);
  }
  if (const SharedArray* array = StaticArray(address)) {
    if (bytes > array->bytes - (address - array->begin)) FailAccess(access, "it ends outside");
    return CheckBytes(access, true);
  }
  if (checker.parameters.Holds(address)) {
    if (act != Act::kRead) FailAccess(access, "it is a parameter of all threads");
    return;
  }
  if (!checker.watched.empty()) {
    const Range range = Watched(address);
    if (range.bytes == 0) return CheckElsewhere(access);
    if (!range.Holds(address, bytes)) FailAccess(access, "it ends outside");
  }
  CheckBytes(access, false);
}

namespace {

void Aligned(const void* memory, size_t bytes, Act act, const void* where) {
  if (runs_kernels && reinterpret_cast<uintptr_t>(memory) % bytes != 0 &&
      !OnOwnStack(reinterpret_cast<uintptr_t>(memory))) {
    FailAccess({reinterpret_cast<uintptr_t>(memory), bytes, act, where}, "it is not aligned");
  }
  Touch(memory, bytes, act, where);
}

}  // namespace
}  // namespace quire::simt

// Entry points that a compiler calls before each access under -fsanitize=thread.
using quire::simt::Act;
#define QUIRE_SIMT_ACCESS(bytes)                                               \
  extern "C" void __tsan_read##bytes(void* at) {                               \
    quire::simt::Aligned(at, bytes, Act::kRead, __builtin_return_address(0));  \
  }                                                                            \
  extern "C" void __tsan_write##bytes(void* at) {                              \
    quire::simt::Aligned(at, bytes, Act::kWrite, __builtin_return_address(0)); \
  }                                                                            \
  extern "C" void __tsan_unaligned_read##bytes(void* at) {                     \
    quire::simt::Touch(at, bytes, Act::kRead, __builtin_return_address(0));    \
  }                                                                            \
  extern "C" void __tsan_unaligned_write##bytes(void* at) {                    \
    quire::simt::Touch(at, bytes, Act::kWrite, __builtin_return_address(0));   \
  }
QUIRE_SIMT_ACCESS(1)
QUIRE_SIMT_ACCESS(2)
QUIRE_SIMT_ACCESS(4)
QUIRE_SIMT_ACCESS(8)
QUIRE_SIMT_ACCESS(16)
extern "C" void __tsan_read_range(void* at, size_t bytes) {
  quire::simt::Touch(at, bytes, Act::kRead, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void* at, size_t bytes) {
  quire::simt::Touch(at, bytes, Act::kWrite, __builtin_return_address(0));
}
/// Called by launchers only: kernels use atomicAdd.
extern "C" int __tsan_atomic32_fetch_add(volatile int* at, int value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
extern "C" void __tsan_vptr_read(void**) {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
