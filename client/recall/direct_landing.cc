// SPDX-License-Identifier: Apache-2.0
#include "client/recall/direct_landing.h"

#include <algorithm>

namespace quire::internal {

void DirectLanding::End() {
  left_.clear();
  landing_.reset();
}

void DirectLanding::Leave(std::unique_ptr<PendingCall> call, Lanes lanes) {
  left_.push_back({std::move(call), std::move(lanes)});
}

bool DirectLanding::MayStillLand(const Lanes& lanes) {
  std::erase_if(left_, [](const Left& left) { return left.call->IsQuiet(); });
  return std::ranges::any_of(left_, [&](const Left& left) {
    return std::ranges::find_first_of(left.lanes, lanes) != left.lanes.end();
  });
}

}  // namespace quire::internal
