// SPDX-License-Identifier: Apache-2.0
#include "common/base/retry_hint.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "absl/strings/cord.h"

namespace quire {
namespace {

constexpr char kPayloadUrl[] = "quire/retry-after-ms";

}  // namespace

Status WithRetryAfter(Status status, Duration wait) {
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  status.SetPayload(kPayloadUrl, absl::Cord(std::to_string(std::max<int64_t>(millis, 1))));
  return status;
}

std::optional<Duration> RetryAfter(const Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  uint32_t millis = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), millis);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::chrono::milliseconds(millis);
}

}  // namespace quire
