// SPDX-License-Identifier: Apache-2.0
//
// The arena, the memory under it and the choice of NUMA nodes.
#include "kvserver/store/dram/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "common/base/random.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(ArenaTest, ASlotKeptAfterFreeNamesNothing) {
  const auto arena = Arena::Reserve({.bytes = Arena::kMinBytes}).value();
  const auto first = arena->Allocate(4096);
  ASSERT_TRUE(first);
  arena->Free(*first);
  const auto second = arena->Allocate(4096);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->index, first->index) << "the same place";
  EXPECT_TRUE(arena->Bytes(*first).empty());
  arena->Free(*first);
  EXPECT_EQ(arena->used_bytes(), 4096u) << "a stale slot frees nothing";
}

TEST(ArenaTest, SlotsDoNotOverlapAndAreAligned) {
  const auto arena = Arena::Reserve({.bytes = 1 << 20}).value();
  std::vector<std::span<std::byte>> slots;
  while (const auto slot = arena->Allocate(5000)) slots.push_back(arena->Bytes(*slot));
  EXPECT_EQ(slots.size(), 16u * (65536 / 8192));
  std::ranges::sort(slots, {}, [](const auto& slot) { return slot.data(); });
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slots[i].data()) % Arena::kSlotAlignBytes, 0u);
    if (i > 0) {
      EXPECT_GE(slots[i].data(), slots[i - 1].data() + slots[i - 1].size());
    }
  }
}

TEST(ArenaTest, RefusesAbsurdSizes) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 60}) {
    const auto arena = Arena::Reserve({.bytes = bytes});
    EXPECT_EQ(arena.status().code(), StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(std::string(arena.status().message()), HasSubstr("dram_bytes"));
  }
}

TEST(ArenaTest, RefusesMoreThanAGroupsLimitAlthoughTheMachineHasIt) {
  const MemoryLimit limit{1 << 20, "the limit in /group/memory.max"};
  EXPECT_TRUE(Arena::Reserve({.bytes = 1 << 20}, limit).ok());
  const auto arena = Arena::Reserve({.bytes = 2 << 20}, limit);
  EXPECT_EQ(arena.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(arena.status().message()),
      HasSubstr("dram_bytes is 2097152, more than the limit in /group/memory.max, 1048576"));
}

TEST(ArenaTest, AccountsForEachClassAndGivesEmptySlabsBack) {
  const auto arena = Arena::Reserve({.bytes = 1 << 20}).value();  // 16 slabs of 64 KiB
  const auto small = arena->Allocate(4096);
  const auto large = arena->Allocate(40000);
  ASSERT_TRUE(small && large);
  const auto classes = arena->Classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].slot_bytes, 4096u);
  EXPECT_EQ(classes[1].slot_bytes, 40960u);
  EXPECT_EQ(classes[1].slabs, 1u);
  EXPECT_EQ(classes[1].slots_used, 1u);
  EXPECT_EQ(arena->used_bytes(), 4096u + 40960u);
  arena->Free(*small);
  arena->Free(*large);
  EXPECT_THAT(arena->Classes(), IsEmpty());
  EXPECT_EQ(arena->used_bytes(), 0u);
}

TEST(ArenaTest, AgreesWithAModelUnderRandomUse) {
  const uint64_t seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  const auto arena = Arena::Reserve({.bytes = 1 << 20}).value();
  std::vector<std::pair<Arena::Slot, uint64_t>> held;
  uint64_t used = 0;
  std::map<const std::byte*, const std::byte*> places;  // start to end
  for (int step = 0; step < 20000; ++step) {
    if (random.Below(2) == 0) {
      const uint64_t bytes = 1 + random.Below(4) * 9000;
      const auto slot = arena->Allocate(bytes);
      if (!slot) continue;
      const std::span<std::byte> place = arena->Bytes(*slot);
      ASSERT_GE(place.size(), bytes);
      const auto next = places.lower_bound(place.data());
      if (next != places.end()) {
        ASSERT_LE(place.data() + place.size(), next->first);
      }
      if (next != places.begin()) {
        ASSERT_LE(std::prev(next)->second, place.data());
      }
      places[place.data()] = place.data() + place.size();
      held.emplace_back(*slot, place.size());
      used += place.size();
    } else if (!held.empty()) {
      std::swap(held[random.Below(held.size())], held.back());
      places.erase(arena->Bytes(held.back().first).data());
      arena->Free(held.back().first);
      used -= held.back().second;
      held.pop_back();
    }
    ASSERT_EQ(arena->used_bytes(), used);
  }
}

TEST(ArenaTest, BytesStayWhenLargePagesComeUnderThem) {
  const auto arena = Arena::Reserve({.bytes = 64 << 20}).value();
  EXPECT_THAT(arena->mode(),
              AnyOf(StartsWith("huge pages 2 MiB"), StartsWith("transparent huge pages"),
                    StartsWith("4 KiB pages")));
  const auto slot = arena->Allocate(3 << 20);
  ASSERT_TRUE(slot);
  const std::span<std::byte> bytes = arena->Bytes(*slot);
  std::ranges::fill(bytes, std::byte{7});
  arena->Prepare(*slot);
  arena->Prepare(*slot);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{7}; }));
}

TEST(ArenaTest, OtherProcessesCanMapItToReadAndNotToWrite) {
  const auto arena = Arena::Reserve({.bytes = 8 << 20}).value();
  const auto shared = arena->shared_memory();
  ASSERT_TRUE(shared);
  const auto mapping = ReadOnlyMapping::Map(shared->fd, shared->bytes.size()).value();
  const auto slot = arena->Allocate(40000);
  ASSERT_TRUE(slot);
  arena->Prepare(*slot);  // Large pages are still possible in a sealed file.
  const std::span<std::byte> bytes = arena->Bytes(*slot);
  std::ranges::fill(bytes, std::byte{9});  // Its owner can still write.
  const auto offset = static_cast<size_t>(bytes.data() - shared->bytes.data());
  EXPECT_TRUE(std::ranges::all_of(mapping->bytes().subspan(offset, bytes.size()),
                                  [](std::byte b) { return b == std::byte{9}; }));
  EXPECT_EQ(mmap(nullptr, shared->bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, shared->fd, 0),
            MAP_FAILED);
}

TEST(ArenaTest, AnArenaThatIsFilledAtTheStartHoldsZeros) {
  const auto arena = Arena::Reserve({.bytes = 4 << 20, .prefault = true});
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto slot = (*arena)->Allocate(8192);
  ASSERT_TRUE(slot);
  EXPECT_EQ((*arena)->Bytes(*slot)[8191], std::byte{0});
}

TEST(ArenaTest, ANumaNodeThatIsNotThereIsRefusedNamingThoseThatAre) {
  const auto arena = Arena::Reserve({.bytes = 1 << 20, .numa_node = 1000});
  EXPECT_EQ(arena.status().code(), StatusCode::kInvalidArgument);
  const std::string first = std::to_string(MemoryNodes().front());
  EXPECT_THAT(std::string(arena.status().message()), HasSubstr("use one of " + first));
  EXPECT_TRUE(Arena::Reserve({.bytes = 1 << 20, .numa_node = MemoryNodes().front()}).ok());
}

TEST(NumaNodesTest, ListsAreReadAsTheKernelWritesThem) {
  EXPECT_THAT(ParseNodeList("0").value(), ElementsAre(0));
  EXPECT_THAT(ParseNodeList("0-2,5,7-8").value(), ElementsAre(0, 1, 2, 5, 7, 8));
  for (const char* bad : {"", ",", "a", "1-", "3-1", "2,1", "0,,1", "0-1x", "-1", "99999"}) {
    EXPECT_EQ(ParseNodeList(bad), std::nullopt) << bad;
  }
}

TEST(NumaNodesTest, OneNodeLeavesNothingToChoose) {
  EXPECT_THAT(ChooseNodes({0}, kInterleaveNodes).value(), IsEmpty());
  EXPECT_THAT(ChooseNodes({0}, 0).value(), IsEmpty());
  EXPECT_EQ(ChooseNodes({0}, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST(NumaNodesTest, SeveralNodesAreTakenInTurnOrOneOfThem) {
  EXPECT_THAT(ChooseNodes({0, 2}, kInterleaveNodes).value(), ElementsAre(0, 2));
  EXPECT_THAT(ChooseNodes({0, 2}, 2).value(), ElementsAre(2));
  const Status status = ChooseNodes({0, 2}, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0, 2"));
}

}  // namespace
}  // namespace quire::kvserver::testing
