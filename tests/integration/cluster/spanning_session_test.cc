// SPDX-License-Identifier: Apache-2.0
//
// Sessions over contexts of several servers, compared call by call with a session of one server
// that has all of them: the same placements, bytes, checksums, scores and digests.
#include "client/spanning/spanning_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "client/client_test_kit.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "kvserver/service/server.h"
#include "quire/client.h"
#include "quire/layout.h"
#include "quire/session.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"

namespace quire {
namespace {

using internal::SpanningSession;
using testing::Bytes;

constexpr uint32_t kDocuments = 6, kNodes = 3, kSlots = 12, kMostPages = 7;
/// Stored in a codec that the sessions accept.
constexpr char kPacked[] = "packed";

/// Counts calls by method, and fails them once it is lost.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(CallHandler* handler) : inner_(handler, {}) {}

  TransportCapabilities capabilities() const override { return inner_.capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Count(method));
    return inner_.Start(method, std::move(request), options);
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Count(method));
    return inner_.Call(method, request, reply, options);
  }
  /// Calls of `method` since the last look.
  int Take(const std::string& method) {
    MutexLock lock(mutex_);
    return std::exchange(calls_[method], 0);
  }
  std::atomic<bool> lost = false;

 private:
  Status Count(std::string_view method) {
    if (lost) return Unavailable("the node was killed");
    MutexLock lock(mutex_);
    ++calls_[std::string(method)];
    return OkStatus();
  }

  LoopbackTransport inner_;
  Mutex mutex_;
  std::map<std::string, int> calls_ QUIRE_GUARDED_BY(mutex_);
};

/// A server with a client.
struct Store {
  std::unique_ptr<kvserver::Server> server;
  std::shared_ptr<CountingTransport> transport;
  std::unique_ptr<Client> client;

  void Open(const std::string& directory) {
    kvserver::ServerOptions options;
    options.data_dir = directory;
    options.dram_bytes = 32 << 20;
    auto opened = kvserver::Server::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server = *std::move(opened);
    transport = std::make_shared<CountingTransport>(server->handler());
    Client::Options with{.transport = transport};
    with.retry.max_attempts = 1;
    client = Client::Create(with).value();
    ASSERT_TRUE(client->SetCollection(kPacked, {.codec = "int8"}).ok());
  }
};

class SpanningSessionTest : public ::testing::Test, public internal::SessionNodes {
 protected:
  void SetUp() override {
    all_.Open(dir_ / "all");
    for (uint32_t i = 0; i < kNodes; ++i) nodes_[i].Open(dir_ / ("node-" + std::to_string(i)));
    for (uint32_t i = 0; i < kDocuments; ++i) {
      PutDocument(i, *all_.client);
      PutDocument(i, *nodes_[HolderOf(i)].client);
    }
  }
  /// Documents 0 and 3 lie on node 0, and so on; `moved_` says otherwise.
  uint32_t HolderOf(uint32_t document) const {
    const auto moved = moved_.find(document);
    return moved == moved_.end() ? document % kNodes : moved->second;
  }
  StatusOr<Node> NodeOf(const ContextRef& context) override {
    const auto& name = std::get<DocumentName>(context).name;
    const uint32_t node = HolderOf(static_cast<uint32_t>(name.back() - '0'));
    return Node{"node-" + std::to_string(node), nodes_[node].client.get()};
  }
  void NoteEnd(const std::string& address, const Status& status) override {
    MutexLock lock(mutex_);
    if (!status.ok()) failed_.insert(address);
  }

  void NoteEndOf(const ContextRef&, const std::string& address, const Status& status) override {
    NoteEnd(address, status);
  }

  static DocumentName NameOf(uint32_t document) {
    return {.collection = document % 2 == 0 ? "default" : kPacked,
            .name = "document-" + std::to_string(document)};
  }
  static uint32_t PagesOf(uint32_t document) { return 9 + 3 * document; }
  void PutDocument(uint32_t document, Client& client) {
    SeededRandom random(1000 + document);
    const uint32_t pages = PagesOf(document);
    std::vector<TokenId> tokens(size_t{pages} * spec_.page_tokens);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(30000));
    std::vector<float> values(pages * spec_.num_layers * spec_.num_kv_heads * UnitBytes(spec_) /
                              sizeof(float));
    for (float& value : values) value = static_cast<float>(random.Uniform()) - 0.5f;
    const auto bytes = std::as_bytes(std::span(values));
    Payload payload;
    payload.Append(std::vector<std::byte>(bytes.begin(), bytes.end()));
    const DocumentName name = NameOf(document);
    const auto context = client.OpenContext(spec_, std::nullopt, {.collection = name.collection});
    ASSERT_TRUE(context.ok()) << context.status();
    ASSERT_TRUE(client.AppendPages(context->id, 0, tokens, payload).ok());
    const auto sealed = client.Seal(context->id, {}, {});
    ASSERT_TRUE(sealed.ok()) << sealed.status();
    const auto registered = client.RegisterDocument(name, sealed->chain_tip);
    ASSERT_TRUE(registered.ok()) << registered.status();
  }

  static SequenceSpec Reading(const std::vector<uint32_t>& documents, uint32_t slots = 0) {
    SequenceSpec sequence{.members = {}, .slots_per_head = slots};
    int32_t offset = 0;
    for (const uint32_t document : documents) {
      sequence.members.push_back({.context = NameOf(document), .position_offset = offset});
      offset += 17;
    }
    return sequence;
  }
  /// Opens the same session on the one server and over the nodes.
  void Open(const std::vector<std::vector<uint32_t>>& sequences) {
    members_ = sequences;
    std::vector<SequenceSpec> specs;
    for (const auto& documents : sequences) specs.push_back(Reading(documents));
    const SessionOptions options{
        .spec = spec_, .slots_per_head = kSlots, .codecs = CodecSet::All()};
    auto single = all_.client->OpenSession(specs, options);
    ASSERT_TRUE(single.ok()) << single.status();
    single_ = *std::move(single);
    auto spanning = SpanningSession::Open(this, &SystemClock(), specs, options);
    ASSERT_TRUE(spanning.ok()) << spanning.status();
    spanning_ = *std::move(spanning);
  }
  /// Up to kMostPages pages of a sequence.
  std::vector<uint32_t> SomePages(uint32_t sequence, SeededRandom& random) const {
    std::set<uint32_t> pages;
    for (uint64_t i = random.Below(kMostPages + 1); i > 0; --i) {
      const auto member = static_cast<uint32_t>(random.Below(members_[sequence].size()));
      const uint32_t of_member = PagesOf(members_[sequence][member]);
      pages.insert(PageName(member, static_cast<uint32_t>(random.Below(of_member))));
    }
    return {pages.begin(), pages.end()};
  }
  PageLists SomeLists(uint32_t sequence, SeededRandom& random) const {
    PageLists lists;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      lists.AppendHead(SomePages(sequence, random));
    }
    return lists;
  }
  /// Wants of some lanes, each once.
  std::vector<LayerWant> SomeWants(SeededRandom& random) const {
    std::vector<LayerWant> wants;
    for (uint32_t sequence = 0; sequence < members_.size(); ++sequence) {
      if (random.Below(4) == 0) continue;
      LayerWant want{.sequence = sequence, .pages = SomeLists(sequence, random)};
      want.num_layers = random.Below(2) == 0 ? spec_.num_layers : 1;
      if (want.num_layers == 1) want.layer = static_cast<uint32_t>(random.Below(spec_.num_layers));
      if (random.Below(3) == 0) want.held = SomeLists(sequence, random);
      wants.push_back(std::move(want));
    }
    if (wants.empty()) wants.push_back({.sequence = 0, .pages = SomeLists(0, random)});
    std::ranges::shuffle(wants, random_bits_);
    return wants;
  }
  static auto Fields(const Placement& p) {
    return std::tuple(p.sequence, p.layer, p.head, p.slot, p.generation, p.page, p.replaced);
  }
  void ExpectSame(const RecallPart& expected, const RecallPart& part) const {
    ASSERT_EQ(part.lanes.size(), expected.lanes.size());
    for (size_t i = 0; i < part.lanes.size(); ++i) {
      EXPECT_EQ(part.lanes[i].sequence, expected.lanes[i].sequence);
      EXPECT_EQ(part.lanes[i].layer, expected.lanes[i].layer);
      EXPECT_EQ(part.lanes[i].end_placement, expected.lanes[i].end_placement);
      EXPECT_EQ(part.lanes[i].selected, expected.lanes[i].selected);
    }
    ASSERT_EQ(part.placements.size(), expected.placements.size());
    for (size_t i = 0; i < part.placements.size(); ++i) {
      EXPECT_EQ(Fields(part.placements[i]), Fields(expected.placements[i])) << i;
      EXPECT_EQ(part.CodecOf(i), expected.CodecOf(i)) << i;
    }
    EXPECT_EQ(part.held, expected.held);
    EXPECT_EQ(part.checksums, expected.checksums);
    EXPECT_EQ(Bytes(part.payload), Bytes(expected.payload));
  }
  void ExpectSameSlots() const {
    for (uint32_t sequence = 0; sequence < members_.size(); ++sequence) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        EXPECT_TRUE(std::ranges::equal(spanning_->ResidentPages(sequence, layer),
                                       single_->ResidentPages(sequence, layer)))
            << sequence << " " << layer;
      }
    }
  }

  const KvSpec spec_ = testing::TinySpec();
  testing::TempDir dir_;
  Store all_;
  Store nodes_[kNodes];
  std::map<uint32_t, uint32_t> moved_;
  Mutex mutex_;
  std::set<std::string> failed_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::vector<uint32_t>> members_;
  std::unique_ptr<ClientSession> single_;
  std::unique_ptr<ClientSession> spanning_;
  mutable std::mt19937 random_bits_{20261128};
};

TEST_F(SpanningSessionTest, RecallsEqualThoseOfOneServerAndGoToEachNodeOnce) {
  Open({{4, 0, 1, 5, 2}, {3, 0}, {2, 1}});
  for (const uint64_t seed : {1, 2, 3}) {
    SeededRandom random(seed);
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " round " << round);
      const std::vector<LayerWant> wants = SomeWants(random);
      const RecallOptions options{.verify = random.Below(2) == 0};
      const auto expected = single_->Recall(wants, options);
      const auto recalled = spanning_->Recall(wants, options);
      ASSERT_TRUE(expected.ok() && recalled.ok()) << expected.status() << recalled.status();
      ExpectSame(*expected, *recalled);
      for (Store& node : nodes_) EXPECT_LE(node.transport->Take("quire.v1.Session/Recall"), 1);
      if (HasFailure()) return;
      if (random.Below(4) == 0) continue;  // The next recall of a lane takes it back.
      single_->Applied(*expected);
      spanning_->Applied(*recalled);
      ExpectSameSlots();
    }
  }
}

TEST_F(SpanningSessionTest, MembersScoresAndDigestsEqualThoseOfOneServer) {
  Open({{4, 0, 1, 5, 2}});
  const std::vector<uint32_t> layers = {1, 0};
  ContentScoring wanted{.layers = layers};
  for (uint32_t member = 0; member < members_[0].size(); ++member) {
    const uint32_t pages = PagesOf(members_[0][member]);
    EXPECT_EQ(spanning_->context(0, member).num_pages, pages);
    EXPECT_EQ(spanning_->context(0, member).num_tokens, single_->context(0, member).num_tokens);
    const auto expected = single_->Digests(layers, 1, pages, 0, member, DigestKind::kMean);
    const auto digests = spanning_->Digests(layers, 1, pages, 0, member, DigestKind::kMean);
    ASSERT_TRUE(expected.ok() && digests.ok()) << expected.status() << digests.status();
    EXPECT_EQ(Bytes(*digests), Bytes(*expected));
    if (member != 2) wanted.candidates.push_back({member, member, pages - member});
  }
  SeededRandom random(7);
  wanted.queries.resize(wanted.candidates.size() * layers.size() * spec_.num_kv_heads *
                        spec_.key_dim());
  for (float& value : wanted.queries) value = static_cast<float>(random.Uniform());
  const auto expected = single_->ScorePages(wanted);
  const auto scores = spanning_->ScorePages(wanted);
  ASSERT_TRUE(expected.ok() && scores.ok()) << expected.status() << scores.status();
  EXPECT_EQ(*scores, *expected);
  for (Store& node : nodes_) EXPECT_EQ(node.transport->Take("quire.v1.Session/ScorePages"), 1);
  wanted.queries.pop_back();
  EXPECT_EQ(spanning_->ScorePages(wanted).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SpanningSessionTest, ALostNodeEndsRecallsOfItsSequencesOnly) {
  Open({{0, 1}, {2}, {0, 3}});
  nodes_[1].transport->lost = true;
  const auto want = [this](uint32_t sequence) {
    PageLists pages;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      pages.AppendHead(std::vector<uint32_t>{PageName(0, 1), PageName(0, 2)});
    }
    return LayerWant{.sequence = sequence, .pages = pages};
  };
  for (const uint32_t sequence : {1u, 2u}) {
    const LayerWant one = want(sequence);
    EXPECT_TRUE(spanning_->Recall({&one, 1}).ok()) << sequence;
  }
  LayerWant both = want(0);
  EXPECT_TRUE(spanning_->Recall({&both, 1}).ok()) << "it asks the other node only";
  both.pages.Clear();
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    both.pages.AppendHead(std::vector<uint32_t>{PageName(0, 1), PageName(1, 2)});
  }
  EXPECT_EQ(spanning_->Recall({&both, 1}).status().code(), StatusCode::kUnavailable);
  {
    MutexLock lock(mutex_);
    EXPECT_THAT(failed_, ::testing::ElementsAre("node-1"));
  }
  // The document is on another node, too: the sequence is opened there.
  PutDocument(1, *nodes_[2].client);
  moved_[1] = 2;
  const auto again = spanning_->AddSequence(Reading({0, 1}));
  ASSERT_TRUE(again.ok()) << again.status();
  both.sequence = *again;
  EXPECT_TRUE(spanning_->Recall({&both, 1}).ok());
  EXPECT_TRUE(spanning_->RemoveSequence(0).ok()) << "its part of the lost node goes with it";
  EXPECT_TRUE(spanning_->RemoveSequence(*again).ok());
}

TEST_F(SpanningSessionTest, AnInvalidatedLaneIsAskedForAgain) {
  Open({{0, 1, 2}});
  const LayerWant want{.pages = {{PageName(0, 1), PageName(1, 2)}, {PageName(2, 3)}}};
  const auto first = spanning_->Recall({&want, 1});
  ASSERT_TRUE(first.ok()) << first.status();
  spanning_->Applied(*first);
  spanning_->Applied(*first);
  const auto none = spanning_->Recall({&want, 1});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->placements.empty());
  spanning_->Applied(*none);
  spanning_->Invalidate(*first);
  const auto again = spanning_->Recall({&want, 1});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Bytes(again->payload), Bytes(first->payload));
  // A part that was superseded leaves the lane unknown.
  const auto later = spanning_->Recall({&want, 1});
  ASSERT_TRUE(later.ok()) << later.status();
  spanning_->Applied(*again);
  EXPECT_EQ(std::ranges::count(spanning_->ResidentPages(0, 0), -1), 2 * kSlots);
}

TEST_F(SpanningSessionTest, WhatCannotBeAskedForIsRefused) {
  Open({{0, 1}});
  const LayerWant beyond{.pages = {{PageName(2, 0)}, {}}};
  EXPECT_EQ(spanning_->Recall({&beyond, 1}).status().code(), StatusCode::kInvalidArgument);
  const LayerWant want{.pages = {{PageName(0, 1), PageName(1, 2)}, {}}};
  auto under_way = spanning_->Start({want});
  ASSERT_TRUE(under_way.ok()) << under_way.status();
  EXPECT_EQ(spanning_->Start({want}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(spanning_->RemoveSequence(0).code(), StatusCode::kInvalidArgument);
  under_way->reset();
  EXPECT_TRUE(spanning_->Recall({&want, 1}).ok()) << "a recall that was given up blocks nothing";
  EXPECT_TRUE(spanning_->Close().ok());
  EXPECT_EQ(spanning_->Start({want}).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace quire
