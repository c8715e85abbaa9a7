// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the packed fields of sessions: unit lists, and the records of a lane. The first byte picks
// the number of heads (and of records), the second the most pages of a head. Accepted input must
// keep to these bounds and survive a round trip.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/lane_records.h"
#include "common/wire/limits.h"
#include "common/wire/unit_list.h"
#include "tests/fuzz/require.h"

namespace {

using namespace quire;
using fuzz::Require;

void CheckUnitList(std::string_view bytes, uint32_t heads, uint32_t max_pages) {
  PageLists lists;
  if (!wire::DecodeUnitList(bytes, heads, max_pages, &lists).ok()) {
    Require(lists == PageLists());
    return;
  }
  Require(lists.num_heads() == heads);
  for (uint32_t head = 0; head < heads; ++head) {
    const std::span<const uint32_t> pages = lists.Head(head);
    Require(pages.size() <= max_pages);
    for (size_t i = 1; i < pages.size(); ++i) Require(pages[i - 1] < pages[i]);
    Require(pages.empty() || pages.back() < wire::kEndOfUnitPages);
  }
  std::string again;
  wire::EncodeUnitList(lists, &again);
  Require(again.size() <= bytes.size());
  PageLists back;
  Require(wire::DecodeUnitList(again, heads, max_pages, &back).ok() && back == lists);
}

void CheckRecords(std::string_view bytes, size_t count) {
  std::string again;
  if (wire::LaneUnits units; wire::DecodeLaneUnits(bytes, count, &units).ok()) {
    wire::EncodeLaneUnits(units, &again);
    Require(again == bytes);
  }
  if (wire::LaneSlots slots; wire::DecodeLaneSlots(bytes, count, &slots).ok()) {
    wire::EncodeLaneSlots(slots.pages, slots.generations, &again);
    Require(again == bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  CheckUnitList(bytes, data[0], uint32_t{data[1]} * 16);
  CheckRecords(bytes, data[0]);
  return 0;
}
