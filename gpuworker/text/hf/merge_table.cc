// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <span>
#include <tuple>

namespace quire::worker {
namespace {

/// Up to so many tokens, looking at all neighbours anew for each merge is the fastest.
constexpr size_t kFew = 32;

/// A chain of tokens of which neighbours are joined.
class Chain {
 public:
  Chain(const MergeTable& table, std::span<const TokenId> ids) : table_(table), links_(ids.size()) {
    for (size_t i = 0; i < ids.size(); ++i) links_[i] = {ids[i], Index(i) - 1, Index(i) + 1};
    links_.back().next = kEnd;
    for (size_t i = 0; i + 1 < ids.size(); ++i) Consider(Index(i));
  }

  void JoinAll() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (IsStill(best)) Join(best);
    }
  }

  void Write(std::vector<TokenId>* ids) const {
    ids->clear();
    for (int32_t at = 0; at != kEnd; at = links_[at].next) ids->push_back(links_[at].id);
  }

 private:
  static constexpr int32_t kEnd = -1;
  static constexpr TokenId kGone = -1;

  struct Link {
    TokenId id = kGone;
    int32_t previous = kEnd;
    int32_t next = kEnd;
  };
  struct Candidate {
    uint32_t rank = 0;
    int32_t at = 0;  ///< The left one of the two.
    TokenId joined = 0;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, at) >
             std::tie(other.rank, other.at);  // The top of a queue is the greatest.
    }
  };

  static int32_t Index(size_t i) { return static_cast<int32_t>(i); }

  void Consider(int32_t at) {
    if (at == kEnd || links_[at].next == kEnd) return;
    const Merge merge = table_.Find(links_[at].id, links_[links_[at].next].id);
    if (merge.rank != Merge::kNone) candidates_.push({merge.rank, at, merge.joined});
  }

  /// The two are there, and have not been joined with others meanwhile.
  bool IsStill(const Candidate& candidate) const {
    const Link& left = links_[candidate.at];
    if (left.id == kGone || left.next == kEnd) return false;
    const Merge merge = table_.Find(left.id, links_[left.next].id);
    return merge.rank == candidate.rank && merge.joined == candidate.joined;
  }

  void Join(const Candidate& candidate) {
    Link& left = links_[candidate.at];
    Link& right = links_[left.next];
    left.id = candidate.joined;
    left.next = right.next;
    if (right.next != kEnd) links_[right.next].previous = candidate.at;
    right.id = kGone;
    Consider(left.previous);
    Consider(candidate.at);
  }

  const MergeTable& table_;
  std::vector<Link> links_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

MergeTable::MergeTable(size_t merges) {
  slots_.resize(std::bit_ceil(2 * merges + 2));
  mask_ = slots_.size() - 1;
}

void MergeTable::Add(TokenId left, TokenId right, const Merge& merge) {
  const uint64_t key = Key(left, right);
  size_t at = Slot(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

void MergeTable::Apply(std::vector<TokenId>* ids) const {
  if (ids->size() < 2) return;
  if (ids->size() <= kFew) {
    ApplyToFew(ids);
  } else {
    ApplyToMany(ids);
  }
}

void MergeTable::ApplyToFew(std::vector<TokenId>* ids) const {
  std::array<Merge, kFew> merges;  // Merge of each token with the next.
  size_t count = ids->size();
  TokenId* const id = ids->data();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = Find(id[i], id[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == Merge::kNone) break;
    id[best] = merges[best].joined;
    std::copy(id + best + 2, id + count, id + best + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + count - 1, merges.begin() + best);
    --count;
    if (best > 0) merges[best - 1] = Find(id[best - 1], id[best]);
    if (best + 1 < count) merges[best] = Find(id[best], id[best + 1]);
  }
  ids->resize(count);
}

void MergeTable::ApplyToMany(std::vector<TokenId>* ids) const {
  Chain chain(*this, *ids);
  chain.JoinAll();
  chain.Write(ids);
}

}  // namespace quire::worker
