// SPDX-License-Identifier: Apache-2.0
#include "common/base/answered.h"

#include <utility>

namespace quire {
namespace {

constexpr char kAnsweredMark[] = "quire/answered";

}  // namespace

Status Answered(Status status) {
  if (IsUnavailable(status)) status.SetMark(kAnsweredMark, "");
  return status;
}

bool IsAnswered(const Status& status) { return status.Mark(kAnsweredMark).has_value(); }

}  // namespace quire
