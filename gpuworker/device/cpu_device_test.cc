// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_conformance.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

StatusOr<Device*> Cpu() { return &CpuDevice(); }

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(&Cpu));

TEST(CpuDevice, RunsTheFastKernels) { EXPECT_EQ(&CpuDevice().kernels(), &kernels::CpuKernels()); }

TEST(ToStatus, NamesTheOpAndKeepsTheKindOfFailure) {
  EXPECT_TRUE(ToStatus(kernels::OpStatus::kOk, "rope").ok());
  const Status bad = ToStatus(kernels::OpStatus::kBadShape, "rope");
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(bad).find("rope"), std::string_view::npos);
  EXPECT_EQ(ToStatus(kernels::OpStatus::kUnsupported, "rope").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(ToStatus(kernels::OpStatus::kDeviceError, "rope").code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace quire::worker
