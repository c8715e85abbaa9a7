// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_client_memory.h"

#include <utility>

namespace quire {

/// The client lends for as long as the server needs, and may change the bytes at any time.
class ShmClientMemory::Loan final : public PayloadLease {
 public:
  Loan(std::shared_ptr<State> state, uint64_t lease) : state_(std::move(state)), lease_(lease) {}
  ~Loan() override {
    MutexLock lock(state_->mutex);
    state_->returned.push_back(lease_);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Duration duration() const override { return Duration::max(); }
  bool IsValid() override { return true; }
  Status Renew(Duration) override { return OkStatus(); }

 private:
  const std::shared_ptr<State> state_;
  const uint64_t lease_;
};

Status ShmClientMemory::SetRegion(UniqueFd fd, uint64_t bytes) {
  if (state_->region != nullptr) {
    return InvalidArgument("shared-memory connection: the client has a region already");
  }
  QUIRE_ASSIGN_OR_RETURN(state_->region, ReadOnlyMapping::Map(fd.get(), bytes));
  return OkStatus();
}

StatusOr<std::shared_ptr<PayloadLease>> ShmClientMemory::Borrow(uint64_t lease) {
  if (state_->region == nullptr) {
    return InvalidArgument("shared-memory connection: the client lends, and has no region");
  }
  return std::shared_ptr<PayloadLease>(std::make_shared<Loan>(state_, lease));
}

std::span<const std::byte> ShmClientMemory::Bytes(const ShmDescriptor& slice) const {
  if (slice.region != kShmClientRegion || state_->region == nullptr) return {};
  const std::span<const std::byte> region = state_->region->bytes();
  if (slice.offset > region.size() || slice.bytes > region.size() - slice.offset) return {};
  return region.subspan(slice.offset, slice.bytes);
}

std::vector<uint64_t> ShmClientMemory::TakeReturned() {
  MutexLock lock(state_->mutex);
  return std::exchange(state_->returned, {});
}

}  // namespace quire
