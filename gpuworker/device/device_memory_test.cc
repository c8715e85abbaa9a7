// SPDX-License-Identifier: Apache-2.0
//
// The memory of a CUDA device, behind its access: one that this process cannot touch, and a GPU's
// where there is one.
#include "gpuworker/device/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/device/cuda_device.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "transport/landing_memory.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes Random(size_t bytes, uint64_t seed) {
  SeededRandom random(seed);
  Bytes out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.Next());
  return out;
}

StatusOr<Device*> FakeCuda() { return &testing::FakeCudaDevice(); }

class DeviceMemoryTest : public ::testing::TestWithParam<StatusOr<Device*> (*)()> {
 protected:
  void SetUp() override {
    const StatusOr<Device*> found = GetParam()();
    if (!found.ok()) GTEST_SKIP() << found.status();
    device_ = *found;
    auto access = MakeMemoryAccess(device_);
    ASSERT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
    auto buffer = device_->Allocate(kBytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
  }
  std::span<std::byte> memory() const { return {buffer_.as<std::byte>(), kBytes}; }

  static constexpr size_t kBytes = size_t{5} << 20;
  Device* device_ = nullptr;
  std::unique_ptr<MemoryAccess> access_;
  DeviceBuffer buffer_;
};

INSTANTIATE_TEST_SUITE_P(Fake, DeviceMemoryTest, ::testing::Values(&FakeCuda));
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceMemoryTest, ::testing::Values(&CudaDevice));

TEST_P(DeviceMemoryTest, ItSaysWhoseMemoryItIs) { EXPECT_EQ(access_->type(), MemoryType::kCuda); }

TEST_P(DeviceMemoryTest, UnitsGoToTheirPlacesAndComeBackInTheOrderAsked) {
  constexpr size_t kUnit = 16384, kUnits = 100;
  std::vector<Bytes> units;
  std::vector<CopyIn> copies;
  std::vector<std::span<const std::byte>> pieces;
  Bytes expected;
  for (size_t i = 0; i < kUnits; ++i) {
    std::byte* const place = memory().data() + (i * 37 + 5) % kUnits * 3 * kUnit;
    units.push_back(Random(kUnit, i));
    copies.push_back({units.back(), place});
    pieces.emplace_back(place, kUnit);
    expected.insert(expected.end(), units.back().begin(), units.back().end());
  }
  ASSERT_EQ(access_->CopyTo(copies), OkStatus());
  Bytes back(kUnits * kUnit);  // More than is gathered at a time.
  ASSERT_EQ(access_->CopyFrom(pieces, back), OkStatus());
  EXPECT_EQ(back, expected);
}

TEST_P(DeviceMemoryTest, PiecesOfEverySizeComeBack) {
  const Bytes all = Random(kBytes, 7);
  const CopyIn copy{all, memory().data()};
  ASSERT_EQ(access_->CopyTo({&copy, 1}), OkStatus());
  std::vector<std::span<const std::byte>> pieces;
  Bytes expected;
  size_t at = 1;
  for (const size_t bytes : {size_t{1}, size_t{0}, size_t{1 << 20}, size_t{3}, size_t{2500001}}) {
    pieces.emplace_back(memory().data() + at, bytes);
    expected.insert(expected.end(), all.begin() + static_cast<ptrdiff_t>(at),
                    all.begin() + static_cast<ptrdiff_t>(at + bytes));
    at += bytes + 11;
  }
  Bytes back(expected.size());
  ASSERT_EQ(access_->CopyFrom(pieces, back), OkStatus());
  EXPECT_EQ(back, expected);
}

TEST_P(DeviceMemoryTest, SeveralThreadsUseItAtOnce) {
  constexpr size_t kPart = size_t{1} << 20;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; round < 5; ++round) {
        const Bytes bytes = Random(kPart, 10 * t + round);
        const CopyIn copy{bytes, memory().data() + t * kPart};
        EXPECT_EQ(access_->CopyTo({&copy, 1}), OkStatus());
        const std::span<const std::byte> piece(copy.to, kPart);
        Bytes back(kPart);
        EXPECT_EQ(access_->CopyFrom({&piece, 1}, back), OkStatus());
        EXPECT_EQ(back, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MakeMemoryAccessTest, MemoryThatTheProcessorReadsNeedsNone) {
  const auto access = MakeMemoryAccess(&CpuDevice());
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(*access, nullptr);
  EXPECT_TRUE(LandingMemory(std::span<std::byte>(), access->get()).is_host());
}

TEST(MakeMemoryAccessTest, ADriverThatFailsIsAnErrorWithItsWords) {
  kernels::CudaLibrary library = testing::FakeCudaLibrary();
  library.copy = [](void*, kernels::CopyDirection, void*, const void*, size_t) -> const char* {
    return "an illegal memory access was encountered";
  };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok());
  const auto access = MakeMemoryAccess(device->get());
  ASSERT_TRUE(access.ok()) << access.status();
  const auto memory = (*device)->Allocate(64);
  ASSERT_TRUE(memory.ok());
  Bytes bytes(64);
  const CopyIn copy{bytes, memory->as<std::byte>()};
  const std::span<const std::byte> piece(memory->as<std::byte>(), 64);
  for (const Status& failed :
       {(*access)->CopyTo({&copy, 1}), (*access)->CopyFrom({&piece, 1}, bytes)}) {
    EXPECT_EQ(failed.code(), StatusCode::kInternal);
    EXPECT_THAT(std::string(Message(failed)), HasSubstr("illegal memory access"));
  }
}

TEST(MakeMemoryAccessTest, ADeviceWithoutRoomIsResourceExhausted) {
  kernels::CudaLibrary library = testing::FakeCudaLibrary();
  library.allocate = [](void*, size_t, void**) -> const char* { return "out of memory"; };
  const auto device = MakeCudaDevice(library);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(MakeMemoryAccess(device->get()).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire::worker
