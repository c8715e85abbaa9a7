// SPDX-License-Identifier: Apache-2.0
#include "common/wire/lane_records.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace quire::wire {
namespace {

/// Appends `values` as little-endian numbers of four bytes.
template <typename T>
void Append(std::span<const T> values, std::string* out) {
  static_assert(sizeof(T) == 4);
  if constexpr (std::endian::native == std::endian::little) {
    out->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  } else {
    for (const T value : values) {
      const auto bits = std::bit_cast<uint32_t>(value);
      for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(bits >> shift));
    }
  }
}

/// Takes `count` such numbers off the front of `*bytes`. REQUIRES: they are there.
template <typename T>
void Take(size_t count, std::string_view* bytes, std::vector<T>* values) {
  static_assert(sizeof(T) == 4);
  values->resize(count);
  if constexpr (std::endian::native == std::endian::little) {
    if (count > 0) std::memcpy(values->data(), bytes->data(), count * sizeof(T));
  } else {
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      for (size_t byte = 0; byte < 4; ++byte) {
        bits |= uint32_t{static_cast<uint8_t>((*bytes)[4 * i + byte])} << (8 * byte);
      }
      (*values)[i] = std::bit_cast<T>(bits);
    }
  }
  bytes->remove_prefix(count * sizeof(T));
}

/// True when `bytes` are exactly `count` records of `record_bytes`.
bool IsWhole(std::string_view bytes, size_t count, size_t record_bytes) {
  return bytes.size() % record_bytes == 0 && bytes.size() / record_bytes == count;
}

}  // namespace

void LaneUnits::Resize(size_t units) {
  slots.resize(units);
  generations.resize(units);
  pages.resize(units);
  replaced.resize(units);
  crc32c.resize(units);
}

void EncodeLaneUnits(const LaneUnitsView& units, std::string* out) {
  out->clear();
  out->reserve(units.slots.size() * kLaneUnitBytes);
  Append(units.slots, out);
  Append(units.generations, out);
  Append(units.pages, out);
  Append(units.replaced, out);
  Append(units.crc32c, out);
}

Status DecodeLaneUnits(std::string_view bytes, size_t count, LaneUnits* units) {
  if (!IsWhole(bytes, count, kLaneUnitBytes)) {
    return InvalidArgument("the records of a lane have ", bytes.size(), " bytes: ", count,
                           " units have ", kLaneUnitBytes, " each");
  }
  Take(count, &bytes, &units->slots);
  Take(count, &bytes, &units->generations);
  Take(count, &bytes, &units->pages);
  Take(count, &bytes, &units->replaced);
  Take(count, &bytes, &units->crc32c);
  return OkStatus();
}

void EncodeLaneSlots(std::span<const int32_t> pages, std::span<const uint32_t> generations,
                     std::string* out) {
  out->clear();
  out->reserve(pages.size_bytes() + generations.size_bytes());
  Append(pages, out);
  Append(generations, out);
}

Status DecodeLaneSlots(std::string_view bytes, size_t count, LaneSlots* slots) {
  constexpr size_t kSlotBytes = sizeof(int32_t) + sizeof(uint32_t);
  if (!IsWhole(bytes, count, kSlotBytes)) {
    return InvalidArgument("the slots of a lane have ", bytes.size(), " bytes: ", count,
                           " slots have ", kSlotBytes, " each");
  }
  Take(count, &bytes, &slots->pages);
  Take(count, &bytes, &slots->generations);
  return OkStatus();
}

}  // namespace quire::wire
