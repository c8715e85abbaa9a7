// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device: over a library without a GPU, and on a GPU where there is one (else skipped,
// with the reason).
#include "gpuworker/device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuworker/device/device_conformance.h"
#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaLibrary;
using ::testing::HasSubstr;

StatusOr<Device*> Fake() { return &FakeCudaDevice(); }

INSTANTIATE_TEST_SUITE_P(Fake, DeviceConformance, ::testing::Values(&Fake));
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, ::testing::Values(&CudaDevice));

void ExpectNoDevice(const kernels::CudaLibrary& library, const char* why) {
  const auto device = MakeCudaDevice(library);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(device.status())), HasSubstr("no CUDA device: "));
  EXPECT_THAT(std::string(Message(device.status())), HasSubstr(why));
}

TEST(CudaDeviceTest, WithoutAGpuTheErrorHasTheDriversWords) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.open = [](void**, void**, kernels::CudaFacts*) -> const char* {
    return "CUDA driver version is insufficient for CUDA runtime version";
  };
  ExpectNoDevice(library, "CUDA driver version is insufficient for CUDA runtime version");
}

TEST(CudaDeviceTest, ALibraryOfOtherSourcesIsRefused) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  ++library.version;
  ExpectNoDevice(library, "build it again");
  library = FakeCudaLibrary();
  --library.table_bytes;
  ExpectNoDevice(library, "build it again");
}

TEST(CudaDeviceTest, ADeviceIsFoundByItsName) {
  EXPECT_EQ(*FindDevice("cpu"), &CpuDevice());
  const auto cuda = FindDevice("cuda");
  if (cuda.ok()) {
    EXPECT_EQ((*cuda)->name(), "cuda");
  } else {
    EXPECT_THAT(std::string(Message(cuda.status())), HasSubstr("no CUDA device: "));
  }
  const auto other = FindDevice("tpu");
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(other.status())), HasSubstr("cpu and cuda"));
}

TEST(CudaDeviceTest, ADriverThatFailsIsAnErrorWithItsWords) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.copy = [](void*, kernels::CopyDirection, void*, const void*, size_t) -> const char* {
    return "an illegal memory access was encountered";
  };
  library.begin_capture = [](void*) -> const char* { return "operation not permitted"; };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok());
  const auto memory = (*device)->Allocate(4);
  ASSERT_TRUE(memory.ok());
  float host = 0;
  const Status copied = (*device)->CopyToHost(&host, memory->data(), 4);
  EXPECT_EQ(copied.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(Message(copied)), HasSubstr("illegal memory access"));
  const auto graph = (*device)->Record([] { return OkStatus(); });
  EXPECT_EQ(graph.status().code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(Message(graph.status())), HasSubstr("not permitted"));
}

}  // namespace
}  // namespace quire::worker
