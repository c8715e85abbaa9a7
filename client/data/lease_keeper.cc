// SPDX-License-Identifier: Apache-2.0
#include "client/data/lease_keeper.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "client/reply.h"
#include "common/wire/limits.h"
#include "common/wire/message.h"
#include "quire/v1/lease.pb.h"

namespace quire::internal {
namespace {

constexpr std::string_view kRenew = "quire.v1.Leases/Renew";
constexpr int kRenewalsPerLease = 6;

/// Removes and returns as many ids as one call may have.
std::vector<uint64_t> TakeSome(std::vector<uint64_t>* ids) {
  const size_t count = std::min<size_t>(ids->size(), wire::kMaxRenewedIds);
  std::vector<uint64_t> some(ids->end() - static_cast<std::ptrdiff_t>(count), ids->end());
  ids->resize(ids->size() - count);
  return some;
}

}  // namespace

std::vector<uint64_t> LeaseKeeper::Held::Copy(Kind kind) {
  MutexLock lock(mutex);
  return {Of(kind).begin(), Of(kind).end()};
}

void LeaseKeeper::Held::Remove(Kind kind, uint64_t id) {
  MutexLock lock(mutex);
  Of(kind).erase(id);
}

/// Lets the keeper's destructor cancel the call while it is waited for.
class LeaseKeeper::Call {
 public:
  Call(LeaseKeeper* keeper, PendingCall* call) : keeper_(keeper) {
    MutexLock lock(keeper_->mutex_);
    keeper_->under_way_ = call;
    if (keeper_->stopping_) call->Cancel();
  }
  ~Call() {
    MutexLock lock(keeper_->mutex_);
    keeper_->under_way_ = nullptr;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  LeaseKeeper* const keeper_;
};

LeaseKeeper::~LeaseKeeper() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (under_way_ != nullptr) under_way_->Cancel();
    thread = std::move(thread_);
  }
  changed_.NotifyAll();
  if (thread.joinable()) thread.join();
}

LeaseKeeper::Kept LeaseKeeper::Keep(Kind kind, uint64_t id, Duration lease) {
  if (lease <= Duration::zero()) return nullptr;
  {
    MutexLock lock(held_->mutex);
    held_->Of(kind).insert(id);
  }
  {
    MutexLock lock(mutex_);
    period_ = std::min(period_, lease / kRenewalsPerLease);
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.NotifyAll();
  return Kept(held_.get(), [held = held_, kind, id](const void*) { held->Remove(kind, id); });
}

void LeaseKeeper::Run() {
  while (WaitForNext()) {
    Duration timeout;
    {
      MutexLock lock(mutex_);
      timeout = 2 * period_;
    }
    (void)Renew(timeout);  // The next one is soon.
  }
}

bool LeaseKeeper::WaitForNext() {
  const TimePoint start = SystemClock().Now();
  MutexLock lock(mutex_);
  while (!stopping_) {
    const Duration left = start + period_ - SystemClock().Now();
    if (left <= Duration::zero()) return true;
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

Status LeaseKeeper::Renew(Duration timeout) {
  constexpr std::array<Kind, kKinds> kAll = {Kind::kContext, Kind::kSession, Kind::kIngest};
  Batch left;
  for (const Kind kind : kAll) left[static_cast<size_t>(kind)] = held_->Copy(kind);
  while (std::ranges::any_of(left, [](const auto& ids) { return !ids.empty(); })) {
    Batch some;
    for (size_t kind = 0; kind < kKinds; ++kind) some[kind] = TakeSome(&left[kind]);
    QUIRE_RETURN_IF_ERROR(RenewSome(some, timeout));
  }
  return OkStatus();
}

Status LeaseKeeper::RenewSome(const Batch& batch, Duration timeout) {
  const auto& [contexts, sessions, ingests] = batch;
  v1::RenewRequest request;
  request.mutable_context_ids()->Add(contexts.begin(), contexts.end());
  request.mutable_session_ids()->Add(sessions.begin(), sessions.end());
  request.mutable_ingest_ids()->Add(ingests.begin(), ingests.end());
  CallMessage message;
  QUIRE_RETURN_IF_ERROR(wire::Encode(request, &message.control));
  const TimePoint deadline = SystemClock().Now() + timeout;
  QUIRE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PendingCall> pending,
      transport_->Start(kRenew, std::move(message), {.tenant = tenant_, .timeout = timeout}));
  const Call call(this, pending.get());
  QUIRE_ASSIGN_OR_RETURN(const std::optional<CallMessage> answer, pending->Next(deadline));
  v1::RenewReply reply;
  if (!answer) return BadReply(kRenew, "it is empty");
  QUIRE_RETURN_IF_ERROR(DecodeReply(kRenew, answer->control, &reply));
  for (const uint64_t id : reply.gone_context_ids()) held_->Remove(Kind::kContext, id);
  for (const uint64_t id : reply.gone_session_ids()) held_->Remove(Kind::kSession, id);
  for (const uint64_t id : reply.gone_ingest_ids()) held_->Remove(Kind::kIngest, id);
  return OkStatus();
}

}  // namespace quire::internal
