// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/joint_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpuworker/testing/fake_cuda_device.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using testing::FakeCudaDevice;
using testing::FakeCudaHostWaits;
using testing::FakeCudaStream;
using testing::LateStreams;

constexpr int64_t kDim = 2;

/// An array of the device.
class Floats {
 public:
  explicit Floats(const std::vector<float>& values)
      : memory_(*FakeCudaDevice().Allocate(values.size() * sizeof(float))) {
    EXPECT_EQ(FakeCudaDevice().CopyToDevice(memory_.data(), values.data(), memory_.size_bytes()),
              OkStatus());
  }
  float* at(size_t element = 0) const { return memory_.as<float>() + element; }
  std::vector<float> Read() const {
    std::vector<float> values(memory_.size_bytes() / sizeof(float));
    EXPECT_EQ(FakeCudaDevice().CopyToHost(values.data(), memory_.data(), memory_.size_bytes()),
              OkStatus());
    return values;
  }

 private:
  DeviceBuffer memory_;
};

class JointWorkTest : public ::testing::Test {
 protected:
  JointWork::Ticket Compare(const Floats& now, const float* before_first,
                            const float* before_second) {
    const std::vector<kernels::HeadQueries> heads = {
        {.now = now.at(0), .before = before_first, .tau = 0.5f},
        {.now = now.at(kDim), .before = before_second, .tau = 0.5f}};
    return work_.Compare({.n_q = 2, .n_kv = 2, .head_dim = kDim}, heads);
  }

  JointWork work_{&FakeCudaDevice()};
  const LateStreams late_{{FakeCudaStream::kCompute}};
};

TEST_F(JointWorkTest, EachIsToldItsOwnAndAllWaitOnce) {
  const Floats same({1, 0, 0, 1}), turned({0, 1, 0, 1});
  const JointWork::Ticket first = Compare(same, same.at(), nullptr);
  const JointWork::Ticket second = Compare(turned, same.at(), same.at(kDim));
  const Floats scores({3, 1, 2, 5, 9, 7});  // Two rows of three pages.
  const JointWork::Ticket third = work_.TopK(1, {.scores = scores.at(), .n_pages = 3, .k = 2});
  const JointWork::Ticket fourth =
      work_.TopK(1, {.scores = scores.at(3), .n_pages = 3, .k = 1, .index_offset = 10});
  EXPECT_FALSE(work_.Has(first));
  ASSERT_EQ(work_.Launch(), OkStatus());
  const int64_t waits = FakeCudaHostWaits();
  EXPECT_THAT(*work_.Turned(first), ElementsAre(false, true));
  EXPECT_THAT(*work_.Turned(second), ElementsAre(true, false));
  const int32_t* const two = *work_.Found(third);
  EXPECT_THAT(std::vector<int32_t>(two, two + 3), ElementsAre(0, 2, 0));  // And no NaN.
  EXPECT_EQ((*work_.Found(fourth))[0], 11);
  EXPECT_EQ(FakeCudaHostWaits(), waits + 1);
}

TEST_F(JointWorkTest, WhatWasFoundEndsWithTheNextLaunch) {
  const Floats same({1, 0, 0, 1});
  const JointWork::Ticket ticket = Compare(same, same.at(), same.at(kDim));
  ASSERT_EQ(work_.Launch(), OkStatus());
  EXPECT_TRUE(work_.Has(ticket));
  ASSERT_EQ(work_.Launch(), OkStatus());
  EXPECT_FALSE(work_.Has(ticket));
  EXPECT_FALSE(work_.Has({}));
}

// The query that is kept takes the place of one that is compared with.
TEST_F(JointWorkTest, RowsAreWrittenAfterTheyWereCompared) {
  const Floats held({1, 0, 0, 1}), now({0, 1, 1, 0});
  const JointWork::Ticket ticket = Compare(now, held.at(), held.at(kDim));
  work_.Narrow(2 * kDim, DType::kF32, {.from = now.at(), .to = held.at()});
  ASSERT_EQ(work_.Launch(), OkStatus());
  EXPECT_THAT(*work_.Turned(ticket), ElementsAre(true, true));
  EXPECT_THAT(held.Read(), ElementsAre(0, 1, 1, 0));
}

}  // namespace
}  // namespace quire::worker
