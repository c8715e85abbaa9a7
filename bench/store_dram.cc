// SPDX-License-Identifier: Apache-2.0
#include "bench/store_dram.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "bench/side_by_side.h"
#include "common/base/random.h"
#include "kvserver/store/arena_memory.h"

namespace quire::bench {
namespace {

using kvserver::ArenaMemory;
using kvserver::UnitAddress;
using kvserver::UnitBytes;

constexpr uint64_t kDestinationBytes = 4 << 20;
constexpr uint32_t kHandoutUnits = 256;  ///< Of one call.
constexpr uint32_t kHandoutPasses = 16;  ///< Over the working set, in a round.

/// Every unit of the working set once, in random order.
std::vector<uint64_t> Shuffled(uint64_t units) {
  std::vector<uint64_t> order(units);
  std::iota(order.begin(), order.end(), uint64_t{0});
  SeededRandom random(2);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

/// Calls work(part) for consecutive parts of `all` of at most `size`.
template <typename T, typename Function>
Status ForEachPart(std::span<const T> all, size_t size, const Function& work) {
  for (size_t at = 0; at < all.size(); at += size) {
    QUIRE_RETURN_IF_ERROR(work(all.subspan(at, std::min(size, all.size() - at))));
  }
  return OkStatus();
}

/// Reads everything through the store, and through its DRAM tier alone.
class Reader {
 public:
  Reader(Dataset& dataset, std::span<const uint64_t> order)
      : dataset_(dataset), destination_(kDestinationBytes) {
    for (const uint64_t number : order) addresses_.push_back(dataset.Unit(number));
  }

  Status CopyOut() {
    return ForEachPart(std::span<const UnitAddress>(addresses_),
                       kDestinationBytes / dataset_.unit_bytes(), [&](auto part) {
                         QUIRE_RETURN_IF_ERROR(dataset_.store().ReadUnits("default", part, &out_));
                         std::byte* to = destination_.data();
                         for (const UnitBytes& unit : out_) {
                           std::memcpy(to, unit.slice.bytes.data(), unit.slice.bytes.size());
                           to += unit.slice.bytes.size();
                         }
                         return OkStatus();
                       });
  }
  Status HandOutByStore() {
    return HandOut([&](auto part) { return dataset_.store().ReadUnits("default", part, &out_); });
  }
  Status HandOutByTier() {
    out_.assign(kHandoutUnits, {});
    return HandOut([&](auto part) {
      const size_t found = dataset_.store().dram().ReadUnits("default", part, out_);
      return found == part.size() ? OkStatus() : Internal("a pinned unit is not in DRAM");
    });
  }

 private:
  template <typename Read>
  Status HandOut(const Read& read) {
    for (uint32_t pass = 0; pass < kHandoutPasses; ++pass) {
      QUIRE_RETURN_IF_ERROR(
          ForEachPart(std::span<const UnitAddress>(addresses_), kHandoutUnits, read));
    }
    return OkStatus();
  }

  Dataset& dataset_;
  std::vector<UnitAddress> addresses_;
  std::vector<UnitBytes> out_;
  std::vector<std::byte> destination_;
};

/// A buffer as large as the working set, on pages of the arena's kind.
StatusOr<std::unique_ptr<ArenaMemory>> PlainBuffer(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(auto buffer, ArenaMemory::Map({.bytes = bytes}));
  buffer->Prepare(buffer->bytes());
  std::ranges::fill(buffer->bytes(), std::byte{1});
  return buffer;
}

Status CopyPlain(std::span<const std::byte> buffer, std::span<const uint64_t> order,
                 uint64_t unit_bytes, std::span<std::byte> destination) {
  return ForEachPart(order, destination.size() / unit_bytes, [&](auto part) {
    std::byte* to = destination.data();
    for (const uint64_t number : part) {
      std::memcpy(to, buffer.data() + number * unit_bytes, unit_bytes);
      to += unit_bytes;
    }
    return OkStatus();
  });
}

}  // namespace

StatusOr<DramRates> MeasureDram(const StoreBenchOptions& options, Dataset& dataset) {
  QUIRE_RETURN_IF_ERROR(dataset.Pin(options.working_set_bytes));
  QUIRE_ASSIGN_OR_RETURN(const auto buffer, PlainBuffer(options.working_set_bytes));
  const std::vector<uint64_t> order = Shuffled(options.working_set_bytes / dataset.unit_bytes());
  Reader reader(dataset, order);
  std::vector<std::byte> destination(kDestinationBytes);
  const auto copy_plain = [&] {
    return CopyPlain(buffer->bytes(), order, dataset.unit_bytes(), destination);
  };
  SideBySide copies({{[&] { return reader.CopyOut(); }}, {copy_plain}});
  QUIRE_RETURN_IF_ERROR(copies.Run(options.dram_rounds()));
  SideBySide handouts(
      {{[&] { return reader.HandOutByTier(); }}, {[&] { return reader.HandOutByStore(); }}});
  QUIRE_RETURN_IF_ERROR(handouts.Run(options.dram_rounds()));
  const uint64_t units = order.size() * kHandoutPasses;
  return DramRates{.vs_memcpy = copies.Ratio(0, 1),
                   .copied_gb_per_s = copies.PerSecond(0, options.working_set_bytes) / 1e9,
                   .memcpy_gb_per_s = copies.PerSecond(1, options.working_set_bytes) / 1e9,
                   .handout_units_per_s = handouts.PerSecond(0, units),
                   .store_units_per_s = handouts.PerSecond(1, units),
                   .pages = dataset.store().dram_mode()};
}

}  // namespace quire::bench
