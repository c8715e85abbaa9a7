// SPDX-License-Identifier: Apache-2.0
//
// Sequences of a batch over one document: they take from each other what the store would send them
// again, and generate what each generates alone.
#include "gpuworker/engine/document_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/limited_device.h"
#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using testing::RandomTokens;
using Streams = std::vector<std::shared_ptr<BatchStream>>;

constexpr auto kKind = kernels::DigestKind::kMinMax;

KvSpec SmallSpec() {
  KvSpec spec;
  spec.model = "test";
  spec.dtype = DType::kF32;
  spec.num_kv_heads = 1;
  spec.head_dim = 4;
  spec.page_tokens = 2;
  return spec;
}

std::shared_ptr<const StoredDigests> MakeDigests(uint32_t pages) {
  const KvSpec spec = SmallSpec();
  const std::vector<std::byte> bytes(pages * kernels::PageDigestBytes(spec, kKind));
  return *StoredDigests::Make(spec, kKind, &CpuDevice(), pages, bytes);
}

SegmentKey KeyOf(uint8_t first) {
  SegmentKey key{};
  key.bytes[0] = first;
  return key;
}

TEST(DocumentSharesTest, DigestsAreFoundByDocumentLayerAndKindWhileSomebodyHoldsThem) {
  DocumentShares shares;
  const DocumentSeat seat(&shares, {KeyOf(1), 3}), same(&shares, {KeyOf(1), 3}),
      other(&shares, {KeyOf(2), 3}), put_again(&shares, {KeyOf(1), 3, 9});
  auto digests = MakeDigests(3);
  const uint64_t bytes = digests->size_bytes();
  seat.PutDigests(1, kKind, digests);
  EXPECT_EQ(same.FindDigests(1, kKind), digests);
  EXPECT_EQ(same.FindDigests(0, kKind), nullptr);
  EXPECT_EQ(same.FindDigests(1, kernels::DigestKind::kMean), nullptr);
  EXPECT_EQ(other.FindDigests(1, kKind), nullptr);
  EXPECT_EQ(put_again.FindDigests(1, kKind), nullptr) << "it may have other bytes";
  EXPECT_EQ(shares.digest_bytes_shared(), bytes);
  EXPECT_EQ(shares.digest_bytes_held(), bytes);
  digests.reset();
  EXPECT_EQ(same.FindDigests(1, kKind), nullptr) << "nothing is kept for later";
  EXPECT_EQ(shares.digest_bytes_held(), 0u);
}

TEST(DocumentSharesTest, ASeatWithoutSharesFindsNothing) {
  const DocumentSeat seat(nullptr, {KeyOf(1), 3});
  seat.PutDigests(0, kKind, MakeDigests(3));
  EXPECT_EQ(seat.FindDigests(0, kKind), nullptr);
  const auto left = seat.CopyPages(0, {1, 2}, nullptr);
  EXPECT_THAT(*left, ::testing::ElementsAre(1, 2));
}

/// Bytes that sequences read when they open, summed over a batch.
struct Bytes {
  uint64_t digests = 0;
  uint64_t at_open = 0;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

class SharedDocumentTest : public ::testing::Test {
 protected:
  void Ingest(size_t tokens) { fixture_.Ingest(RandomTokens(tokens, 1)); }
  std::unique_ptr<Batch> Make(const BatchLimits& limits = {}) {
    auto batch = Batch::Create(&fixture_.engine(), limits);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return *std::move(batch);
  }
  BatchRequest Request(uint64_t seed, uint32_t new_tokens, std::string_view policy = "quest",
                       std::vector<uint32_t> uncompressed = {}) const {
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = policy;
    retrieval.uncompressed_layers = std::move(uncompressed);
    return {.document = DocumentName{.name = "doc"},
            .prompt = RandomTokens(2, seed),
            .retrieval = retrieval,
            .params = {.max_new_tokens = new_tokens}};
  }
  std::shared_ptr<BatchStream> Submit(Batch& batch, const BatchRequest& request) {
    auto stream = batch.Submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }
  std::vector<TokenId> Alone(const BatchRequest& request) {
    auto sequence =
        fixture_.engine().OpenSequence(request.document, {.retrieval = request.retrieval});
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ((*sequence)->Append(request.prompt), OkStatus());
    return (*sequence)->Generate(request.params)->tokens;
  }
  void ExpectAsAlone(BatchStream& stream, const BatchRequest& request) {
    std::vector<TokenId> tokens;
    for (auto next = stream.Next(); next.ok() && next->has_value(); next = stream.Next()) {
      tokens.push_back(**next);
    }
    EXPECT_EQ(tokens, Alone(request));
  }
  /// Runs `count` sequences that come at the same time; each brings what it brings alone.
  Bytes Run(size_t count, std::string_view policy, const std::vector<uint32_t>& uncompressed) {
    const auto batch = Make();
    std::vector<BatchRequest> requests;
    Streams streams;
    for (size_t i = 0; i < count; ++i) {
      requests.push_back(Request(10 + i, 20, policy, uncompressed));
      streams.push_back(Submit(*batch, requests.back()));
    }
    while (batch->Step()) {
    }
    Bytes bytes;
    for (size_t i = 0; i < count; ++i) {
      ExpectAsAlone(*streams[i], requests[i]);
      const SequenceStats stats = streams[i]->result().stats;
      bytes.digests += stats.moved.digests;
      bytes.at_open += stats.moved.at_open;
    }
    const auto metrics = MetricValuesOf(*batch);
    EXPECT_EQ(metrics.at("batch_shared_digest_bytes"), (count - 1) * bytes.digests);
    EXPECT_EQ(metrics.at("batch_document_digest_bytes"), 0u) << "they go with their sequences";
    return bytes;
  }
  const KvSpec& spec() const { return fixture_.engine().spec(); }
  /// Digest bytes of all layers.
  uint64_t DigestBytes(uint64_t tokens) const {
    return tokens / spec().page_tokens * kernels::PageDigestBytes(spec(), kKind) *
           spec().num_layers;
  }

  testing::LimitedDevice device_;
  EngineFixture fixture_{{}, EngineFixture::Small(), &device_};
};

TEST_F(SharedDocumentTest, EightSequencesReadTheBytesOfOne) {
  Ingest(120);
  for (const char* policy : {"quest", "freekv", "raas"}) {
    for (const std::vector<uint32_t>& uncompressed : {std::vector<uint32_t>{}, {0}}) {
      SCOPED_TRACE(std::string(policy) + " " + ::testing::PrintToString(uncompressed));
      const Bytes one = Run(1, policy, uncompressed);
      const Bytes eight = Run(8, policy, uncompressed);
      EXPECT_EQ(one.digests,
                DigestBytes(120) / spec().num_layers * (spec().num_layers - uncompressed.size()));
      EXPECT_GT(one.at_open, 0u);
      EXPECT_EQ(eight, one);
    }
  }
}

TEST_F(SharedDocumentTest, AShortLastPageIsReadByEach) {
  Ingest(121);
  const Bytes one = Run(1, "quest", {});
  const Bytes eight = Run(8, "quest", {});
  EXPECT_EQ(eight.digests, one.digests);
  EXPECT_EQ(eight.at_open, one.at_open + 7 * spec().num_layers * ExtentBytes(spec(), 1));
}

TEST_F(SharedDocumentTest, WhoComesLaterReadsTheWindowOnly) {
  Ingest(120);
  const auto batch = Make();
  const BatchRequest first = Request(30, 40), second = Request(31, 20);
  const auto a = Submit(*batch, first);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(batch->Step());  // The window is its own now.
  const auto b = Submit(*batch, second);
  while (batch->Step()) {
  }
  ExpectAsAlone(*a, first);
  ExpectAsAlone(*b, second);
  EXPECT_EQ(b->result().stats.moved.digests, 0u);
  EXPECT_EQ(b->result().stats.moved.at_open, 2 * spec().num_layers * ExtentBytes(spec(), 1));
}

TEST_F(SharedDocumentTest, WhoComesAfterTheLastHasGoneReadsAllOfIt) {
  Ingest(120);
  const auto batch = Make();
  const auto a = Submit(*batch, Request(30, 3));
  while (batch->Step()) {
  }
  const auto b = Submit(*batch, Request(31, 3));
  while (batch->Step()) {
  }
  EXPECT_EQ(b->result().stats.moved.digests, a->result().stats.moved.digests);
  EXPECT_EQ(b->result().stats.moved.at_open, a->result().stats.moved.at_open);
}

TEST_F(SharedDocumentTest, WhoGoesLeavesTheOthersWhatTheyShare) {
  Ingest(120);
  const auto batch = Make();
  const BatchRequest shorter = Request(40, 2), longer = Request(41, 40);
  const auto a = Submit(*batch, shorter);
  const auto b = Submit(*batch, longer);
  while (batch->Step()) {
  }
  ExpectAsAlone(*a, shorter);
  ExpectAsAlone(*b, longer);
  EXPECT_EQ(b->result().stats.moved.digests, 0u);
}

TEST_F(SharedDocumentTest, EightSequencesHoldTheDigestsOfOne) {
  constexpr uint64_t kTokens = 400;
  Ingest(kTokens);
  const size_t before = device_.used();
  const auto used = [&](size_t count) {
    const auto batch = Make();
    for (size_t i = 0; i < count; ++i) Submit(*batch, Request(50 + i, 20));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(batch->Step());
    EXPECT_EQ(MetricValuesOf(*batch).at("batch_document_digest_bytes"), DigestBytes(kTokens));
    return device_.used() - before;
  };
  const size_t one = used(1);
  const size_t eight = used(8);
  RecordProperty("device_bytes_one", std::to_string(one));
  RecordProperty("device_bytes_eight", std::to_string(eight));
  RecordProperty("digest_bytes", std::to_string(DigestBytes(kTokens)));
  EXPECT_GT(one, DigestBytes(kTokens));
  EXPECT_LT(eight - one, 7 * (one - DigestBytes(kTokens)) + DigestBytes(kTokens) / 2);
}

}  // namespace
}  // namespace quire::worker
