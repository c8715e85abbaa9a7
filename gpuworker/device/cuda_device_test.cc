// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device: over a library without a GPU, and on a GPU where there is one (else skipped,
// with the reason).
#include "gpuworker/device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "gpuworker/device/device_conformance.h"
#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaLibrary;
using testing::FakeCudaStream;
using ::testing::HasSubstr;
using testing::LateStreams;

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
  library.open = [](kernels::CudaStreams*, kernels::CudaFacts*) -> const char* {
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
  EXPECT_EQ(CpuDevice().hardware(), "");
  EXPECT_EQ(FakeCudaDevice().hardware(), "fake");
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

TEST(CudaDeviceTest, ItTellsWhetherProductsAreThoseOfCublas) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  EXPECT_FALSE((*MakeCudaDevice(library))->has_cublas());
  library.open = [](kernels::CudaStreams* streams, kernels::CudaFacts* facts) {
    const char* const words = FakeCudaLibrary().open(streams, facts);
    facts->cublas = true;
    return words;
  };
  EXPECT_TRUE((*MakeCudaDevice(library))->has_cublas());
  EXPECT_FALSE(CpuDevice().has_cublas());
}

TEST(CudaDeviceTest, WithoutPinnedMemoryItIsOutOfMemory) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.pin = [](size_t, void**) -> const char* { return "out of memory"; };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok());
  const Status status = (*device)->AllocatePinned(4096).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsOutOfDeviceMemory(status));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("4096 bytes of pinned host memory"));
}

/// A value on the fake device, and kernels that change it.
class CudaStreamsTest : public ::testing::Test {
 protected:
  Status Add(const DeviceBuffer& other, void* stream) {
    return ToStatus(device_.kernels().add({.a = other.as<float>(),
                                           .b = value_.as<float>(),
                                           .y = value_.as<float>(),
                                           .n = 1,
                                           .stream = stream}),
                    "add");
  }
  Status Double(void* stream) { return Add(value_, stream); }
  Status Set(float value) { return device_.CopyToDevice(value_.data(), &value, sizeof value); }
  float Get() {
    float value = -1;
    EXPECT_EQ(device_.CopyToHost(&value, value_.data(), sizeof value), OkStatus());
    return value;
  }

  Device& device_ = FakeCudaDevice();
  const DeviceBuffer value_ = *device_.Allocate(sizeof(float));
  const std::unique_ptr<DeviceEvent> event_ = *device_.MakeEvent();
};

TEST_F(CudaStreamsTest, WhatNobodyWaitsForIsNotThere) {
  ASSERT_EQ(Set(1), OkStatus());
  {
    const LateStreams late({FakeCudaStream::kConvert});
    ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
    EXPECT_EQ(Get(), 1);
  }
  EXPECT_EQ(Get(), 2);
}

TEST_F(CudaStreamsTest, WhoIsHeldGetsIt) {
  ASSERT_EQ(Set(1), OkStatus());
  const LateStreams late({FakeCudaStream::kConvert});
  ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(event_->Hold(DeviceStream::kCompute), OkStatus());
  const int64_t before = FakeCudaHostWaits();
  EXPECT_EQ(Get(), 2);
  EXPECT_EQ(FakeCudaHostWaits(), before + 1);
}

TEST_F(CudaStreamsTest, ATimerTellsHowLongTheDeviceWaitedAndTheHostDoesNot) {
  using std::chrono::milliseconds;
  const std::unique_ptr<HoldTimer> timer = device_.MakeHoldTimer();
  ASSERT_EQ(Set(1), OkStatus());
  const LateStreams late({FakeCudaStream::kConvert});
  const int64_t before = FakeCudaHostWaits();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(timer->Hold(*event_, DeviceStream::kCompute), OkStatus());
  EXPECT_EQ(*timer->Take(), Duration::zero());  // It has not ended.
  EXPECT_EQ(FakeCudaHostWaits(), before);
  ASSERT_EQ(Get(), 8);
  ASSERT_EQ(timer->Hold(*event_, DeviceStream::kCompute), OkStatus());  // It has passed.
  ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(timer->Hold(*event_, DeviceStream::kCompute), OkStatus());
  EXPECT_EQ(*timer->Take(), milliseconds(3));
  ASSERT_EQ(Get(), 16);
  EXPECT_EQ(*timer->Take(), milliseconds(1));
  EXPECT_EQ(*timer->Take(), Duration::zero());
}

TEST_F(CudaStreamsTest, RecordedWorkIsHeldAsOtherWorkIs) {
  const DeviceBuffer one = *device_.Allocate(sizeof(float));
  const float host_one = 1;
  ASSERT_EQ(device_.CopyToDevice(one.data(), &host_one, sizeof host_one), OkStatus());
  const auto graph = device_.Record([&] { return Add(one, device_.stream()); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  const LateStreams late({FakeCudaStream::kConvert});
  ASSERT_EQ(Set(3), OkStatus());
  ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(event_->Hold(DeviceStream::kCompute), OkStatus());
  ASSERT_EQ((*graph)->Launch(), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kCompute), OkStatus());  // Behind the launch.
  ASSERT_EQ(event_->Hold(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(Double(device_.convert_stream()), OkStatus());
  ASSERT_EQ(event_->Record(DeviceStream::kConvert), OkStatus());
  ASSERT_EQ(event_->Await(), OkStatus());
  EXPECT_EQ(Get(), (3 * 2 + 1) * 2);
}

TEST(CudaDeviceTest, ADriverThatFailsIsAnErrorWithItsWords) {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.copy = [](void*, kernels::CopyDirection, void*, const void*, size_t) -> const char* {
    return "an illegal memory access was encountered";
  };
  library.begin_capture = [](void*) -> const char* { return "operation not permitted"; };
  library.elapsed = [](void*, void*, float*) -> const char* { return "invalid resource handle"; };
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
  const auto timer = (*device)->MakeHoldTimer();
  const auto event = (*device)->MakeEvent();
  ASSERT_TRUE(event.ok());
  ASSERT_EQ(timer->Hold(**event, DeviceStream::kCompute), OkStatus());
  EXPECT_THAT(std::string(Message(timer->Take().status())), HasSubstr("invalid resource handle"));
}

}  // namespace
}  // namespace quire::worker
