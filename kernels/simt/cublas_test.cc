// SPDX-License-Identifier: Apache-2.0
//
// The start of cuBLAS, with a fake library in its place.
#include "kernels/cuda/cublas.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/simt/fake_cublas.h"
#include "kernels/simt/include/cuda_runtime.h"

namespace quire::kernels::cuda {
namespace {

using simt::TheFakeCublas;

class CublasTest : public ::testing::Test {
 protected:
  CublasTest() {
    for (cudaStream_t& stream : streams_) {
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    }
    TheFakeCublas().calls = TheFakeCublas().failing_call = 0;
  }
  ~CublasTest() override { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }
  bool Start() { return StartCublas(streams_[0], streams_[1]); }

  std::array<cudaStream_t, 2> streams_ = {};
};

TEST_F(CublasTest, WhatDoesNotStartLeavesNothingAndNoErrorBehind) {
  constexpr int64_t kCalls = 8;  // Handle, stream, workspace and product, of two streams.
  for (int64_t call = 1; call <= kCalls; ++call) {
    TheFakeCublas().calls = 0;
    TheFakeCublas().failing_call = call;
    EXPECT_EQ(cudaFreeHost(this),
              cudaErrorInvalidValue);  // Leaves an error behind, as a failing cuBLAS does.
    EXPECT_FALSE(Start()) << call;
    EXPECT_EQ(TheFakeCublas().calls, call);
    EXPECT_TRUE(TheFakeCublas().handles.empty()) << call;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << call;
  }
}

TEST_F(CublasTest, MemoryThatIsNotThereIsAsCublasThatIsNot) {
  ASSERT_EQ(cudaStreamBeginCapture(streams_[1], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_FALSE(Start());  // A stream in capture has none.
  EXPECT_TRUE(TheFakeCublas().handles.empty());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CublasTest, EachStreamHasAHandleWithAWorkspaceAndAProductBehindIt) {
  ASSERT_TRUE(Start());
  const auto& handles = TheFakeCublas().handles;
  ASSERT_EQ(handles.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(handles[i]->stream, streams_[i]);
    EXPECT_NE(handles[i]->workspace, nullptr);
    EXPECT_GE(handles[i]->workspace_bytes, size_t{4} << 20);
    EXPECT_EQ(handles[i]->products, 1);
  }
  const std::vector<float> x(16 * 4), weight(3 * 4);
  std::vector<float> y(16 * 3);
  MatmulArgs args{.x = x.data(),
                  .weight = weight.data(),
                  .y = y.data(),
                  .rows = 16,
                  .in = 4,
                  .out = 3,
                  .stream = streams_[1]};
  EXPECT_EQ(MatmulByCublas(args), OpStatus::kOk);
  EXPECT_EQ(handles[1]->products, 2);
  TheFakeCublas().failing_call = TheFakeCublas().calls + 1;
  EXPECT_EQ(MatmulByCublas(args), OpStatus::kDeviceError);
}

}  // namespace
}  // namespace quire::kernels::cuda
