// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <algorithm>

#include "common/base/retry_hint.h"

namespace quire {

namespace {

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
  return repeat == Repeat::kSafe && absl::IsUnavailable(status);
}

Duration WaitAfter(const Status& status, const RetryOptions& options, uint32_t attempt,
                   Random& random) {
  return std::max(Backoff(options, attempt, random), RetryAfter(status).value_or(Duration::zero()));
}

}  // namespace quire
