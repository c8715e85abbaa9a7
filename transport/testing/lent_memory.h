// SPDX-License-Identifier: Apache-2.0
//
// LentMemory: ServerMemory that clients of a ShmListener map. It verifies that its payload was
// lent, not copied, and that every lease was released.
#ifndef QUIRE_TRANSPORT_TESTING_LENT_MEMORY_H_
#define QUIRE_TRANSPORT_TESTING_LENT_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_leases.h"
#include "transport/shm/shm_listener.h"
#include "transport/testing/server_memory.h"

namespace quire::testing {

/// Released memory is reused, so a lease that ends too early shows as wrong bytes. Slices lie in
/// plain memory when it is full.
class LentMemory final : public ServerMemory {
 public:
  /// REQUIRES: bytes > 0.
  explicit LentMemory(uint64_t bytes) : arena_(std::make_shared<ShmCopyOut>(bytes)) {
    EXPECT_FALSE(arena_->Allocate(1).empty()) << "no shared memory to be had";
  }

  /// The memory for a listener to share.
  SharedMemoryView view() const { return arena_->view(); }
  /// Sets the listener whose connections send from here. Call it before anything is sent.
  void SentBy(const ShmListener& listener) { use_ = listener.use(); }

  void ExpectAllReturned() override {
    EXPECT_TRUE(BecomesTrue([this] { return use_->leased_bytes == 0; }))
        << use_->leased_bytes.load() << " bytes are leased";
    EXPECT_LE(use_->copied_bytes.load(), plain_bytes_.load()) << "lent memory was copied";
  }

 private:
  Slice Place(std::vector<std::byte> bytes) override {
    ShmCopyOut::Block block = bytes.empty() ? ShmCopyOut::Block() : arena_->Allocate(bytes.size());
    if (block.empty()) {
      plain_bytes_ += bytes.size();
      return ServerMemory::Place(std::move(bytes));
    }
    std::copy(bytes.begin(), bytes.end(), block.bytes().begin());
    const std::span<const std::byte> view = block.bytes();
    return Slice{view, Own(std::move(block))};
  }

  const std::shared_ptr<ShmCopyOut> arena_;
  std::shared_ptr<const ShmUse> use_;
  std::atomic<uint64_t> plain_bytes_{0};
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_LENT_MEMORY_H_
