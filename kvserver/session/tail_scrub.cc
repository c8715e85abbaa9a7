// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/tail_scrub.h"

#include <span>
#include <string>

#include "common/base/checksum.h"

namespace quire::kvserver {
namespace {

/// Number of the page's units that do not match their original checksums.
uint64_t CountDamaged(const TailPage& page) {
  const uint64_t unit_bytes = page.units.size() / page.crc32c.size();
  uint64_t damaged = 0;
  for (size_t i = 0; i < page.crc32c.size(); ++i) {
    const auto unit = std::span(page.units).subspan(i * unit_bytes, unit_bytes);
    if (Crc32c(unit) != page.crc32c[i]) ++damaged;
  }
  return damaged;
}

}  // namespace

void TailScrub::Begin() {
  std::erase_if(damaged_, [](const WeakPage& page) { return page.expired(); });
  pages_.clear();
  for (const auto& context : contexts_.OpenOnes()) {
    const ContextViewPtr view = context->view();
    pages_.insert(pages_.end(), view->tail.begin(), view->tail.end());
  }
}

StatusOr<std::optional<ScrubStep>> TailScrub::Next() {
  if (pages_.empty()) return std::nullopt;
  const WeakPage next = pages_.back();
  pages_.pop_back();
  ScrubStep step;
  const std::shared_ptr<const TailPage> page = next.lock();
  // The page is stored by now, or its context is gone.
  if (page == nullptr || damaged_.contains(next)) return step;
  step.counts.bytes = page->units.size();
  step.counts.checked = page->crc32c.size();
  step.counts.damaged = CountDamaged(*page);
  if (step.counts.damaged == 0) return step;
  damaged_.insert(next);
  step.found = std::to_string(step.counts.damaged) +
               " units of a page that an open context keeps " +
               "in memory: its client is told to send the pages again; check the memory of this "
               "machine when it happens again";
  return step;
}

}  // namespace quire::kvserver
