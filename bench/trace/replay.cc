// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/replay.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

namespace quire::bench {
namespace {

using kvserver::EvictionPolicy;
using kvserver::ExtentId;
using kvserver::ExtentIdHash;

/// Differs from the root key: the tenant is stored as one more than its number.
ExtentId IdOf(uint32_t tenant, const TraceBlock& block) {
  const uint64_t owner = uint64_t{tenant} + 1;
  ExtentId id;
  std::memcpy(id.segment.bytes.data(), &block.id, sizeof block.id);
  std::memcpy(id.segment.bytes.data() + sizeof block.id, &owner, sizeof owner);
  return id;
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

class Cache {
 public:
  Cache(const ReplayOptions& options, EvictionPolicy& policy)
      : options_(options), policy_(policy) {}

  void Run(const TraceRequest& request) {
    ++request_;
    ids_.clear();
    for (const TraceBlock& block : request.blocks) ids_.push_back(IdOf(request.tenant, block));
    const size_t hits = Count(request);
    for (const ExtentId& id : ids_) {
      if (const auto it = cached_.find(id); it != cached_.end()) it->second.used_by = request_;
    }
    const size_t kept = Admit(request.blocks, hits);
    Tell(request.blocks, kept);
  }

  const ReplayResult& result() const { return result_; }

 private:
  struct Block {
    uint64_t bytes = 0;
    uint64_t used_by = 0;   ///< Number of the last request with it.
    bool is_known = false;  ///< True if the policy tracks it.
  };

  /// Counts the hits of the request. Returns the number of blocks, from the first on.
  size_t Count(const TraceRequest& request) {
    size_t hits = 0;
    while (hits < ids_.size() && cached_.contains(ids_[hits])) ++hits;
    uint64_t hit_tokens = 0, tokens = request.new_tokens;
    for (size_t i = 0; i < ids_.size(); ++i) {
      const TraceBlock& block = request.blocks[i];
      tokens += block.tokens;
      result_.tokens += block.tokens;
      result_.bytes += block.bytes;
      if (i >= hits) continue;
      hit_tokens += block.tokens;
      result_.hit_bytes += block.bytes;
    }
    result_.hit_tokens += hit_tokens;
    const double all = options_.cost.Seconds(0, tokens);
    const double rest = options_.cost.Seconds(hit_tokens, tokens - hit_tokens);
    result_.seconds_without_cache += all;
    result_.seconds_saved += all - rest;
    seconds_per_token_ = tokens == hit_tokens ? 0 : rest / static_cast<double>(tokens - hit_tokens);
    return hits;
  }

  /// Caches blocks from the first missing one on, as far as there is room. Returns the number of
  /// leading blocks that are then cached.
  size_t Admit(std::span<const TraceBlock> blocks, size_t hits) {
    for (size_t i = hits; i < blocks.size(); ++i) {
      if (cached_.contains(ids_[i])) continue;
      if (!MakeRoom(blocks[i].bytes)) return i;
      cached_[ids_[i]] = {.bytes = blocks[i].bytes, .used_by = request_};
      cached_bytes_ += blocks[i].bytes;
    }
    result_.most_cached_bytes = std::max(result_.most_cached_bytes, cached_bytes_);
    return blocks.size();
  }

  bool MakeRoom(uint64_t bytes) {
    const auto evictable = [&](const ExtentId& id) { return cached_.at(id).used_by != request_; };
    while (bytes > options_.cache_bytes - cached_bytes_) {
      const std::optional<ExtentId> victim = policy_.Victim(evictable);
      if (!victim) return false;
      const auto it = cached_.find(*victim);
      cached_bytes_ -= it->second.bytes;
      cached_.erase(it);
      policy_.Evict(*victim);
      ++result_.evictions;
    }
    return true;
  }

  void Tell(std::span<const TraceBlock> blocks, size_t kept) {
    for (size_t i = kept; i-- > 0;) {
      Block& block = cached_.at(ids_[i]);
      if (block.is_known) {
        policy_.Touch(ids_[i]);
        continue;
      }
      block.is_known = true;
      policy_.Insert({.id = ids_[i],
                      .bytes = blocks[i].bytes,
                      .parent = i == 0 ? kRootKey : ids_[i - 1].segment,
                      .seconds_per_token = seconds_per_token_});
    }
  }

  const ReplayOptions options_;
  EvictionPolicy& policy_;
  std::unordered_map<ExtentId, Block, ExtentIdHash> cached_;
  uint64_t cached_bytes_ = 0;
  ReplayResult result_;

  // Number of the present request.
  uint64_t request_ = 0;
  std::vector<ExtentId> ids_;
  double seconds_per_token_ = 0;
};

}  // namespace

double ReplayResult::token_hit_ratio() const { return Ratio(hit_tokens, tokens); }
double ReplayResult::byte_hit_ratio() const { return Ratio(hit_bytes, bytes); }

ReplayResult Replay(const Trace& trace, const ReplayOptions& options, EvictionPolicy& policy) {
  Cache cache(options, policy);
  for (const TraceRequest& request : trace.requests) cache.Run(request);
  return cache.result();
}

}  // namespace quire::bench
