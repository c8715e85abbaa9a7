// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/tail_scrub.h"

#include <string>

namespace quire::kvserver {

void TailScrub::Begin() {
  std::erase_if(damaged_, [](const WeakPage& page) { return page.expired(); });
  pages_.clear();
  for (const auto& context : contexts_.OpenOnes()) {
    // These first: a page that becomes whole meanwhile is met twice rather than not at all.
    for (const auto& page : context->ArrivingPages()) pages_.push_back({page, context});
    for (const auto& page : context->view()->tail) pages_.push_back({page, context});
  }
}

StatusOr<std::optional<ScrubStep>> TailScrub::Next() {
  if (pages_.empty()) return std::nullopt;
  const Pending next = pages_.back();
  pages_.pop_back();
  ScrubStep step;
  const auto context = next.context.lock();
  const auto page = next.page.lock();
  // The page is stored by now, or its context is gone.
  if (context == nullptr || page == nullptr || damaged_.contains(next.page)) return step;
  const std::optional<PageCheck> arriving = context->CheckArriving(*page);
  const PageCheck check = arriving ? *arriving : CheckUnits(*page);
  step.counts.bytes = check.bytes;
  step.counts.checked = check.units;
  step.counts.damaged = check.damaged;
  if (step.counts.damaged == 0) return step;
  damaged_.insert(next.page);
  step.found = std::to_string(step.counts.damaged) +
               " units of a page that an open context keeps " +
               "in memory: its client is told to send the pages again; check the memory of this "
               "machine when it happens again";
  return step;
}

}  // namespace quire::kvserver
