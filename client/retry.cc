// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <algorithm>

#include "common/base/retry_hint.h"

namespace quire::internal {

namespace {

constexpr Duration kShortestLastWait = std::chrono::milliseconds(1);

Duration Backoff(const RetryOptions& options, uint32_t attempt, Random& random) {
  const double cap = static_cast<double>(options.max_backoff.count());
  double wait = static_cast<double>(options.first_backoff.count());
  for (uint32_t i = 1; i < attempt && wait < cap; ++i) wait *= options.multiplier;
  const double scale = 1 + options.jitter * (2 * random.Uniform() - 1);
  return Duration(static_cast<int64_t>(std::min(wait, cap) * scale));
}

}  // namespace

bool IsRetriable(const Status& status, Repeat repeat) {
  if (RetryAfter(status)) return true;
  return repeat == Repeat::kSafe && IsUnavailable(status);
}

Duration WaitAfter(const Status& status, const RetryOptions& options, uint32_t attempt,
                   Random& random) {
  return std::max(Backoff(options, attempt, random), RetryAfter(status).value_or(Duration::zero()));
}

StatusOr<TimePoint> Attempts::Next(const Status& status, TimePoint now) {
  last_ = status;
  peer_.Note(status, now);
  if (++failed_ >= options_.max_attempts) return status;
  Duration left = deadline_ - now;
  if (IsBounded())
    left = std::min(left, options_.unreachable_for - (now - peer_.UnreachedSince(now)));
  if (const auto wait = WaitWithin(status, left)) return now + *wait;
  return DeadlineError();
}

Status Attempts::End(const Status& status) const {
  if (!IsDeadlineExceeded(status) || last_.ok()) return status;
  return DeadlineExceeded(Message(status), "; the attempt before said: ", Message(last_));
}

bool Attempts::IsBounded() const {
  return IsUnavailable(last_) && options_.unreachable_for != Duration::max();
}

Status Attempts::DeadlineError() const {
  if (last_.ok()) return DeadlineExceeded("the deadline passed before the call began");
  if (IsBounded() || IsDeadlineExceeded(last_)) return last_;
  return DeadlineExceeded("the deadline leaves no time for another attempt; the last said: ",
                          Message(last_));
}

std::optional<Duration> Attempts::WaitWithin(const Status& status, Duration left) {
  const Duration wait = WaitAfter(status, options_, failed_, random_);
  if (wait < left) return wait;
  // The last attempts come closer together, so that the time that was given is used.
  const Duration shorter = left / 2;
  const Duration least =
      std::max(RetryAfter(status).value_or(kShortestLastWait), options_.first_backoff);
  return shorter >= least ? std::optional(shorter) : std::nullopt;
}

}  // namespace quire::internal
