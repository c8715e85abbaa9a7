// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_copy_out.h"

#include <iterator>
#include <utility>

namespace quire {
namespace {

uint64_t Rounded(uint64_t bytes) {
  return (bytes + ShmCopyOut::kAlignBytes - 1) / ShmCopyOut::kAlignBytes * ShmCopyOut::kAlignBytes;
}

}  // namespace

ShmCopyOut::Block::Block(Block&& other) noexcept
    : memory_(std::move(other.memory_)),
      bytes_(std::exchange(other.bytes_, {})),
      offset_(other.offset_) {}

ShmCopyOut::Block& ShmCopyOut::Block::operator=(Block&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(offset_, other.offset_);
  return *this;
}

ShmCopyOut::Block::~Block() {
  if (memory_ != nullptr) memory_->Free(offset_, bytes_.size());
}

ShmCopyOut::Block ShmCopyOut::Allocate(uint64_t bytes) {
  Block block;
  MutexLock lock(mutex_);
  if (bytes > capacity_bytes_ || !Reserve()) return block;
  const uint64_t taken = Rounded(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, room] = *it;
    if (room < taken) continue;
    free_.erase(it);
    if (room > taken) free_.emplace(offset + taken, room - taken);
    block.memory_ = shared_from_this();
    block.bytes_ = memory_->bytes().subspan(offset, bytes);
    block.offset_ = offset;
    break;
  }
  return block;
}

SharedMemoryView ShmCopyOut::view() const {
  MutexLock lock(mutex_);
  return memory_->view();
}

bool ShmCopyOut::Reserve() {
  if (std::exchange(reserved_, true)) return memory_ != nullptr;
  StatusOr<std::unique_ptr<SharedMemory>> memory =
      SharedMemory::Create("quire-copies", Rounded(capacity_bytes_));
  if (!memory.ok()) return false;  // Everything then goes through the socket.
  memory_ = *std::move(memory);
  free_.emplace(0, memory_->bytes().size());
  return true;
}

void ShmCopyOut::Free(uint64_t offset, uint64_t bytes) {
  MutexLock lock(mutex_);
  auto it = free_.emplace(offset, Rounded(bytes)).first;
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second == it->first) {
    before->second += it->second;
    free_.erase(it);
  }
}

}  // namespace quire
