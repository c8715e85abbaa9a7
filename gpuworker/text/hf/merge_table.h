// SPDX-License-Identifier: Apache-2.0
//
// MergeTable: which neighbours byte-pair encoding joins, in which order, and to what.
// Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_MERGE_TABLE_H_
#define QUIRE_GPUWORKER_TEXT_HF_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "quire/key.h"

namespace quire::worker {

struct Merge {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  uint32_t rank = kNone;  ///< Lower ones come first; kNone: the neighbours stay apart.
  TokenId joined = 0;
};

class MergeTable {
 public:
  /// A table with room for `merges`.
  explicit MergeTable(size_t merges = 0);

  /// Neighbours `left` and `right`. A pair that is given again takes the later merge.
  void Add(TokenId left, TokenId right, const Merge& merge);
  Merge Find(TokenId left, TokenId right) const {
    const uint64_t key = Key(left, right);
    for (size_t at = Slot(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kFree) return {};
    }
  }

  /// Joins neighbours of `*ids` until no merge is left.
  void Apply(std::vector<TokenId>* ids) const;

 private:
  static constexpr uint64_t kFree = std::numeric_limits<uint64_t>::max();

  struct Entry {
    uint64_t key = kFree;
    Merge merge;
  };

  static uint64_t Key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t Slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15 >> 20) & mask_; }

  void ApplyToFew(std::vector<TokenId>* ids) const;
  void ApplyToMany(std::vector<TokenId>* ids) const;

  size_t mask_ = 0;
  std::vector<Entry> slots_;  ///< A power of two, at most half in use.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_MERGE_TABLE_H_
