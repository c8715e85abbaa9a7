// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

/// Random values, and ties of the rounding.
std::vector<float> Values(Workbench& bench, int64_t n) {
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f + 1.0f / 2048,  // Ties of f16.
                           1.0f + 3.0f / 2048,
                           1.0f + 1.0f / 256,  // Ties of bf16.
                           1.0f + 3.0f / 256,
                           65504.0f,
                           65519.9f,
                           65520.0f,
                           -1e30f,
                           6e-8f,
                           3e-8f,
                           2e-8f,
                           1e-40f,
                           std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> values = bench.Floats(n);
  for (int64_t i = 0; i < n && i < std::ssize(special); ++i) values[n - 1 - i] = special[i];
  return values;
}

TEST_P(OpConformance, NarrowEqualsReference) {
  QUIRE_REQUIRE_OP(narrow);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t n : {0, 1, 7, 64, 1003}) {
      SCOPED_TRACE(::testing::Message() << Name(dtype) << " n " << n);
      Tensor<float> x(bench_.device(), Values(bench_, n));
      const size_t bytes = static_cast<size_t>(n) * ElementBytes(dtype);
      Tensor<uint8_t> y(bench_.device(), std::vector<uint8_t>(bytes));
      std::vector<uint8_t> want(bytes);
      NarrowArgs args{.n = n, .dtype = dtype};
      args.x = x.host();
      args.y = want.data();
      ASSERT_EQ(CpuReference().narrow(args), OpStatus::kOk);
      args.x = x.data();
      args.y = y.data();
      args.stream = bench_.device().stream();
      ASSERT_EQ(table().narrow(args), OpStatus::kOk);
      EXPECT_EQ(y.Fetch(), want);
    }
  }
  EXPECT_EQ(table().narrow({.n = -1}), OpStatus::kBadShape);
  EXPECT_EQ(table().narrow({.n = 1}), OpStatus::kBadShape);
  EXPECT_EQ(table().narrow({.n = 0, .dtype = static_cast<DType>(99)}), OpStatus::kBadShape);
}

TEST_P(OpConformance, NarrowWritesTheRowsThatItIsGiven) {
  QUIRE_REQUIRE_OP(narrow);
  const std::vector<int32_t> places = {6, 0, 3};
  const int64_t y_rows = 8;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t n : {1, 7, 64, 300}) {
      SCOPED_TRACE(::testing::Message() << Name(dtype) << " n " << n);
      const auto rows = static_cast<int64_t>(places.size());
      const size_t row_bytes = static_cast<size_t>(n) * ElementBytes(dtype);
      Tensor<float> x(bench_.device(), Values(bench_, rows * n));
      Tensor<int32_t> at(bench_.device(), places);
      // Rows that are not listed stay.
      const std::vector<uint8_t> before(y_rows * row_bytes, 0xa5);
      Tensor<uint8_t> y(bench_.device(), before);
      std::vector<uint8_t> narrowed(rows * row_bytes);
      NarrowArgs args{.n = n, .rows = rows, .y_rows = y_rows, .dtype = dtype};
      args.x = x.host();
      args.y = narrowed.data();
      ASSERT_EQ(CpuReference().narrow(args), OpStatus::kOk);
      std::vector<uint8_t> want = before;
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(want.data() + places[r] * row_bytes, narrowed.data() + r * row_bytes,
                    row_bytes);
      }
      std::vector<uint8_t> defined = before;
      args.places = at.host();
      args.y = defined.data();
      ASSERT_EQ(CpuReference().narrow(args), OpStatus::kOk);
      EXPECT_EQ(defined, want);
      args.x = x.data();
      args.places = at.data();
      args.y = y.data();
      args.stream = bench_.device().stream();
      ASSERT_EQ(table().narrow(args), OpStatus::kOk);
      EXPECT_EQ(y.Fetch(), want);
    }
  }
}

TEST_P(OpConformance, NarrowRefusesOrSkipsPlacesOutOfRange) {
  QUIRE_REQUIRE_OP(narrow);
  const std::vector<float> before = {-1, -1, -1, -1};
  Tensor<float> x(bench_.device(), {1, 2, 3});
  for (const int32_t wrong : {-1, 4}) {
    Tensor<int32_t> places(bench_.device(), {2, wrong, 0});
    Tensor<float> y(bench_.device(), before);
    const OpStatus status = table().narrow({.x = x.data(),
                                            .places = places.data(),
                                            .y = y.data(),
                                            .n = 1,
                                            .rows = 3,
                                            .y_rows = 4,
                                            .dtype = DType::kF32,
                                            .stream = bench_.device().stream()});
    if (bench_.device().checks_lists()) {
      EXPECT_EQ(status, OpStatus::kBadShape);
      EXPECT_EQ(y.Fetch(), before);
    } else {
      EXPECT_EQ(status, OpStatus::kOk);
      EXPECT_EQ(y.Fetch(), (std::vector<float>{3, -1, 1, -1}));
    }
  }
  const int32_t place = 0;
  float value = 1;
  EXPECT_EQ(table().narrow({.x = &value, .places = &place, .y = &value, .n = 1}),
            OpStatus::kBadShape);  // A list without rows to name.
  EXPECT_EQ(table().narrow({.n = 1, .rows = -1}), OpStatus::kBadShape);
  EXPECT_EQ(table().narrow({.n = 1, .rows = 0}), OpStatus::kOk);
}

}  // namespace
}  // namespace quire::kernels::testing
