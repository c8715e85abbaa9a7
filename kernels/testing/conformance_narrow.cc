// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

/// Random values, and those that rounding is about.
std::vector<float> Values(Workbench& bench, int64_t n) {
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f + 1.0f / 2048,  // Ties of f16,
                           1.0f + 3.0f / 2048,
                           1.0f + 1.0f / 256,  // and of bf16.
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

}  // namespace
}  // namespace quire::kernels::testing
