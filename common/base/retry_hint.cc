// SPDX-License-Identifier: Apache-2.0
#include "common/base/retry_hint.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace quire {
namespace {

constexpr char kRetryMark[] = "quire/retry-after-ms";

}  // namespace

Status WithRetryAfter(Status status, Duration wait) {
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  status.SetMark(kRetryMark, std::to_string(std::max<int64_t>(millis, 1)));
  return status;
}

std::optional<Duration> RetryAfter(const Status& status) {
  const auto text = status.Mark(kRetryMark);
  if (!text) return std::nullopt;
  uint32_t millis = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), millis);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return std::chrono::milliseconds(millis);
}

}  // namespace quire
