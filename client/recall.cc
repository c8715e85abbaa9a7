// SPDX-License-Identifier: Apache-2.0
#include "quire/recall.h"

#include <utility>

namespace quire {

Status RecallPart::OwnUnits() {
  if (payload.leases().empty()) return OkStatus();
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.CopyTo(bytes.data());
  if (!IsValid()) {
    return FailedPrecondition(
        "the units were held for longer than the server lends them; recall them again");
  }
  payload = {};
  payload.Append(std::move(bytes));
  valid_until = TimePoint::max();
  return OkStatus();
}

}  // namespace quire
