// SPDX-License-Identifier: Apache-2.0
//
// Reads and puts that start after another change of their segment was committed, and before it has
// ended. They find the segment as it was before or as it is after.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/testing/faulty_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

/// Runs a function in a thread of its own right after the next commit. The commit's thread goes on
/// when the function has returned, or after a while.
class AfterCommit final : public FaultPoints {
 public:
  void Arm(std::function<void()> function) { function_ = std::move(function); }
  void Wait() { running_.get(); }
  void Reached(FaultPoint point) override {
    if (point != FaultPoint::kCommitted || !function_) return;
    running_ = std::async(std::launch::async, std::exchange(function_, nullptr));
    (void)running_.wait_for(std::chrono::milliseconds(100));
  }

 private:
  std::function<void()> function_;
  std::future<void> running_;
};

class PageStoreOverlapTest : public FaultyStoreTest {
 protected:
  PageStoreOverlapTest() {
    options_.promote_after_touches = 1000;  // Reads go to SSD.
    points_ = &after_commit_;
  }
  /// A stored segment whose record is in memory and whose payload is not.
  TestSegment Stored(uint64_t seed) {
    auto segment = PutTestSegment(*store_, spec_, seed);
    EXPECT_TRUE(segment.ok()) << segment.status();
    Open();
    EXPECT_TRUE(IsStored(seed));
    return *std::move(segment);
  }
  Status Read(const TestSegment& segment) { return ReadSegment(*store_, spec_, segment).status(); }
  Status ReadDigests(const TestSegment& segment) {
    return store_->ReadDigests("default", segment.key, 0).status();
  }
  StatusOr<PutSegmentResult> PutBytes(const TestSegment& segment,
                                      const std::vector<std::byte>& payload) {
    PutSegmentArgs args;
    args.spec = &spec_;
    args.tokens = segment.tokens;
    args.payload = payload;
    return store_->PutSegment("default", args);
  }

  AfterCommit after_commit_;
};

TEST_F(PageStoreOverlapTest, Promise8ASegmentThatIsBeingRemovedIsNotFoundAndNotHalf) {
  for (const bool of_digests : {false, true}) {
    const TestSegment segment = Stored(1);
    Status read, tokens;
    after_commit_.Arm([&] {
      read = of_digests ? ReadDigests(segment) : Read(segment);
      tokens = store_->Tokens("default", segment.key).status();
    });
    ASSERT_EQ(store_->DeleteSegment("default", segment.key), OkStatus());
    after_commit_.Wait();
    EXPECT_EQ(read.code(), StatusCode::kNotFound) << read;
    EXPECT_EQ(tokens.code(), StatusCode::kNotFound) << "a read that failed so found it gone";
    EXPECT_EQ(Count("segments_damaged"), 0u);
    EXPECT_EQ(Count("degraded{reason=\"data_damaged\"}"), 0u);
  }
}

// Promise 1: a put replaces a damaged segment. A read of the old bytes that fails meanwhile does
// not mark the new ones as damaged.
TEST_F(PageStoreOverlapTest, Promise1ASegmentThatIsBeingReplacedIsReadAnew) {
  engine_.Inject(IoRequest::Kind::kWrite, IoFault::kTornWrite);
  const TestSegment segment = Stored(1);
  ASSERT_EQ(Read(segment).code(), StatusCode::kDataLoss);
  const auto other = MakePayload(spec_, segment.tokens.size(), /*seed=*/2);
  StatusOr<std::vector<std::byte>> read = Internal("not read");
  uint64_t written_as = 0;
  after_commit_.Arm([&] {
    written_as = store_->WrittenAs({{segment.key}}).front();
    read = ReadSegment(*store_, spec_, segment);
  });
  ASSERT_TRUE(PutBytes(segment, other).ok());
  after_commit_.Wait();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, other);
  EXPECT_NE(store_->WrittenAs({{segment.key}}).front(), written_as) << "old bytes were there then";
  EXPECT_EQ(Count("segments_damaged"), 0u);
}

TEST_F(PageStoreOverlapTest, ASegmentThatIsBeingRemovedCannotBeContinued) {
  const TestSegment parent = Stored(1);
  Status put;
  after_commit_.Arm([&] { put = PutTestSegment(*store_, spec_, 2, parent.key).status(); });
  ASSERT_EQ(store_->DeleteSegment("default", parent.key), OkStatus());
  after_commit_.Wait();
  EXPECT_EQ(put.code(), StatusCode::kNotFound) << put;
  EXPECT_EQ(Count("segments"), 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
