// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/recorded_work.h"

#include <gtest/gtest.h>

#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;

/// y += 1 on a device, and how often the host did anything for it.
class Counter {
 public:
  explicit Counter(Device& device)
      : device_(device), work_(&device), one_(*device.Allocate(4)), y_(*device.Allocate(4)) {
    const float one = 1.0f;
    EXPECT_EQ(device.CopyToDevice(one_.data(), &one, 4), OkStatus());
  }
  Status Run(uint64_t key) {
    return work_.Run(key, [this] {
      ++calls_;
      if (fails_) return DataLoss("this work");
      return ToStatus(device_.kernels().add({.a = one_.as<float>(),
                                             .b = y_.as<float>(),
                                             .y = y_.as<float>(),
                                             .n = 1,
                                             .stream = device_.stream()}),
                      "add");
    });
  }
  float value() {
    float value = -1;
    EXPECT_EQ(device_.CopyToHost(&value, y_.data(), 4), OkStatus());
    return value;
  }
  int calls() const { return calls_; }
  void set_fails(bool fails) { fails_ = fails; }

 private:
  Device& device_;
  RecordedWork work_;
  DeviceBuffer one_, y_;
  int calls_ = 0;
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
