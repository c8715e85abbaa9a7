// SPDX-License-Identifier: Apache-2.0
//
// The engine on devices other than the CPU: one whose memory the host cannot access, a GPU, and one
// with too little memory. Without a GPU its tests are skipped with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/device_answer.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/fake_cuda_device.h"
#include "gpuworker/testing/limited_device.h"

namespace quire::worker {
namespace {

using quire::testing::TempDir;
using quire::testing::TinyModel;
using testing::AskDevice;
using testing::DeviceAnswer;
using testing::EngineFixture;
using testing::ExpectSameAnswer;
using testing::FakeCudaDevice;
using testing::FakeCudaLaunches;
using testing::FakeCudaStream;
using ::testing::HasSubstr;
using testing::LateStreams;
using testing::LimitedDevice;

using testing::RandomTokens;

class EngineDeviceTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EngineDeviceTest, ADeviceWithMemoryOfItsOwnAnswersAsTheCpuDoes) {
  const DeviceAnswer expected = AskDevice(&CpuDevice(), GetParam());
  const int64_t before = FakeCudaLaunches();
  const DeviceAnswer answer = AskDevice(&FakeCudaDevice(), GetParam());
  EXPECT_GT(FakeCudaLaunches(), before);  // Steps were replayed.
  EXPECT_EQ(answer.logits, expected.logits);
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.stats.moved.units, expected.stats.moved.units);
  EXPECT_EQ(answer.stats.reopened, 0u);
  EXPECT_EQ(expected.stats.seconds_stalled, 0);  // No stream is late, and no recall.
  EXPECT_EQ(answer.stats.seconds_stalled, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineDeviceTest, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

// A stream that is behind changes nothing but when things happen.
TEST(LateStreamsTest, WhatIsLateIsWaitedFor) {
  for (const std::string_view policy : {"freekv", "quest", "shadowkv", "streaming", "full"}) {
    const DeviceAnswer expected = AskDevice(&CpuDevice(), policy);
    for (const auto stream :
         {FakeCudaStream::kCompute, FakeCudaStream::kCopy, FakeCudaStream::kConvert}) {
      const LateStreams late({stream});
      const DeviceAnswer answer = AskDevice(&FakeCudaDevice(), policy);
      EXPECT_EQ(answer.logits, expected.logits) << policy << " " << static_cast<int>(stream);
      EXPECT_EQ(answer.tokens, expected.tokens);
      EXPECT_EQ(answer.stats.reopened, 0u);
      if (stream != FakeCudaStream::kCompute) {  // Attention waits for what recalls bring there.
        EXPECT_EQ(answer.stats.seconds_stalled > 0, answer.stats.units_missed > 0) << policy;
      }
    }
  }
}

// A copy that follows a copy ran before the conversion of what the first one brought.
TEST(LateStreamsTest, CopiesRunBesideConversionsWithTwoRecallBuffersOnly) {
  const DeviceAnswer expected = AskDevice(&CpuDevice(), "quest");
  for (const uint32_t buffers : {1u, 2u}) {
    const LateStreams late({FakeCudaStream::kConvert});
    const DeviceAnswer answer = AskDevice(&FakeCudaDevice(), "quest", {.recall_buffers = buffers});
    EXPECT_EQ(answer.logits, expected.logits);
    EXPECT_EQ(answer.tokens, expected.tokens);
    std::vector<FakeCudaStream> order = late.RunOrder();
    std::erase(order, FakeCudaStream::kCompute);
    ASSERT_FALSE(order.empty());
    const auto beside = std::ranges::adjacent_find(order, [](auto one, auto next) {
      return one == FakeCudaStream::kCopy && next == FakeCudaStream::kCopy;
    });
    EXPECT_EQ(beside != order.end(), buffers == 2);
  }
}

class EngineGpuTest : public ::testing::TestWithParam<std::string_view> {};

// Its kernels sum in another order than those of the CPU.
TEST_P(EngineGpuTest, AGpuAnswersAsTheCpuDoes) {
  const StatusOr<Device*> gpu = CudaDevice();
  if (!gpu.ok()) GTEST_SKIP() << gpu.status();
  const DeviceAnswer expected = AskDevice(&CpuDevice(), GetParam());
  const DeviceAnswer answer = AskDevice(*gpu, GetParam());
  ExpectSameAnswer(answer, expected, 1e-3f);
  // The host's time stands still here: what counts is what the device has measured.
  EXPECT_EQ(answer.stats.seconds_stalled > 0, answer.stats.units_missed > 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineGpuTest, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

void ExpectOutOfMemory(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(IsOutOfDeviceMemory(status));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("device limited has no "));
  EXPECT_THAT(std::string(Message(status)), HasSubstr(" bytes free"));
}

TEST(OutOfDeviceMemoryTest, AModelThatDoesNotFitIsRefusedAndLeavesNothing) {
  TempDir directory;
  quire::testing::WriteTinyModel(directory.path(), TinyModel{});
  LimitedDevice device;
  size_t whole = 0;
  {
    const auto decoder = Decoder::Load(directory.path(), &device);
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    whole = device.used();
  }
  for (const size_t limit : {size_t{0}, whole / 2, whole - 1}) {
    device.set_limit(limit);
    ExpectOutOfMemory(Decoder::Load(directory.path(), &device).status());
    EXPECT_EQ(device.used(), 0u);
  }
  device.set_limit(whole);
  EXPECT_TRUE(Decoder::Load(directory.path(), &device).ok());
}

class LimitedEngineTest : public ::testing::Test {
 protected:
  explicit LimitedEngineTest(const EngineOptions& options = EngineFixture::Small())
      : fixture_(TinyModel{}, options, &device_) {
    fixture_.Ingest(document_);
  }

  StatusOr<std::unique_ptr<Sequence>> TryOpen() {
    return fixture_.engine().OpenSequence(DocumentName{.name = "doc"});
  }
  void ExpectNothingOpen() {
    EXPECT_EQ(fixture_.store().open_contexts(), 0u);
    EXPECT_EQ(fixture_.store().open_sessions(), 0u);
  }

  LimitedDevice device_;
  EngineFixture fixture_;
  const std::vector<TokenId> document_ = RandomTokens(61, 3);
  const std::vector<TokenId> question_ = RandomTokens(20, 4);
};

TEST_F(LimitedEngineTest, ASequenceThatDoesNotFitIsRefusedAndNothingStaysOpen) {
  const size_t before = device_.used();
  size_t opened = 0;
  {
    const auto sequence = TryOpen();
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    opened = device_.used();
  }
  ASSERT_EQ(device_.used(), before);
  ASSERT_GT(opened, before);
  for (size_t limit = before; limit < opened; limit += (opened - before) / 7 + 1) {
    device_.set_limit(limit);
    ExpectOutOfMemory(TryOpen().status());
    EXPECT_EQ(device_.used(), before);
    ExpectNothingOpen();
  }
}

TEST_F(LimitedEngineTest, MemoryThatEndsInTheMiddleEndsTheSequenceAndNothingElse) {
  std::vector<float> expected;
  {
    const auto undisturbed = fixture_.Open();
    ASSERT_EQ(undisturbed->Append(question_), OkStatus());
    expected.assign(undisturbed->logits().begin(), undisturbed->logits().end());
  }
  const size_t before = device_.used();
  {
    const auto sequence = fixture_.Open();
    device_.set_limit(device_.used());
    ExpectOutOfMemory(sequence->Append(question_));
    EXPECT_EQ(sequence->stats().reopened, 0u);  // The server lost nothing.
    ExpectOutOfMemory(sequence->Append(question_));
  }
  EXPECT_EQ(device_.used(), before);
  ExpectNothingOpen();
  device_.set_limit(std::numeric_limits<size_t>::max());
  const auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(question_), OkStatus());
  EXPECT_EQ(std::vector<float>(sequence->logits().begin(), sequence->logits().end()), expected);
}

EngineOptions WithChunksOf(uint32_t tokens) {
  EngineOptions options = EngineFixture::Small();
  options.question_chunk_tokens = tokens;
  return options;
}

class LimitedChunkTest : public LimitedEngineTest {
 protected:
  LimitedChunkTest() : LimitedEngineTest(WithChunksOf(20)) {}

  /// Selections of a sequence that took the question; none when the device had too little for it.
  std::optional<uint64_t> SelectionsWithin(size_t more_bytes) {
    device_.set_limit(std::numeric_limits<size_t>::max());
    const auto sequence = fixture_.Open();
    if (more_bytes > 0) device_.set_limit(device_.used() + more_bytes);
    if (!sequence->Append(question_).ok()) return std::nullopt;
    return sequence->stats().selections;
  }
};

TEST_F(LimitedChunkTest, ALongQuestionRunsAsStepsWhereTheDocumentHasNoRoom) {
  EXPECT_EQ(SelectionsWithin(0), 0u);
  std::optional<uint64_t> selections;
  for (size_t more = 1024; !selections; more += 1024) {
    ASSERT_LT(more, size_t{1} << 20);
    selections = SelectionsWithin(more);
  }
  EXPECT_GT(*selections, 0u) << "with the least memory that will do";
  ExpectNothingOpen();
}

}  // namespace
}  // namespace quire::worker
