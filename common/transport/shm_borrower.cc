// SPDX-License-Identifier: Apache-2.0
#include "common/transport/shm_borrower.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace quire {
namespace {

constexpr size_t kNumbersAtOnce = 512;
constexpr int kLongestWaitMillis = 1000;

}  // namespace

class ShmBorrower::Loan {
 public:
  Loan(std::shared_ptr<ShmBorrower> borrower, uint64_t lease)
      : borrower_(std::move(borrower)), lease_(lease) {}
  ~Loan() { borrower_->GiveBack(lease_); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  const std::shared_ptr<ShmBorrower> borrower_;
  const uint64_t lease_;
};

Status ShmBorrower::SetChannel(UniqueFd channel) {
  int type = 0;
  socklen_t size = sizeof type;
  if (channel_.valid() || getsockopt(channel.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET) {
    return InvalidArgument("shared-memory connection: the server sent no lease channel");
  }
  channel_ = std::move(channel);
  return OkStatus();
}

Status ShmBorrower::AddRegion(uint16_t number, UniqueFd fd, uint64_t bytes) {
  if (number >= regions_.size() || regions_[number] != nullptr) {
    return InvalidArgument("shared-memory connection: region ", number, " cannot be added");
  }
  QUIRE_ASSIGN_OR_RETURN(regions_[number], ReadOnlyMapping::Map(fd.get(), bytes));
  return OkStatus();
}

StatusOr<std::shared_ptr<const void>> ShmBorrower::Borrow(uint64_t lease) {
  if (!channel_.valid()) {
    return InvalidArgument("shared-memory connection: a lease without a channel");
  }
  return std::shared_ptr<const void>(std::make_shared<Loan>(shared_from_this(), lease));
}

std::span<const std::byte> ShmBorrower::Bytes(const ShmDescriptor& slice) const {
  if (slice.region >= regions_.size() || regions_[slice.region] == nullptr) return {};
  const std::span<const std::byte> region = regions_[slice.region]->bytes();
  if (slice.offset > region.size() || slice.bytes > region.size() - slice.offset) return {};
  return region.subspan(slice.offset, slice.bytes);
}

void ShmBorrower::GiveBack(uint64_t lease) {
  std::vector<uint64_t> leases;
  MutexLock lock(mutex_);
  pending_.push_back(lease);
  if (std::exchange(sending_, true)) return;
  while (!pending_.empty()) {
    leases.swap(pending_);
    mutex_.Unlock();
    Send(leases);
    leases.clear();
    mutex_.Lock();
  }
  sending_ = false;
}

/// What cannot be sent in time is not sent at all: the server ends it with the connection.
void ShmBorrower::Send(std::span<const uint64_t> leases) const {
  while (!leases.empty()) {
    const size_t count = std::min(leases.size(), kNumbersAtOnce);
    const ssize_t sent =
        send(channel_.get(), leases.data(), count * sizeof leases[0], MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      leases = leases.subspan(count);
    } else if (errno == EAGAIN) {
      pollfd writable = {.fd = channel_.get(), .events = POLLOUT, .revents = 0};
      if (poll(&writable, 1, kLongestWaitMillis) == 0) return;
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace quire
