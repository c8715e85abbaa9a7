// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

struct Case {
  int64_t pages, p, n_kv, d, last_page_rows;
  bool has_values;

  int64_t slots() const { return pages + 2; }
  int64_t PoolBytes(DType dtype) const { return slots() * p * n_kv * d * ElementBytes(dtype); }
  int64_t UnitBytes(DType dtype) const {
    return (has_values ? 2 : 1) * p * d * ElementBytes(dtype);
  }
};
constexpr Case kCases[] = {{1, 1, 1, 1, 1, true},     {2, 32, 8, 128, 32, true},
                           {3, 32, 2, 128, 31, true}, {2, 31, 3, 33, 1, true},
                           {5, 33, 1, 64, 17, true},  {2, 32, 1, 576, 5, false},
                           {1, 16, 7, 80, 16, true},  {3, 32, 2, 96, 9, true},
                           {2, 16, 3, 256, 16, true}, {2, 32, 1, 256, 31, false}};

template <class Args>
Args MakeArgs(const Case& c, DType dtype) {
  Args args;
  args.num_slots = c.slots();
  args.page_tokens = c.p;
  args.n_kv = c.n_kv;
  args.head_dim = c.d;
  args.has_values = c.has_values;
  args.dtype = dtype;
  return args;
}

void ExpectSameBytes(Tensor<uint8_t>& tensor) {
  const std::vector<uint8_t> got = tensor.Fetch();
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], tensor.host()[i]) << "byte " << i << " of " << got.size();
  }
}

/// Tensors start `shift` bytes behind an aligned address.
void CheckOffload(Workbench& bench, const Case& c, DType dtype, size_t shift) {
  TestDevice& device = bench.device();
  Tensor<uint8_t> k(device, bench.Bytes(c.PoolBytes(dtype)), shift);
  Tensor<uint8_t> v(device, bench.Bytes(c.PoolBytes(dtype)), shift);
  Tensor<int32_t> slots(device, bench.Slots(c.pages, c.slots()));
  Tensor<uint8_t> units(device, bench.Bytes(c.pages * c.n_kv * c.UnitBytes(dtype)), shift);

  auto args = MakeArgs<NhdToHndArgs>(c, dtype);
  args.n_pages = c.pages;
  args.last_page_rows = c.last_page_rows;
  auto want = args;
  args.k_pool = k.data();
  args.v_pool = c.has_values ? v.data() : nullptr;
  args.slots = slots.data();
  args.units = units.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().nhd_to_hnd(args), OpStatus::kOk);

  want.k_pool = k.host();
  want.v_pool = v.host();
  want.slots = slots.host();
  want.units = units.host();
  ASSERT_EQ(CpuReference().nhd_to_hnd(want), OpStatus::kOk);
  ExpectSameBytes(units);
}

/// Gives every head its own random slots, as recall does.
std::vector<UnitPlacement> RandomPlaces(Workbench& bench, const Case& c) {
  std::vector<UnitPlacement> places;
  for (int32_t g = 0; g < c.n_kv; ++g) {
    for (const int32_t slot : bench.Slots(c.pages, c.slots())) places.push_back({slot, g});
  }
  return places;
}

/// `scattered`: through unit_ptrs, in reverse order, so not at contiguous places.
void CheckRecall(Workbench& bench, const Case& c, DType dtype, size_t shift, bool scattered) {
  TestDevice& device = bench.device();
  const int64_t n = c.pages * c.n_kv;
  Tensor<uint8_t> k(device, bench.Bytes(c.PoolBytes(dtype)), scattered ? 0 : shift);
  Tensor<uint8_t> v(device, bench.Bytes(c.PoolBytes(dtype)), scattered ? 0 : shift);
  Tensor<uint8_t> units(device, bench.Bytes(n * c.UnitBytes(dtype)), shift);
  Tensor<UnitPlacement> places(device, RandomPlaces(bench, c));
  std::vector<const void*> there, here;
  for (int64_t i = n - 1; i >= 0; --i) {
    there.push_back(units.data() + i * c.UnitBytes(dtype));
    here.push_back(units.host() + i * c.UnitBytes(dtype));
  }
  Tensor<const void*> pointers(device, there);

  auto args = MakeArgs<HndToNhdArgs>(c, dtype);
  args.n_units = n;
  auto want = args;
  args.unit_ptrs = scattered ? pointers.data() : nullptr;
  args.units = scattered ? nullptr : units.data();
  args.placements = places.data();
  args.k_pool = k.data();
  args.v_pool = c.has_values ? v.data() : nullptr;
  args.stream = device.stream();
  ASSERT_EQ(bench.table().hnd_to_nhd(args), OpStatus::kOk);

  want.unit_ptrs = scattered ? here.data() : nullptr;
  want.units = units.host();
  want.placements = places.host();
  want.k_pool = k.host();
  want.v_pool = v.host();
  ASSERT_EQ(CpuReference().hnd_to_nhd(want), OpStatus::kOk);
  ExpectSameBytes(k);
  ExpectSameBytes(v);
}

}  // namespace

TEST_P(OpConformance, OffloadEqualsReference) {
  QUIRE_REQUIRE_OP(nhd_to_hnd);
  for (const Case& c : kCases) {
    for (const DType dtype : kAllDTypes) {
      CheckOffload(bench_, c, dtype, 0);
      CheckOffload(bench_, c, dtype, ElementBytes(dtype));
    }
  }
}

TEST_P(OpConformance, RecallEqualsReference) {
  QUIRE_REQUIRE_OP(hnd_to_nhd);
  for (const Case& c : kCases) {
    for (const DType dtype : kAllDTypes) {
      for (const bool scattered : {false, true}) {
        CheckRecall(bench_, c, dtype, 0, scattered);
        CheckRecall(bench_, c, dtype, ElementBytes(dtype), scattered);
      }
    }
  }
}

TEST_P(OpConformance, TransposeRefusesBadShapes) {
  QUIRE_REQUIRE_OP(nhd_to_hnd);
  const Case c = {2, 4, 2, 8, 4, true};
  std::vector<float> k(c.PoolBytes(DType::kF32)), units(2 * 2 * c.UnitBytes(DType::kF32));
  const std::vector<int32_t> slots = {0, 1};
  auto good = MakeArgs<NhdToHndArgs>(c, DType::kF32);
  good.n_pages = 2;
  good.last_page_rows = 4;
  good.k_pool = good.v_pool = k.data();
  good.slots = slots.data();
  good.units = units.data();
  const auto refused = [&](auto change) {
    NhdToHndArgs args = good;
    change(args);
    return table().nhd_to_hnd(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.n_pages = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.page_tokens = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.last_page_rows = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.last_page_rows = 5; }));
  EXPECT_TRUE(refused([](auto& a) { a.v_pool = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.slots = nullptr; }));
  EXPECT_TRUE(!bench_.device().checks_lists() || refused([](auto& a) { a.num_slots = 1; }));
  NhdToHndArgs empty = good;
  empty.n_pages = 0;
  empty.k_pool = empty.v_pool = nullptr;
  EXPECT_EQ(table().nhd_to_hnd(empty), OpStatus::kOk);
  NhdToHndArgs unknown = good;
  unknown.dtype = static_cast<DType>(99);
  EXPECT_EQ(table().nhd_to_hnd(unknown), OpStatus::kUnsupported);
}

TEST_P(OpConformance, RecallRefusesBadShapes) {
  QUIRE_REQUIRE_OP(hnd_to_nhd);
  const Case c = {2, 4, 2, 8, 4, true};
  std::vector<float> pool(c.PoolBytes(DType::kF32)), units(c.UnitBytes(DType::kF32));
  const UnitPlacement place = {1, 1};
  auto good = MakeArgs<HndToNhdArgs>(c, DType::kF32);
  good.n_units = 1;
  good.k_pool = good.v_pool = pool.data();
  good.placements = &place;
  good.units = units.data();
  const auto refused = [&](auto change) {
    HndToNhdArgs args = good;
    change(args);
    return table().hnd_to_nhd(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.n_units = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.head_dim = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.units = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.placements = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.v_pool = nullptr; }));
  if (bench_.device().checks_lists()) {
    EXPECT_TRUE(refused([](auto& a) { a.num_slots = 1; }));
    EXPECT_TRUE(refused([](auto& a) { a.n_kv = 1; }));
  }
  HndToNhdArgs empty = good;
  empty.n_units = 0;
  empty.placements = nullptr;
  EXPECT_EQ(table().hnd_to_nhd(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
