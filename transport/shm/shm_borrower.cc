// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_borrower.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace quire {
namespace {

constexpr size_t kNumbersAtOnce = 512;
constexpr int kLongestWaitMillis = 1000;
constexpr Duration kLongestLook = std::chrono::milliseconds(5);
/// Most ended leases that have not arrived. A server that exceeds it is no longer trusted.
constexpr size_t kMostEndedElsewhere = 65536;

}  // namespace

class ShmBorrower::Loan final : public PayloadLease {
 public:
  Loan(std::shared_ptr<ShmBorrower> borrower, uint64_t lease)
      : borrower_(std::move(borrower)), lease_(lease) {}
  ~Loan() override { borrower_->GiveBack(lease_); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Duration duration() const override { return borrower_->duration_; }
  bool IsValid() override { return borrower_->IsValid(lease_); }
  Status Renew(Duration timeout) override { return borrower_->Renew(lease_, timeout); }

 private:
  const std::shared_ptr<ShmBorrower> borrower_;
  const uint64_t lease_;
};

Status ShmBorrower::SetChannel(UniqueFd channel, Duration duration) {
  int type = 0;
  socklen_t size = sizeof type;
  if (channel_.valid() || getsockopt(channel.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET) {
    return InvalidArgument("shared-memory connection: the server sent no lease channel");
  }
  channel_ = std::move(channel);
  duration_ = duration;
  return OkStatus();
}

Status ShmBorrower::AddRegion(uint16_t number, UniqueFd fd, uint64_t bytes) {
  if (number >= regions_.size() || regions_[number] != nullptr) {
    return InvalidArgument("shared-memory connection: region ", number, " cannot be added");
  }
  QUIRE_ASSIGN_OR_RETURN(regions_[number], ReadOnlyMapping::Map(fd.get(), bytes));
  return OkStatus();
}

StatusOr<std::shared_ptr<PayloadLease>> ShmBorrower::Borrow(uint64_t lease) {
  if (!channel_.valid()) {
    return InvalidArgument("shared-memory connection: a lease without a channel");
  }
  MutexLock lock(reports_mutex_);
  const auto [reported, is_new] = reported_.try_emplace(lease);
  if (!is_new || (lease & ~kShmLeaseNumberMask) != 0) {
    return InvalidArgument("shared-memory connection: lease ", lease, " cannot be given");
  }
  reported->second.ended = ended_elsewhere_.erase(lease) > 0;
  return std::shared_ptr<PayloadLease>(std::make_shared<Loan>(shared_from_this(), lease));
}

std::span<const std::byte> ShmBorrower::Bytes(const ShmDescriptor& slice) const {
  if (slice.region >= regions_.size() || regions_[slice.region] == nullptr) return {};
  const std::span<const std::byte> region = regions_[slice.region]->bytes();
  if (slice.offset > region.size() || slice.bytes > region.size() - slice.offset) return {};
  return region.subspan(slice.offset, slice.bytes);
}

bool ShmBorrower::IsValid(uint64_t lease) { return !ReadReports(lease).ended; }

Status ShmBorrower::Renew(uint64_t lease, Duration timeout) {
  const Reported before = ReadReports(lease);
  const uint64_t word = ShmWordOf(lease, ShmLeaseWord::kRenew);
  const TimePoint deadline = SystemClock().Now() + timeout;
  if (!before.ended) Send({&word, 1});
  for (;;) {
    const Reported reported = ReadReports(lease);
    if (reported.ended) {
      return FailedPrecondition("the lease of shared memory has ended; ask for the bytes again");
    }
    if (reported.refusals != before.refusals) {
      return FailedPrecondition(
          "the server does not renew the lease of shared memory, whose connection is over; copy "
          "the "
          "bytes, or ask for them again");
    }
    if (reported.renewals != before.renewals) return OkStatus();
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) {
      return DeadlineExceeded("the server does not answer the renewal of a shared-memory lease");
    }
    // Short, because another thread may receive the answer.
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kLongestLook));
    pollfd readable = {.fd = channel_.get(), .events = POLLIN, .revents = 0};
    (void)poll(&readable, 1, static_cast<int>(wait.count()));
  }
}

ShmBorrower::Reported ShmBorrower::ReadReports(uint64_t lease) {
  std::array<uint64_t, kNumbersAtOnce> words;
  MutexLock lock(reports_mutex_);
  while (!reports_lost_) {
    const ssize_t got = recv(channel_.get(), words.data(), sizeof words, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    const auto bytes = static_cast<size_t>(std::max<ssize_t>(got, 0));
    reports_lost_ = bytes == 0 || bytes > sizeof words || bytes % sizeof words[0] != 0;
    if (!reports_lost_) ApplyReports(std::span(words).first(bytes / sizeof words[0]));
  }
  Reported reported = reported_[lease];
  reported.ended |= reports_lost_;
  return reported;
}

void ShmBorrower::ApplyReports(std::span<const uint64_t> words) {
  for (const uint64_t word : words) {
    const auto it = reported_.find(word & kShmLeaseNumberMask);
    if (it == reported_.end()) {
      if (Says(word, ShmLeaseWord::kEnded)) ended_elsewhere_.insert(word & kShmLeaseNumberMask);
      continue;
    }
    it->second.ended |= Says(word, ShmLeaseWord::kEnded);
    it->second.renewals += Says(word, ShmLeaseWord::kRenewed) ? 1 : 0;
    it->second.refusals += Says(word, ShmLeaseWord::kRefused) ? 1 : 0;
  }
  if (ended_elsewhere_.size() > kMostEndedElsewhere) reports_lost_ = true;
}

void ShmBorrower::GiveBack(uint64_t lease) {
  {
    MutexLock lock(reports_mutex_);
    reported_.erase(lease);
  }
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

/// Drops words that cannot be sent in time: the server ends their leases with the connection.
void ShmBorrower::Send(std::span<const uint64_t> words) const {
  while (!words.empty()) {
    const size_t count = std::min(words.size(), kNumbersAtOnce);
    const ssize_t sent =
        send(channel_.get(), words.data(), count * sizeof words[0], MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      words = words.subspan(count);
    } else if (errno == EAGAIN) {
      pollfd writable = {.fd = channel_.get(), .events = POLLOUT, .revents = 0};
      if (poll(&writable, 1, kLongestWaitMillis) == 0) return;
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace quire
