// SPDX-License-Identifier: Apache-2.0
//
// The suite that every Device passes. Instantiate it beside the device's own tests, with a function
// that finds the device. Without a device its status says why the tests are skipped:
//   StatusOr<Device*> Cpu() { return &CpuDevice(); }
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(&Cpu));
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_CONFORMANCE_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"

namespace quire::worker {

class DeviceConformance : public ::testing::TestWithParam<StatusOr<Device*> (*)()> {
 protected:
  void SetUp() override {
    const StatusOr<Device*> found = GetParam()();
    if (!found.ok()) GTEST_SKIP() << found.status();
    device_ = *found;
  }
  Device& device() { return *device_; }

  std::vector<float> ToHost(const void* from, size_t count) {
    std::vector<float> host(count, -1.0f);
    EXPECT_TRUE(device().CopyToHost(host.data(), from, count * sizeof(float)).ok());
    return host;
  }
  /// y += a
  Status Accumulate(const DeviceBuffer& a, const DeviceBuffer& y, int64_t n) {
    return AccumulateOn(device().stream(), a, y, n);
  }
  Status AccumulateOn(void* stream, const DeviceBuffer& a, const DeviceBuffer& y, int64_t n) {
    return ToStatus(
        device().kernels().add(
            {.a = a.as<float>(), .b = y.as<float>(), .y = y.as<float>(), .n = n, .stream = stream}),
        "add");
  }
  static std::vector<float> Ramp(size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
  }

 private:
  Device* device_ = nullptr;
};

TEST_P(DeviceConformance, HasANameAndIsOneObject) {
  EXPECT_FALSE(device().name().empty());
  EXPECT_EQ(*GetParam()(), &device());
}

TEST_P(DeviceConformance, AllocationsAreZeroedAlignedAndOfTheSizeAskedFor) {
  for (size_t count : {1u, 15u, 16u, 4097u}) {
    auto buffer = device().Allocate(count * sizeof(float));
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->size_bytes(), count * sizeof(float));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_EQ(ToHost(buffer->data(), count), std::vector<float>(count, 0.0f));
  }
}

TEST_P(DeviceConformance, FreedMemoryComesBackZeroed) {
  for (int round = 0; round < 8; ++round) {
    auto buffer = device().Allocate(4096 * sizeof(float));
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(ToHost(buffer->data(), 4096), std::vector<float>(4096, 0.0f));
    const std::vector<float> ramp = Ramp(4096);
    ASSERT_TRUE(device().CopyToDevice(buffer->data(), ramp.data(), 4096 * sizeof(float)).ok());
  }
}

TEST_P(DeviceConformance, ZeroBytesIsAnEmptyBuffer) {
  auto buffer = device().Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_TRUE(device().CopyToHost(nullptr, buffer->data(), 0).ok());
}

TEST_P(DeviceConformance, MoreThanTheDeviceHasIsResourceExhausted) {
  for (size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 60}) {
    auto buffer = device().Allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(Message(buffer.status()).find(device().name()), std::string_view::npos);
  }
}

TEST_P(DeviceConformance, CopiesRoundTrip) {
  const std::vector<float> ramp = Ramp(1000);
  auto a = device().Allocate(1000 * sizeof(float));
  auto b = device().Allocate(1000 * sizeof(float));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(device().CopyToDevice(a->data(), ramp.data(), 1000 * sizeof(float)).ok());
  ASSERT_TRUE(device().CopyOnDevice(b->as<float>() + 1, a->as<float>(), 999 * sizeof(float)).ok());
  std::vector<float> shifted = ToHost(b->data(), 1000);
  EXPECT_EQ(shifted[0], 0.0f);
  shifted.erase(shifted.begin());
  EXPECT_EQ(shifted, std::vector<float>(ramp.begin(), ramp.end() - 1));
}

TEST_P(DeviceConformance, MovingABufferMovesItsMemory) {
  auto a = device().Allocate(64);
  ASSERT_TRUE(a.ok());
  void* const data = a->data();
  DeviceBuffer b = std::move(*a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a->data(), nullptr);  // NOLINT(bugprone-use-after-move): this is what is tested.
  DeviceBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size_bytes(), 64u);
  c = DeviceBuffer();
  EXPECT_EQ(c.data(), nullptr);
}

TEST_P(DeviceConformance, TheKernelsRunOnItsMemory) {
  ASSERT_NE(device().kernels().add, nullptr);
  const std::vector<float> ramp = Ramp(100);
  auto a = device().Allocate(100 * sizeof(float));
  auto y = device().Allocate(100 * sizeof(float));
  ASSERT_TRUE(a.ok() && y.ok());
  ASSERT_TRUE(device().CopyToDevice(a->data(), ramp.data(), 100 * sizeof(float)).ok());
  ASSERT_EQ(Accumulate(*a, *y, 100), OkStatus());
  ASSERT_EQ(Accumulate(*a, *y, 100), OkStatus());
  const std::vector<float> sums = ToHost(y->data(), 100);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(sums[i], 2 * ramp[i]);
}

TEST_P(DeviceConformance, ListsAreWhereKernelsReadThem) {
  DeviceList<float> list;
  auto y = device().Allocate(4 * sizeof(float));
  ASSERT_TRUE(y.ok());
  for (const size_t count : {4u, 2u, 3u, 4u}) {  // A list in a place that another had.
    const std::vector<float> values = Ramp(count);
    const auto there = list.Put(device(), values);
    ASSERT_TRUE(there.ok()) << there.status();
    ASSERT_EQ(ToStatus(device().kernels().add({.a = *there,
                                               .b = y->as<float>(),
                                               .y = y->as<float>(),
                                               .n = static_cast<int64_t>(count),
                                               .stream = device().stream()}),
                       "add"),
              OkStatus());
  }
  EXPECT_EQ(ToHost(y->data(), 4), (std::vector<float>{4, 8, 9, 8}));
}

TEST_P(DeviceConformance, StreamsThatAreHeldFollowEachOther) {
  constexpr size_t kCount = 1000;
  auto a = device().Allocate(kCount * sizeof(float));
  auto y = device().Allocate(kCount * sizeof(float));
  auto pinned = device().AllocatePinned(kCount * sizeof(float));
  auto computed = device().MakeEvent(), copied = device().MakeEvent();
  auto converted = device().MakeEvent();
  ASSERT_TRUE(a.ok() && y.ok() && pinned.ok() && computed.ok() && copied.ok() && converted.ok());
  ASSERT_EQ(reinterpret_cast<uintptr_t>(pinned->get()) % 64, 0u);
  float expected = 0;
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    ASSERT_EQ((*converted)->Await(), OkStatus());  // The pinned bytes have been read.
    std::fill_n(reinterpret_cast<float*>(pinned->get()), kCount, value);
    ASSERT_EQ((*computed)->Record(DeviceStream::kCompute), OkStatus());
    ASSERT_EQ((*computed)->Hold(DeviceStream::kCopy), OkStatus());
    ASSERT_EQ(
        device().CopyPinned(DeviceStream::kCopy, a->data(), pinned->get(), kCount * sizeof(float)),
        OkStatus());
    ASSERT_EQ((*copied)->Record(DeviceStream::kCopy), OkStatus());
    ASSERT_EQ((*copied)->Hold(DeviceStream::kConvert), OkStatus());
    ASSERT_EQ(AccumulateOn(device().convert_stream(), *a, *y, kCount), OkStatus());
    ASSERT_EQ((*converted)->Record(DeviceStream::kConvert), OkStatus());
    ASSERT_EQ((*converted)->Hold(DeviceStream::kCompute), OkStatus());
    ASSERT_EQ(Accumulate(*a, *y, kCount), OkStatus());
    expected += 2 * value;
  }
  EXPECT_EQ(ToHost(y->data(), kCount), std::vector<float>(kCount, expected));
}

TEST_P(DeviceConformance, WhatWasCopiedToPinnedMemoryIsThereOnceAnEventBehindItIsPassed) {
  constexpr size_t kCount = 1000;
  const std::vector<float> ramp = Ramp(kCount);
  auto a = device().Allocate(kCount * sizeof(float));
  auto y = device().Allocate(kCount * sizeof(float));
  auto pinned = device().AllocatePinned(kCount * sizeof(float));
  auto copied = device().MakeEvent();
  ASSERT_TRUE(a.ok() && y.ok() && pinned.ok() && copied.ok());
  ASSERT_TRUE(device().CopyToDevice(a->data(), ramp.data(), kCount * sizeof(float)).ok());
  ASSERT_EQ(Accumulate(*a, *y, kCount), OkStatus());
  ASSERT_EQ(device().CopyToPinned(pinned->get(), y->data(), kCount * sizeof(float)), OkStatus());
  ASSERT_EQ((*copied)->Record(DeviceStream::kCompute), OkStatus());
  ASSERT_EQ(Accumulate(*a, *y, kCount), OkStatus());  // Later work is not in the copy.
  ASSERT_EQ((*copied)->Await(), OkStatus());
  const auto* const there = reinterpret_cast<const float*>(pinned->get());
  EXPECT_EQ(std::vector<float>(there, there + kCount), ramp);
}

TEST_P(DeviceConformance, AnEventIsPassedUntilItIsRecorded) {
  auto event = device().MakeEvent();
  ASSERT_TRUE(event.ok()) << event.status();
  for (const DeviceStream stream :
       {DeviceStream::kCompute, DeviceStream::kCopy, DeviceStream::kConvert}) {
    EXPECT_EQ((*event)->Hold(stream), OkStatus());
  }
  EXPECT_EQ((*event)->Await(), OkStatus());
  EXPECT_EQ(device().Synchronize(), OkStatus());
}

TEST_P(DeviceConformance, AHoldThatIsTimedHoldsAndCountsOnce) {
  constexpr size_t kCount = 1000;
  const std::vector<float> ramp = Ramp(kCount);
  auto a = device().Allocate(kCount * sizeof(float));
  auto y = device().Allocate(kCount * sizeof(float));
  auto computed = device().MakeEvent(), converted = device().MakeEvent();
  ASSERT_TRUE(a.ok() && y.ok() && computed.ok() && converted.ok());
  ASSERT_TRUE(device().CopyToDevice(a->data(), ramp.data(), kCount * sizeof(float)).ok());
  const std::unique_ptr<HoldTimer> timer = device().MakeHoldTimer();
  Duration held = {};
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ((*computed)->Record(DeviceStream::kCompute), OkStatus());
    ASSERT_EQ(timer->Hold(**computed, DeviceStream::kConvert), OkStatus());
    ASSERT_EQ(AccumulateOn(device().convert_stream(), *a, *y, kCount), OkStatus());
    ASSERT_EQ((*converted)->Record(DeviceStream::kConvert), OkStatus());
    ASSERT_EQ(timer->Hold(**converted, DeviceStream::kCompute), OkStatus());
    ASSERT_EQ(Accumulate(*a, *y, kCount), OkStatus());
    const auto so_far = timer->Take();
    ASSERT_TRUE(so_far.ok()) << so_far.status();
    EXPECT_GE(*so_far, Duration::zero());
    held += *so_far;
    std::vector<float> expected = ramp;
    for (float& value : expected) value *= static_cast<float>(2 * round);
    EXPECT_EQ(ToHost(y->data(), kCount), expected);
  }
  const auto rest = timer->Take();  // Everything has ended.
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_LT(held + *rest, std::chrono::minutes(1));
  EXPECT_EQ(*timer->Take(), Duration::zero());
}

TEST_P(DeviceConformance, RecordedWorkRunsAtEveryLaunchAndOnlyThen) {
  const std::vector<float> ones(8, 1.0f);
  auto a = device().Allocate(8 * sizeof(float));
  auto y = device().Allocate(8 * sizeof(float));
  ASSERT_TRUE(a.ok() && y.ok());
  ASSERT_TRUE(device().CopyToDevice(a->data(), ones.data(), 8 * sizeof(float)).ok());
  auto graph = device().Record([&] {
    QUIRE_RETURN_IF_ERROR(Accumulate(*a, *y, 8));
    return Accumulate(*a, *y, 8);
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToHost(y->data(), 8), std::vector<float>(8, 0.0f));
  if (*graph == nullptr) GTEST_SKIP() << "device " << device().name() << " does not record";
  for (int launch = 1; launch <= 3; ++launch) {
    ASSERT_EQ((*graph)->Launch(), OkStatus());
    EXPECT_EQ(ToHost(y->data(), 8), std::vector<float>(8, 2.0f * static_cast<float>(launch)));
  }
}

TEST_P(DeviceConformance, AFailedRecordingIsAnErrorAndTheNextOneWorks) {
  auto a = device().Allocate(8 * sizeof(float));
  ASSERT_TRUE(a.ok());
  const auto nothing = device().Record([] { return OkStatus(); });
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  if (*nothing == nullptr) GTEST_SKIP() << "device " << device().name() << " does not record";
  const auto failed = device().Record([] { return DataLoss("this work"); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(device().Record([&] { return Accumulate(*a, *a, 8); }).ok());
}

TEST_P(DeviceConformance, OtherThreadsWorkWhileOneRecords) {
  auto a = device().Allocate(8 * sizeof(float));
  auto y = device().Allocate(8 * sizeof(float));
  ASSERT_TRUE(a.ok() && y.ok());
  const std::vector<float> ones(8, 1.0f);
  ASSERT_TRUE(device().CopyToDevice(a->data(), ones.data(), 8 * sizeof(float)).ok());
  const auto graph = device().Record([&] {
    std::thread([&] { EXPECT_EQ(Accumulate(*a, *y, 8), OkStatus()); }).join();
    return Accumulate(*a, *y, 8);
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  if (*graph == nullptr) GTEST_SKIP() << "device " << device().name() << " does not record";
  EXPECT_EQ(ToHost(y->data(), 8), ones);  // The other thread's ran; this one's is in the graph.
}

TEST_P(DeviceConformance, AllocatesFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(device().Allocate(1 + 100 * i).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_CONFORMANCE_H_
