// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/copy_loops.h"

#include <cstring>
#include <thread>

#include "common/base/memory/unit_copy.h"

namespace quire::bench {
namespace {

using Bytes = std::span<const std::byte>;

void Memcpy(Bytes from, std::byte* to, const std::byte*) {
  std::memcpy(to, from.data(), from.size());
}
void Checked(Bytes from, std::byte* to, const std::byte* next) {
  (void)CopyWithCrc32c(from, to, next);
}

constexpr CopyLoop kLoops[] = {
    {"memcpy", Memcpy, 1},
    {"memcpy_by_two", Memcpy, 2},
    {"copy_around_cache", CopyAroundCache, 1},
    {"copy_around_cache_by_two", CopyAroundCache, 2},
    {"copy_checked", Checked, 1},
    {"copy_checked_by_two", Checked, 2},
    {"copy_fetching_ahead", CopyFetchingAhead, 1},
    {"copy_fetching_ahead_by_two", CopyFetchingAhead, 2},
};

void CopyAll(const CopyLoop& loop, std::span<const RawUcxMove> moves, Bytes from,
             std::span<std::byte> to, uint64_t unit_bytes) {
  for (size_t i = 0; i < moves.size(); ++i) {
    const std::byte* const next = i + 1 < moves.size() ? from.data() + moves[i + 1].from : nullptr;
    loop.copy(from.subspan(moves[i].from, unit_bytes), to.data() + moves[i].to, next);
  }
}

std::vector<std::string> NamesUpTo(uint32_t threads) {
  std::vector<std::string> names;
  for (const CopyLoop& loop : kLoops) {
    if (loop.threads <= threads) names.push_back(loop.name);
  }
  return names;
}

}  // namespace

std::span<const CopyLoop> CopyLoops() { return kLoops; }
std::vector<std::string> CopyLoopNames() { return NamesUpTo(2); }
std::vector<std::string> CopyLoopNamesByOne() { return NamesUpTo(1); }

void RunCopyLoop(const CopyLoop& loop, std::span<const RawUcxMove> moves, Bytes from,
                 std::span<std::byte> to, uint64_t unit_bytes) {
  std::vector<std::jthread> helpers;
  const size_t share = moves.size() / loop.threads;
  for (uint32_t thread = 1; thread < loop.threads; ++thread) {
    helpers.emplace_back([&loop, part = moves.first(share), from, to, unit_bytes] {
      CopyAll(loop, part, from, to, unit_bytes);
    });
    moves = moves.subspan(share);
  }
  CopyAll(loop, moves, from, to, unit_bytes);
}

}  // namespace quire::bench
