// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/s3_fifo.h"

#include <algorithm>
#include <iterator>

namespace quire::kvserver {
namespace {

constexpr int kMostTouches = 3;
constexpr int kTouchesToMain = 2;
constexpr uint64_t kSmallShare = 10;  // One part in ten.

template <typename List>
void ToBack(List& list) {
  list.splice(list.end(), list, list.begin());
}

}  // namespace

void S3Fifo::Insert(const NewExtent& extent) {
  const bool in_main = ghosts_.Take(extent.id).has_value();
  Queue& queue = in_main ? main_ : small_;
  where_[extent.id] = queue.entries.insert(
      queue.entries.end(), Entry{.id = extent.id, .bytes = extent.bytes, .in_main = in_main});
  queue.bytes += extent.bytes;
}

void S3Fifo::Touch(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  int& touches = it->second->touches;
  touches = std::min(touches + 1, kMostTouches);
}

void S3Fifo::Evict(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  const uint64_t tracked = small_.bytes + main_.bytes;
  if (!it->second->in_main) {
    ghosts_.Remember(id, it->second->bytes, {});
    ghosts_.Trim(where_.size(), tracked - tracked / kSmallShare);
  }
  Remove(id);
}

void S3Fifo::Remove(const ExtentId& id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return;
  Queue& queue = QueueOf(*it->second);
  queue.bytes -= it->second->bytes;
  queue.entries.erase(it->second);
  where_.erase(it);
}

std::optional<ExtentId> S3Fifo::Victim(const Evictable& evictable) {
  const bool small_first = SmallIsOverItsShare();
  const ExtentId* victim = small_first ? VictimOfSmall(evictable) : VictimOfMain(evictable);
  if (!victim) victim = small_first ? VictimOfMain(evictable) : VictimOfSmall(evictable);
  return victim ? std::optional(*victim) : std::nullopt;
}

bool S3Fifo::SmallIsOverItsShare() const {
  return small_.bytes >= (small_.bytes + main_.bytes) / kSmallShare;
}

const ExtentId* S3Fifo::VictimOfSmall(const Evictable& evictable) {
  for (size_t left = small_.entries.size(); left > 0; --left) {
    const Entry& next = small_.entries.front();
    if (next.touches >= kTouchesToMain) {
      MoveToMain(small_.entries.begin());
    } else if (evictable(next.id)) {
      return &next.id;
    } else {
      ToBack(small_.entries);
    }
  }
  return nullptr;
}

const ExtentId* S3Fifo::VictimOfMain(const Evictable& evictable) {
  // An entry is passed once for each touch, then offered.
  size_t refused = 0;
  while (refused < main_.entries.size()) {
    Entry& next = main_.entries.front();
    if (next.touches > 0) {
      --next.touches;
      refused = 0;
    } else if (evictable(next.id)) {
      return &next.id;
    } else {
      ++refused;
    }
    ToBack(main_.entries);
  }
  return nullptr;
}

void S3Fifo::MoveToMain(Position position) {
  small_.bytes -= position->bytes;
  main_.bytes += position->bytes;
  position->in_main = true;
  position->touches = 0;
  main_.entries.splice(main_.entries.end(), small_.entries, position);
}

}  // namespace quire::kvserver
