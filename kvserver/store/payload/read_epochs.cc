// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/read_epochs.h"

namespace quire::kvserver {

ReadEpochs::Epoch ReadEpochs::Enter() {
  MutexLock lock(mutex_);
  ++generations_.back().readers;
  return oldest_ + generations_.size() - 1;
}

std::vector<BlockRun> ReadEpochs::Leave(Epoch epoch) {
  MutexLock lock(mutex_);
  --generations_[epoch - oldest_].readers;
  return TakeUnread();
}

std::vector<BlockRun> ReadEpochs::Retire(std::span<const BlockRun> runs) {
  MutexLock lock(mutex_);
  // No reader entered since the previous release: these runs wait for the same readers.
  const bool same_readers = generations_.back().readers == 0 && generations_.size() > 1;
  Generation& generation = generations_[generations_.size() - (same_readers ? 2 : 1)];
  generation.retired.insert(generation.retired.end(), runs.begin(), runs.end());
  waiting_bytes_ += TotalBytes(runs);
  if (!same_readers) generations_.emplace_back();
  return TakeUnread();
}

std::vector<BlockRun> ReadEpochs::TakeUnread() {
  std::vector<BlockRun> unread;
  while (generations_.size() > 1 && generations_.front().readers == 0) {
    std::vector<BlockRun>& retired = generations_.front().retired;
    if (unread.empty()) {
      unread = std::move(retired);
    } else {
      unread.insert(unread.end(), retired.begin(), retired.end());
    }
    generations_.pop_front();
    ++oldest_;
  }
  waiting_bytes_ -= TotalBytes(unread);
  return unread;
}

uint64_t ReadEpochs::waiting_bytes() const {
  MutexLock lock(mutex_);
  return waiting_bytes_;
}

}  // namespace quire::kvserver
