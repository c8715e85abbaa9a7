// SPDX-License-Identifier: Apache-2.0
#include "bench/store/store_dram.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "bench/kit/side_by_side.h"
#include "common/base/random.h"
#include "kvserver/store/dram/arena_memory.h"

namespace quire::bench {
namespace {

using kvserver::ArenaMemory;
using kvserver::UnitAddress;
using kvserver::UnitBytes;

// Bytes copied in a turn: few, so that the median ignores interrupted turns.
constexpr uint64_t kTurnBytes = 4 << 20;
// Calls of a turn that return units in place.
constexpr uint32_t kTurnCalls = 64;
constexpr uint32_t kCallUnits = 256;

/// Every unit of the working set once, in random order.
std::vector<uint64_t> Shuffled(uint64_t units) {
  std::vector<uint64_t> order(units);
  std::iota(order.begin(), order.end(), uint64_t{0});
  SeededRandom random(2);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

/// Consecutive parts of a list, cyclically.
template <typename T>
class Parts {
 public:
  /// REQUIRES: `all` is at least as long as a part.
  Parts(std::span<const T> all, size_t size) : all_(all), size_(size) {}
  std::span<const T> Next() {
    if (at_ + size_ > all_.size()) at_ = 0;
    at_ += size_;
    return all_.subspan(at_ - size_, size_);
  }

 private:
  const std::span<const T> all_;
  const size_t size_;
  size_t at_ = 0;
};

/// Reads the working set through the store, and through its DRAM tier alone.
class StoreReader {
 public:
  StoreReader(Dataset& dataset, std::span<const uint64_t> order)
      : store_(dataset.store()),
        addresses_(AddressesOf(dataset, order)),
        to_copy_(addresses_, kTurnBytes / dataset.unit_bytes()),
        to_hand_out_(addresses_, kCallUnits) {}

  Status CopyOut(std::span<std::byte> destination) {
    QUIRE_RETURN_IF_ERROR(store_.ReadUnits("default", to_copy_.Next(), &out_));
    std::byte* to = destination.data();
    for (const UnitBytes& unit : out_) {
      const std::span<const std::byte> bytes = unit.ToSend().slice.bytes;
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    }
    return OkStatus();
  }
  Status HandOutByStore() {
    for (uint32_t call = 0; call < kTurnCalls; ++call) {
      QUIRE_RETURN_IF_ERROR(store_.ReadUnits("default", to_hand_out_.Next(), &out_));
    }
    return OkStatus();
  }
  Status HandOutByTier() {
    out_.resize(kCallUnits);
    for (uint32_t call = 0; call < kTurnCalls; ++call) {
      if (store_.dram().ReadUnits("default", to_hand_out_.Next(), out_) == kCallUnits) continue;
      return Internal("a pinned unit is not in DRAM");
    }
    return OkStatus();
  }

 private:
  static std::vector<UnitAddress> AddressesOf(const Dataset& dataset,
                                              std::span<const uint64_t> order) {
    std::vector<UnitAddress> addresses;
    for (const uint64_t number : order) addresses.push_back(dataset.Unit(number));
    return addresses;
  }

  kvserver::PageStoreImpl& store_;
  const std::vector<UnitAddress> addresses_;
  Parts<UnitAddress> to_copy_, to_hand_out_;
  std::vector<UnitBytes> out_;
};

/// Reads the same pattern from plain memory.
class PlainReader {
 public:
  PlainReader(std::span<const std::byte> buffer, std::span<const uint64_t> order,
              uint64_t unit_bytes)
      : buffer_(buffer), unit_bytes_(unit_bytes), to_copy_(order, kTurnBytes / unit_bytes) {}

  Status CopyOut(std::span<std::byte> destination) {
    std::byte* to = destination.data();
    for (const uint64_t number : to_copy_.Next()) {
      std::memcpy(to, buffer_.data() + number * unit_bytes_, unit_bytes_);
      to += unit_bytes_;
    }
    return OkStatus();
  }

 private:
  const std::span<const std::byte> buffer_;
  const uint64_t unit_bytes_;
  Parts<uint64_t> to_copy_;
};

/// A buffer as large as the working set, on pages of the arena's kind.
StatusOr<std::unique_ptr<ArenaMemory>> PlainBuffer(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(auto buffer, ArenaMemory::Map({.bytes = bytes}));
  buffer->Prepare(buffer->bytes());
  std::ranges::fill(buffer->bytes(), std::byte{1});
  return buffer;
}

}  // namespace

StatusOr<DramRates> MeasureDram(const StoreBenchOptions& options, Dataset& dataset) {
  QUIRE_RETURN_IF_ERROR(dataset.Pin(options.working_set_bytes));
  QUIRE_ASSIGN_OR_RETURN(const auto buffer, PlainBuffer(options.working_set_bytes));
  // One for both: the relative alignment of source and destination affects memcpy.
  QUIRE_ASSIGN_OR_RETURN(const auto destination, PlainBuffer(kTurnBytes));
  const std::vector<uint64_t> order = Shuffled(options.working_set_bytes / dataset.unit_bytes());
  StoreReader store(dataset, order);
  PlainReader plain(buffer->bytes(), order, dataset.unit_bytes());
  SideBySide copies({{[&] { return store.CopyOut(destination->bytes()); }},
                     {[&] { return plain.CopyOut(destination->bytes()); }}});
  QUIRE_RETURN_IF_ERROR(copies.Run(options.dram_rounds));
  SideBySide handouts(
      {{[&] { return store.HandOutByTier(); }}, {[&] { return store.HandOutByStore(); }}});
  QUIRE_RETURN_IF_ERROR(handouts.Run(options.dram_rounds));
  const uint64_t units = uint64_t{kTurnCalls} * kCallUnits;
  return DramRates{.vs_memcpy = copies.Ratio(0, 1),
                   .copied_gb_per_s = copies.PerSecond(0, kTurnBytes) / 1e9,
                   .memcpy_gb_per_s = copies.PerSecond(1, kTurnBytes) / 1e9,
                   .handout_units_per_s = handouts.PerSecond(0, units),
                   .store_units_per_s = handouts.PerSecond(1, units),
                   .pages = dataset.store().dram_mode()};
}

}  // namespace quire::bench
