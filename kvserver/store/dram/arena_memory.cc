// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram/arena_memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace quire::kvserver {
namespace {

// Constants of Linux 5.14 and 6.1; the C library's headers may be older than the kernel.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;
constexpr int kCollapse = 25;

constexpr unsigned kHugeTlb2Mib = MFD_HUGETLB | (21u << 26);
constexpr uint64_t kSmallPageBytes = 4096;

uint64_t RoundUpTo(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::byte* AlignUp(std::byte* address, uint64_t multiple) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  return address + (RoundUpTo(number, multiple) - number);
}

bool Advise(std::span<std::byte> range, int advice) {
  return madvise(range.data(), range.size(), advice) == 0;
}

}  // namespace

StatusOr<std::unique_ptr<ArenaMemory>> ArenaMemory::Map(const Options& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int> nodes,
                         ChooseNodes(MemoryNodes(), options.numa_node));
  std::unique_ptr<ArenaMemory> memory(new ArenaMemory());
  bool bound = false;
  if (memory->TryMapHuge(options, nodes)) {
    bound = !nodes.empty();
  } else if (memory->TryMap(options.bytes, 0)) {
    bound = !nodes.empty() && memory->Bind(nodes, options.numa_node != kInterleaveNodes);
  } else {
    return ResourceExhausted("cannot reserve ", options.bytes,
                             " bytes of memory for the arena: ", std::strerror(errno),
                             "; lower dram_bytes or raise the process's memory limit");
  }
  if (options.numa_node != kInterleaveNodes && !nodes.empty() && !bound) {
    return ResourceExhausted(
        "cannot put the arena on NUMA node ", options.numa_node, ": ", std::strerror(errno),
        "; allow the process to call mbind, or use all nodes (", kInterleaveNodes, ")");
  }
  if (memory->pages_ == Pages::kSmall && memory->TransparentHugePagesWork()) {
    memory->pages_ = Pages::kTransparent;
  }
  static constexpr std::array<const char*, 3> kNames = {"huge pages 2 MiB",
                                                        "transparent huge pages", "4 KiB pages"};
  memory->mode_ = kNames[static_cast<size_t>(memory->pages_)];
  if (bound) memory->mode_ += ", NUMA nodes " + FormatNodes(nodes);
  memory->Share();
  if (options.prefault) QUIRE_RETURN_IF_ERROR(memory->Fill());
  return memory;
}

ArenaMemory::~ArenaMemory() { Unmap(); }

void ArenaMemory::Unmap() {
  if (!reserved_.empty()) munmap(reserved_.data(), reserved_.size());
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  reserved_ = bytes_ = {};
}

bool ArenaMemory::TryMap(uint64_t bytes, unsigned memfd_flags) {
  fd_ = memfd_create("quire-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return false;
  const uint64_t room = bytes + kHugePageBytes;
  void* const place =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  reserved_ = {static_cast<std::byte*>(place), room};
  std::byte* const base = AlignUp(reserved_.data(), kHugePageBytes);
  if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == MAP_FAILED) {
    return false;
  }
  bytes_ = {base, bytes};
  return true;
}

bool ArenaMemory::TryMapHuge(const Options& options, const std::vector<int>& nodes) {
  if (options.bytes < kHugePageBytes) return false;
  const bool strictly = options.numa_node != kInterleaveNodes;
  bool granted = TryMap(RoundUpTo(options.bytes, kHugePageBytes), kHugeTlb2Mib);
  // Pages are reserved by now, but on any node. Filling shows if the chosen node has them. It must
  // happen here, since a fault without a page kills the process.
  if (granted && !nodes.empty()) granted = Bind(nodes, strictly) && Advise(bytes_, kPopulateWrite);
  if (granted) {
    pages_ = Pages::kHuge;
  } else {
    Unmap();
  }
  return granted;
}

bool ArenaMemory::Bind(const std::vector<int>& nodes, bool strictly) const {
  constexpr size_t kBits = 8 * sizeof(unsigned long);  // NOLINT(google-runtime-int): the kernel's
  std::array<unsigned long, kMaxNumaNode / kBits + 1> mask{};
  for (const int node : nodes) {
    mask[static_cast<size_t>(node) / kBits] |= 1ul << (static_cast<size_t>(node) % kBits);
  }
  return syscall(SYS_mbind, bytes_.data(), bytes_.size(), strictly ? MPOL_BIND : MPOL_INTERLEAVE,
                 mask.data(), mask.size() * kBits + 1, 0) == 0;
}

/// True when the whole first huge page is present after one use and one request.
bool ArenaMemory::TransparentHugePagesWork() const {
  if (bytes_.size() < kHugePageBytes) return false;
  (void)Advise(bytes_, MADV_HUGEPAGE);
  const std::span<std::byte> first = bytes_.first(kHugePageBytes);
  Collapse(first);
  unsigned char last_is_there = 0;
  return mincore(first.data() + first.size() - kSmallPageBytes, kSmallPageBytes, &last_is_there) ==
             0 &&
         (last_is_there & 1) != 0;
}

/// Seals the memory. Without kernel support the arena stays usable, but is not shared.
void ArenaMemory::Share() {
  if (!SealSharedMemory(fd_).ok()) return;
  StatusOr<UniqueFd> read_only = OpenReadOnly(fd_);
  if (read_only.ok()) read_only_ = *std::move(read_only);
}

std::optional<SharedMemoryView> ArenaMemory::shared() const {
  if (!read_only_.valid()) return std::nullopt;
  return SharedMemoryView{.bytes = bytes_, .fd = read_only_.get()};
}

void ArenaMemory::Prepare(std::span<std::byte> range) const {
  if (pages_ == Pages::kTransparent) Collapse(range);
}

void ArenaMemory::Collapse(std::span<std::byte> range) const {
  const uint64_t begin =
      RoundUpTo(static_cast<uint64_t>(range.data() - bytes_.data()), kHugePageBytes);
  const uint64_t end = static_cast<uint64_t>(range.data() - bytes_.data()) + range.size();
  for (uint64_t at = begin; at + kHugePageBytes <= end; at += kHugePageBytes) {
    // A huge page is only made around a present page.
    (void)Advise(bytes_.subspan(at, kSmallPageBytes), kPopulateRead);
    (void)Advise(bytes_.subspan(at, kHugePageBytes), kCollapse);
  }
}

Status ArenaMemory::Fill() const {
  if (pages_ == Pages::kTransparent) Prepare(bytes_);
  if (Advise(bytes_, kPopulateWrite)) return OkStatus();
  return ResourceExhausted("cannot fill ", bytes_.size(),
                           " bytes of the arena: ", std::strerror(errno),
                           "; lower dram_bytes, or start without filling it");
}

}  // namespace quire::kvserver
