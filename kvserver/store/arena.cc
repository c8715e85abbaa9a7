// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace quire::kvserver {
namespace {

constexpr uint64_t kMaxSlabBytes = 16 << 20;
// At least this many slabs, so that several slot sizes find a place in a small arena.
constexpr uint64_t kMinSlabs = 16;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + Arena::kSlotAlignBytes - 1) / Arena::kSlotAlignBytes * Arena::kSlotAlignBytes;
}

uint64_t SlabBytes(uint64_t arena_bytes) {
  const uint64_t share = arena_bytes / kMinSlabs / Arena::kSlotAlignBytes * Arena::kSlotAlignBytes;
  return std::clamp(share, Arena::kSlotAlignBytes, kMaxSlabBytes);
}

Status CheckSize(uint64_t bytes) {
  const uint64_t machine_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes < Arena::kMinBytes || bytes > machine_bytes) {
    return InvalidArgument("dram_bytes is ", bytes, ", must be ", Arena::kMinBytes, "..",
                           machine_bytes, " (the memory of this machine)");
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Arena>> Arena::Reserve(uint64_t bytes) {
  QUIRE_RETURN_IF_ERROR(CheckSize(bytes));
  const int fd = memfd_create("quire-arena", MFD_CLOEXEC);
  void* base = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (base == MAP_FAILED) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return ResourceExhausted("cannot reserve ", bytes,
                             " bytes of memory for the arena: ", std::strerror(error),
                             "; lower dram_bytes or raise the process's memory limit");
  }
  return std::unique_ptr<Arena>(
      new Arena(static_cast<std::byte*>(base), bytes, SlabBytes(bytes), fd));
}

Arena::Arena(std::byte* base, uint64_t bytes, uint64_t slab_bytes, int fd)
    : base_(base),
      bytes_(bytes),
      slab_bytes_(slab_bytes),
      num_slabs_(bytes / slab_bytes),
      fd_(fd),
      slabs_(num_slabs_) {}

Arena::~Arena() {
  munmap(base_, bytes_);
  close(fd_);
}

bool Arena::Fits(uint64_t bytes) const { return bytes > 0 && bytes <= slab_bytes_; }

bool Arena::SameClass(uint64_t a_bytes, uint64_t b_bytes) const {
  return RoundUp(a_bytes) == RoundUp(b_bytes);
}

std::optional<uint32_t> Arena::SlabWithRoom(uint64_t slot_bytes) {
  std::optional<uint32_t> pooled;
  for (uint32_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].slot_bytes == slot_bytes && !slabs_[i].free.empty()) return i;
    if (slabs_[i].slot_bytes == 0 && !pooled) pooled = i;
  }
  if (!pooled) return std::nullopt;
  Slab& slab = slabs_[*pooled];
  const auto slots = static_cast<uint32_t>(slab_bytes_ / slot_bytes);
  slab.slot_bytes = slot_bytes;
  slab.generations.assign(slots, 0);
  for (uint32_t i = slots; i > 0; --i) slab.free.push_back(i - 1);
  return pooled;
}

std::optional<Arena::Slot> Arena::Allocate(uint64_t bytes) {
  if (!Fits(bytes)) return std::nullopt;
  MutexLock lock(mutex_);
  const std::optional<uint32_t> number = SlabWithRoom(RoundUp(bytes));
  if (!number) return std::nullopt;
  Slab& slab = slabs_[*number];
  const Slot slot{.slab = *number, .index = slab.free.back(), .generation = next_generation_++};
  slab.free.pop_back();
  slab.generations[slot.index] = slot.generation;
  ++slab.used;
  used_bytes_ += slab.slot_bytes;
  return slot;
}

bool Arena::IsLive(const Slot& slot) const {
  return slot.generation != 0 && slot.slab < slabs_.size() &&
         slot.index < slabs_[slot.slab].generations.size() &&
         slabs_[slot.slab].generations[slot.index] == slot.generation;
}

void Arena::Free(const Slot& slot) {
  MutexLock lock(mutex_);
  if (!IsLive(slot)) return;
  Slab& slab = slabs_[slot.slab];
  used_bytes_ -= slab.slot_bytes;
  slab.generations[slot.index] = 0;
  slab.free.push_back(slot.index);
  if (--slab.used == 0) slab = Slab{};
}

std::span<std::byte> Arena::Bytes(const Slot& slot) {
  MutexLock lock(mutex_);
  if (!IsLive(slot)) return {};
  const uint64_t slot_bytes = slabs_[slot.slab].slot_bytes;
  return {base_ + slot.slab * slab_bytes_ + slot.index * slot_bytes, slot_bytes};
}

uint32_t Arena::UsedSlots(uint32_t slab) const {
  MutexLock lock(mutex_);
  return slabs_[slab].used;
}

uint64_t Arena::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

}  // namespace quire::kvserver
