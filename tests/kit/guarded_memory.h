// SPDX-License-Identifier: Apache-2.0
//
// GuardedMemory: pages that this process can access only through its own copies; any other access
// faults. It stands for the memory of an accelerator.
// Ownership: owns the pages, unless some were given, which must be whole pages and outlive it.
// Thread-safety: as MemoryAccess; one copy at a time.
#ifndef QUIRE_TESTS_KIT_GUARDED_MEMORY_H_
#define QUIRE_TESTS_KIT_GUARDED_MEMORY_H_

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/memory_access.h"
#include "common/base/mutex.h"

namespace quire::testing {

class GuardedMemory final : public MemoryAccess {
 public:
  explicit GuardedMemory(size_t bytes)
      : owned_(true),
        pages_(static_cast<std::byte*>(mmap(nullptr, WholePages(bytes), PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               WholePages(bytes)),
        bytes_(pages_.first(bytes)) {
    Protect(PROT_NONE);
  }
  explicit GuardedMemory(std::span<std::byte> pages) : owned_(false), pages_(pages), bytes_(pages) {
    Protect(PROT_NONE);
  }
  ~GuardedMemory() override {
    Protect(PROT_READ | PROT_WRITE);
    if (owned_) munmap(pages_.data(), pages_.size());
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  /// Makes later copies fail.
  void Break() { broken_ = true; }
  uint64_t copies_in() const { return copies_in_; }
  uint64_t bytes_out() const { return bytes_out_; }
  /// The most bytes that one CopyFrom has requested.
  uint64_t most_out() const { return most_out_; }

  std::vector<std::byte> Read() {
    std::vector<std::byte> all(bytes_.size());
    MutexLock lock(mutex_);
    const Open open(*this);
    std::ranges::copy(bytes_, all.begin());
    return all;
  }
  void Fill(std::byte value) {
    MutexLock lock(mutex_);
    const Open open(*this);
    std::ranges::fill(bytes_, value);
  }
  /// Writes as a device would.
  void Write(size_t offset, std::span<const std::byte> from) {
    MutexLock lock(mutex_);
    const Open open(*this);
    std::ranges::copy(from, bytes_.begin() + static_cast<ptrdiff_t>(offset));
  }

  MemoryType type() const override { return MemoryType::kCuda; }
  Status CopyTo(std::span<const CopyIn> copies) override {
    if (broken_) return Internal("the guarded memory is broken");
    MutexLock lock(mutex_);
    const Open open(*this);
    for (const CopyIn& copy : copies) {
      if (!Holds(copy.to, copy.from.size())) return Internal("a copy outside the guarded memory");
      std::memcpy(copy.to, copy.from.data(), copy.from.size());
      ++copies_in_;
    }
    return OkStatus();
  }
  Status CopyFrom(std::span<const std::span<const std::byte>> pieces,
                  std::span<std::byte> to) override {
    if (broken_) return Internal("the guarded memory is broken");
    MutexLock lock(mutex_);
    const Open open(*this);
    most_out_ = std::max<uint64_t>(most_out_, to.size());
    for (const auto& piece : pieces) {
      if (!Holds(piece.data(), piece.size()) || piece.size() > to.size()) {
        return Internal("a copy outside the guarded memory");
      }
      std::memcpy(to.data(), piece.data(), piece.size());
      bytes_out_ += piece.size();
      to = to.subspan(piece.size());
    }
    return to.empty() ? OkStatus() : Internal("the pieces are fewer bytes than are wanted");
  }

 private:
  class Open {
   public:
    explicit Open(const GuardedMemory& memory) : memory_(memory) {
      memory_.Protect(PROT_READ | PROT_WRITE);
    }
    ~Open() { memory_.Protect(PROT_NONE); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    const GuardedMemory& memory_;
  };

  static size_t WholePages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  bool Holds(const std::byte* at, size_t bytes) const {
    return at >= bytes_.data() && at + bytes <= bytes_.data() + bytes_.size();
  }
  void Protect(int rights) const {
    if (mprotect(pages_.data(), pages_.size(), rights) != 0) std::abort();
  }

  const bool owned_;
  const std::span<std::byte> pages_;
  const std::span<std::byte> bytes_;
  Mutex mutex_;
  std::atomic<bool> broken_{false};
  std::atomic<uint64_t> copies_in_{0};
  std::atomic<uint64_t> bytes_out_{0};
  std::atomic<uint64_t> most_out_{0};
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_GUARDED_MEMORY_H_
