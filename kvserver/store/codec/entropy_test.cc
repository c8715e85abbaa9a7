// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/codec/entropy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/base/random.h"

namespace quire::kvserver {
namespace {

/// Units, every second of which is random and incompressible.
std::vector<std::byte> Units(const EntropyShape& shape) {
  SeededRandom random(1);
  std::vector<std::byte> raw(shape.raw_bytes());
  for (size_t i = 0; i < raw.size(); ++i) {
    const bool noise = i / shape.unit_bytes % 2 == 1;
    raw[i] = static_cast<std::byte>(noise ? random.Below(256) : i % 7);
  }
  return raw;
}

TEST(Entropy, UnitsComeBackTogetherAndAlone) {
  for (const EntropyShape shape :
       {EntropyShape{1, 1}, EntropyShape{1, 4096}, EntropyShape{5, 300}, EntropyShape{64, 2048}}) {
    const std::vector<std::byte> raw = Units(shape);
    const auto container = EncodeEntropy(raw, shape);
    ASSERT_TRUE(container.ok());
    EXPECT_LE(container->size(), shape.max_bytes());
    EntropyDecoder decoder;
    std::vector<std::byte> back(raw.size());
    ASSERT_TRUE(decoder.All(*container, shape, back).ok());
    EXPECT_EQ(back, raw);
    const auto table = EntropyTable::Parse(std::span(*container).first(shape.table_bytes()),
                                           container->size(), shape);
    ASSERT_TRUE(table.ok());
    std::vector<std::byte> unit(shape.unit_bytes);
    for (uint32_t i = shape.units; i-- > 0;) {
      const auto stored = std::span(*container).subspan(table->offset(i), table->bytes(i));
      ASSERT_TRUE(decoder.Unit(*table, i, stored, unit).ok());
      EXPECT_EQ(0, std::memcmp(unit.data(), raw.data() + uint64_t{i} * unit.size(), unit.size()));
    }
  }
}

TEST(Entropy, KeepsAUnitThatDoesNotGetSmaller) {
  const EntropyShape shape{4, 2048};
  const auto container = EncodeEntropy(Units(shape), shape);
  ASSERT_TRUE(container.ok());
  const auto table = EntropyTable::Parse(*container, container->size(), shape);
  ASSERT_TRUE(table.ok());
  EXPECT_LT(table->bytes(0), 200u);
  EXPECT_EQ(table->bytes(1), 2048u);
}

TEST(Entropy, EveryFlippedByteIsDataLoss) {
  const EntropyShape shape{3, 400};
  std::vector<std::byte> container = EncodeEntropy(Units(shape), shape).value();
  EntropyDecoder decoder;
  std::vector<std::byte> back(shape.raw_bytes());
  for (std::byte& byte : container) {
    byte ^= std::byte{0x20};
    EXPECT_TRUE(absl::IsDataLoss(decoder.All(container, shape, back)));
    byte ^= std::byte{0x20};
  }
  EXPECT_TRUE(decoder.All(container, shape, back).ok());
}

TEST(Entropy, EveryOtherLengthIsDataLoss) {
  const EntropyShape shape{3, 400};
  std::vector<std::byte> container = EncodeEntropy(Units(shape), shape).value();
  EntropyDecoder decoder;
  std::vector<std::byte> back(shape.raw_bytes());
  for (size_t size = 0; size < container.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(decoder.All(std::span(container).first(size), shape, back)));
  }
  container.push_back(std::byte{0});
  EXPECT_TRUE(absl::IsDataLoss(decoder.All(container, shape, back)));
}

TEST(Entropy, AnotherShapeIsDataLossAndAnEmptyOneIsRefused) {
  const EntropyShape shape{3, 400};
  const std::vector<std::byte> container = EncodeEntropy(Units(shape), shape).value();
  EntropyDecoder decoder;
  std::vector<std::byte> back(shape.raw_bytes());
  EXPECT_TRUE(absl::IsDataLoss(decoder.All(container, {4, 300}, back)));
  EXPECT_TRUE(absl::IsDataLoss(decoder.All(container, {2, 600}, back)));
  EXPECT_TRUE(absl::IsInvalidArgument(decoder.All(container, {3, 399}, back)));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeEntropy({}, {0, 400}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeEntropy({}, {1, 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeEntropy(back, {3, 401}).status()));
}

}  // namespace
}  // namespace quire::kvserver
