// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/recorded_work.h"

#include <gtest/gtest.h>

#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;
using testing::FakeCudaLibrary;

/// y += 1 on a device, and how often the host did anything for it.
class Counter {
 public:
  explicit Counter(Device& device, size_t most = 8)
      : device_(device), work_(&device, most), one_(*device.Allocate(4)), y_(*device.Allocate(4)) {
    const float one = 1.0f;
    EXPECT_EQ(device.CopyToDevice(one_.data(), &one, 4), OkStatus());
  }
  Status Run(uint64_t key) {
    return work_.Run(key, [this] { return Add(); });
  }
  /// With something else in place of the work, the first time.
  Status RunWithFirst(uint64_t key) {
    return work_.Run(
        key, [this] { return Add(); },
        [this] {
          ++firsts_;
          return Add();
        });
  }
  void Clear() { work_.Clear(); }
  float value() {
    float value = -1;
    EXPECT_EQ(device_.CopyToHost(&value, y_.data(), 4), OkStatus());
    return value;
  }
  int calls() const { return calls_; }
  int firsts() const { return firsts_; }
  void set_fails(bool fails) { fails_ = fails; }

 private:
  Status Add() {
    ++calls_;
    if (fails_) return DataLoss("this work");
    return ToStatus(device_.kernels().add({.a = one_.as<float>(),
                                           .b = y_.as<float>(),
                                           .y = y_.as<float>(),
                                           .n = 1,
                                           .stream = device_.stream()}),
                    "add");
  }

  Device& device_;
  RecordedWork<uint64_t> work_;
  DeviceBuffer one_, y_;
  int calls_ = 0;
  int firsts_ = 0;
  bool fails_ = false;
};

TEST(RecordedWorkTest, OnADeviceThatDoesNotRecordItRunsAsItIs) {
  Counter counter(CpuDevice());
  for (int run = 1; run <= 4; ++run) {
    ASSERT_EQ(counter.Run(7), OkStatus());
    EXPECT_EQ(counter.value(), static_cast<float>(run));
    EXPECT_EQ(counter.calls(), run);
  }
}

TEST(RecordedWorkTest, FromTheSecondRunOnItIsALaunch) {
  Counter counter(FakeCudaDevice());
  const int64_t before = FakeCudaLaunches();
  for (int run = 1; run <= 5; ++run) {
    ASSERT_EQ(counter.Run(7), OkStatus());
    EXPECT_EQ(counter.value(), static_cast<float>(run));
    EXPECT_EQ(FakeCudaLaunches() - before, run - 1);
  }
  EXPECT_EQ(counter.calls(), 2);  // Once to run, once to be recorded.
  ASSERT_EQ(counter.Run(8), OkStatus());
  EXPECT_EQ(counter.calls(), 3);  // Another stretch.
}

TEST(RecordedWorkTest, WhatRunsInPlaceOfTheFirstRunIsNotRecorded) {
  for (Device* const device : {&CpuDevice(), &FakeCudaDevice()}) {
    Counter counter(*device);
    for (int run = 1; run <= 4; ++run) {
      ASSERT_EQ(counter.RunWithFirst(7), OkStatus());
      EXPECT_EQ(counter.value(), static_cast<float>(run));
      EXPECT_EQ(counter.firsts(), 1);
    }
  }
}

TEST(RecordedWorkTest, TheStretchesThatRanLastAreKept) {
  Counter counter(FakeCudaDevice(), /*most=*/2);
  const auto calls_of = [&](uint64_t key) {
    const int before = counter.calls();
    EXPECT_EQ(counter.Run(key), OkStatus());
    return counter.calls() - before;
  };
  for (const uint64_t key : {1, 2, 1, 2}) EXPECT_EQ(calls_of(key), 1);
  EXPECT_EQ(calls_of(1), 0);
  EXPECT_EQ(calls_of(3), 1);  // In the place of 2.
  EXPECT_EQ(calls_of(1), 0);
  for (const int expected : {1, 1, 0}) EXPECT_EQ(calls_of(2), expected);  // In that of 3.
  counter.Clear();
  for (const int expected : {1, 1, 0}) EXPECT_EQ(calls_of(1), expected);
}

int captures = 0;

kernels::CudaLibrary WithoutABegin() {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.begin_capture = [](void*) -> const char* {
    ++captures;
    return "operation not permitted";
  };
  return library;
}

kernels::CudaLibrary WithoutAnEnd() {
  kernels::CudaLibrary library = FakeCudaLibrary();
  library.end_capture = [](void* recorder, void** graph) -> const char* {
    ++captures;
    (void)FakeCudaLibrary().end_capture(recorder, graph);
    FakeCudaLibrary().free_graph(*graph);
    *graph = nullptr;
    return "operation failed due to a previous error during capture";
  };
  return library;
}

TEST(RecordedWorkTest, WhatCannotBeRecordedRunsAsTheFirstTimeAndIsNotTriedAgain) {
  for (const kernels::CudaLibrary& library : {WithoutABegin(), WithoutAnEnd()}) {
    const auto device = MakeCudaDevice(library);
    ASSERT_TRUE(device.ok());
    Counter counter(**device);
    captures = 0;
    const int64_t before = FakeCudaLaunches();
    for (int run = 1; run <= 4; ++run) {
      ASSERT_EQ(counter.RunWithFirst(7), OkStatus());
      EXPECT_EQ(counter.value(), static_cast<float>(run));
      EXPECT_EQ(counter.firsts(), run);
      EXPECT_EQ(captures, run == 1 ? 0 : 1);
    }
    counter.set_fails(true);
    EXPECT_EQ(counter.Run(7).code(), StatusCode::kDataLoss);
    counter.set_fails(false);
    for (int run = 0; run < 2; ++run) ASSERT_EQ(counter.Run(7), OkStatus());
    EXPECT_EQ(counter.value(), 6);
    EXPECT_EQ(captures, 2);  // The error has made it a new stretch.
    EXPECT_EQ(FakeCudaLaunches(), before);
  }
}

TEST(RecordedWorkTest, AnErrorForgetsTheStretch) {
  for (const int runs_before : {0, 1}) {
    Counter counter(FakeCudaDevice());
    for (int run = 0; run < runs_before; ++run) ASSERT_EQ(counter.Run(1), OkStatus());
    counter.set_fails(true);
    EXPECT_EQ(counter.Run(1).code(), StatusCode::kDataLoss);
    counter.set_fails(false);
    for (int run = 0; run < 3; ++run) ASSERT_EQ(counter.Run(1), OkStatus());
    EXPECT_EQ(counter.value(), static_cast<float>(runs_before + 3));
  }
}

}  // namespace
}  // namespace quire::worker
