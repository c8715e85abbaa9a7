// SPDX-License-Identifier: Apache-2.0
#include "common/base/answered.h"

#include <utility>

#include "absl/strings/cord.h"

namespace quire {
namespace {

constexpr char kPayloadUrl[] = "quire/answered";

}  // namespace

Status Answered(Status status) {
  if (absl::IsUnavailable(status)) status.SetPayload(kPayloadUrl, absl::Cord());
  return status;
}

bool IsAnswered(const Status& status) { return status.GetPayload(kPayloadUrl).has_value(); }

}  // namespace quire
