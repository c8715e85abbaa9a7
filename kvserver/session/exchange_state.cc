// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/exchange_state.h"

#include <string>

namespace quire::kvserver {
namespace {

constexpr char kRemedy[] = "; resynchronise with a higher epoch";

std::string Describe(uint64_t committed, const std::optional<uint64_t>& pending) {
  std::string text = ": exchange " + std::to_string(committed) + " is committed";
  if (pending) text += " and " + std::to_string(*pending) + " is pending";
  return text;
}

}  // namespace

Status ExchangeState::CheckRecall(uint64_t exchange, uint64_t applied) const {
  if (exchange <= last_) {
    return FailedPrecondition("exchange ", exchange, " is not higher than the last one, ", last_,
                              ": take a higher number");
  }
  if (applied == committed_ || pending_ == applied) return OkStatus();
  return FailedPrecondition("exchange ", applied, " cannot have been applied last",
                            Describe(committed_, pending_), kRemedy);
}

ExchangeState::Previous ExchangeState::Recall(uint64_t exchange, uint64_t applied) {
  const Previous previous = pending_ == applied ? Previous::kCommit
                            : pending_          ? Previous::kRollBack
                                                : Previous::kNone;
  before_last_ = last_;
  last_ = exchange;
  committed_ = applied;
  pending_.reset();
  return previous;
}

void ExchangeState::Resync(uint64_t applied) {
  last_ = applied;
  committed_ = applied;
  pending_.reset();
}

}  // namespace quire::kvserver
