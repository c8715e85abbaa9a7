// SPDX-License-Identifier: Apache-2.0
//
// Copies between servers of a cluster: the copy of a chain has the bytes of its source, whatever
// the codec, and damaged segments are not copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/directory/testing/local_directory.h"
#include "cluster/membership/static_membership.h"
#include "cluster/replica/peer_calls.h"
#include "cluster/replica/replicator.h"
#include "common/metrics/testing/metrics_page.h"
#include "common/wire/convert.h"
#include "kvserver/service/replica/replica_segments.h"
#include "kvserver/service/server.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/testing/volume_damage.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/replica.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

/// Hands calls to the server that has the name now.
class NodeHandler final : public CallHandler {
 public:
  explicit NodeHandler(const std::unique_ptr<Server>* server) : server_(*server) {}
  std::vector<std::string> Methods() const override { return server_->handler()->Methods(); }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    return server_->handler()->Handle(context, method, request, reply);
  }

 private:
  const std::unique_ptr<Server>& server_;
};

class ReplicaServiceTest : public ::testing::Test {
 protected:
  ReplicaServiceTest() {
    Open("a");
    Open("b");
    ShareSalts();
  }

  static cluster::ClusterView View() {
    cluster::ClusterView view{.name = "test", .settings = {.replicas = 2}};
    for (const char* name : {"a", "b"}) {
      view.members.push_back({.name = name, .node_id = name, .address = name});
    }
    return view;
  }
  /// Opens a server, or opens it again over its disk.
  void Open(const std::string& name) {
    servers_[name].reset();
    auto opened = PageStoreImpl::Open({.ssd_path = dir_ / name,
                                       .dram_bytes = 1 << 20,
                                       .ssd_volume_bytes = kTestVolumeBytes,
                                       .tenants = {"default", "other"}},
                                      {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    stores_[name] = opened->get();
    ServerOptions options{.data_dir = dir_ / name, .tenants = {"default", "other"}};
    options.cluster = {.membership = &membership_,
                       .node = name,
                       .documents = &directory_,
                       .peers = &peers_,
                       .feed = &directory_};
    auto server = Server::Over(*std::move(opened), options);
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[name] = *std::move(server);
  }
  /// Gives b the salts of a, as the nodes of a cluster agree on them.
  void ShareSalts() {
    for (const char* tenant : {"default", "other"}) {
      Database::Batch batch = stores_["b"]->database().NewBatch();
      batch.Put(Table::kTenants, tenant,
                {stores_["a"]->database().Get(Table::kTenants, tenant).value()});
      ASSERT_TRUE(stores_["b"]->database().Commit(batch, /*sync=*/false).ok());
    }
    Open("b");
  }

  /// Puts a chain of two full segments and a short one at a, and returns their keys.
  std::vector<SegmentKey> PutChain(const std::string& codec, uint64_t seed = 1) {
    std::vector<SegmentKey> keys;
    for (const uint32_t tokens : {8, 8, 5}) {
      const auto ids = MakeTokens(tokens, seed + keys.size());
      const auto payload = MakePayload(spec_, tokens, seed + keys.size());
      const PutSegmentArgs args{.spec = &spec_,
                                .parent = keys.empty() ? kRootKey : keys.back(),
                                .tokens = ids,
                                .payload = payload,
                                .codec = CodecByName(codec).value()};
      keys.push_back(stores_["a"]->PutSegment("default", args).value().key);
    }
    return keys;
  }
  Status Copy(const SegmentKey& tip, const std::string& tenant = "default") {
    return peers_.CopyChain(View().members[1], tenant, tip, "a",
                            SystemClock().Now() + std::chrono::minutes(1));
  }
  template <typename Reply, typename Request>
  StatusOr<Reply> Call(const std::string& node, const std::string& method, const Request& request,
                       const std::vector<std::byte>& payload = {}) {
    LoopbackTransport transport(&handlers_.at(node), {});
    CallMessage message{.control = request.SerializeAsString(), .payload = {}}, answer;
    if (!payload.empty()) message.payload.Append(std::vector<std::byte>(payload));
    QUIRE_RETURN_IF_ERROR(
        transport.Call("quire.v1." + method, message, &answer, {.tenant = "default"}));
    Reply reply;
    EXPECT_TRUE(reply.ParseFromString(answer.control));
    return reply;
  }
  StatusOr<v1::RegisterReply> Register(const std::string& name, const SegmentKey& tip,
                                       v1::Durability durability) {
    v1::RegisterRequest request;
    request.mutable_name()->set_collection("default");
    request.mutable_name()->set_name(name);
    request.set_chain_tip(wire::KeyToBytes(tip));
    request.set_durability(durability);
    return Call<v1::RegisterReply>("a", "Registry/Register", request);
  }
  /// The node's own version of a document, without asking another one.
  StatusOr<v1::Document> Get(const std::string& node, const std::string& name) {
    v1::GetDocumentRequest request;
    request.mutable_name()->set_collection("default");
    request.mutable_name()->set_name(name);
    QUIRE_ASSIGN_OR_RETURN(auto reply, Call<v1::GetDocumentReply>(node, "Registry/Get", request));
    return std::move(*reply.mutable_document());
  }
  v1::ReplicaProgressReply Progress(const std::string& node) {
    return Call<v1::ReplicaProgressReply>(node, "Replica/Progress", v1::ReplicaProgressRequest())
        .value();
  }

  std::vector<std::byte> Read(const std::string& node, const SegmentKey& key, size_t tokens,
                              const CodecSet& codecs) {
    std::vector<UnitBytes> units;
    EXPECT_TRUE(
        stores_[node]->ReadUnits("default", AllUnits(spec_, key, tokens), codecs, &units).ok());
    return Concatenate(units);
  }
  std::vector<std::byte> Digests(const std::string& node, const SegmentKey& key,
                                 kernels::DigestKind kind) {
    const auto digests = stores_[node]->ReadDigests("default", key, 1, kind);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return digests.ok() ? *digests->bytes : std::vector<std::byte>();
  }

  quire::testing::TempDir dir_;
  const KvSpec spec_ = SmallSpec();
  cluster::StaticMembership membership_{View()};
  cluster::LocalDirectory directory_;
  std::map<std::string, PageStoreImpl*> stores_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
  std::map<std::string, NodeHandler> handlers_{{"a", NodeHandler(&servers_["a"])},
                                               {"b", NodeHandler(&servers_["b"])}};
  cluster::PeerCalls peers_{[this](const std::string& address) {
    return StatusOr<std::unique_ptr<Transport>>(
        std::make_unique<LoopbackTransport>(&handlers_.at(address), LoopbackTransport::Options()));
  }};
};

TEST_F(ReplicaServiceTest, ACopyHasTheBytesOfItsSourceWhateverTheCodec) {
  uint64_t seed = 1;
  for (const std::string& codec : CodecNames()) {
    SCOPED_TRACE(codec);
    const std::vector<SegmentKey> keys = PutChain(codec, seed += 100);
    const std::vector<std::byte> representatives = MakePayload(spec_, 4, seed);
    ASSERT_TRUE(stores_["a"]
                    ->PutRepresentatives("default", keys[1],
                                         std::span(representatives).first(2 * 2 * 2 * 8 * 2))
                    .ok());
    ASSERT_TRUE(Copy(keys.back()).ok());
    EXPECT_EQ(stores_["b"]->ResolveChain("default", keys.back()).value()->keys, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t tokens = i < 2 ? 8 : 5;
      EXPECT_EQ(stores_["b"]->StoredCodec("default", keys[i]).value(), CodecByName(codec).value());
      for (const CodecSet& codecs : {CodecSet::All(), CodecSet()}) {
        EXPECT_EQ(Read("b", keys[i], tokens, codecs), Read("a", keys[i], tokens, codecs));
      }
      for (const auto kind : {kernels::DigestKind::kMinMax, kernels::DigestKind::kMean,
                              kernels::DigestKind::kRepresentatives}) {
        EXPECT_EQ(Digests("b", keys[i], kind), Digests("a", keys[i], kind));
      }
    }
  }
}

TEST_F(ReplicaServiceTest, ACopyIsPersistedAndCopyingAgainMovesNothing) {
  const std::vector<SegmentKey> keys = PutChain("int8");
  ASSERT_TRUE(Copy(keys.back()).ok());
  Open("b");
  EXPECT_EQ(Read("b", keys[2], 5, CodecSet::All()), Read("a", keys[2], 5, CodecSet::All()));
  EXPECT_EQ(CountersOf(*stores_["b"])["puts"], 0u);
  ASSERT_TRUE(Copy(keys.back()).ok());
  EXPECT_EQ(CountersOf(*stores_["b"])["puts"], 0u);
}

TEST_F(ReplicaServiceTest, AMemberThatDidNotAnswerIsNotAskedAgainAtOnce) {
  class Silent final : public CallHandler {
   public:
    std::vector<std::string> Methods() const override { return {}; }
    Status Handle(const CallContext&, std::string_view, const CallMessage&, ReplyWriter&) override {
      ++calls;
      return DeadlineExceeded("no answer");
    }
    int calls = 0;
  };
  Silent silent;
  cluster::PeerCalls peers([&](const std::string&) {
    return StatusOr<std::unique_ptr<Transport>>(
        std::make_unique<LoopbackTransport>(&silent, LoopbackTransport::Options()));
  });
  const auto ask = [&] { return peers.Describe(View().members[0], "default", {}).status(); };
  EXPECT_EQ(ask().code(), StatusCode::kDeadlineExceeded);
  const Status second = ask();
  EXPECT_TRUE(IsUnavailable(second)) << second;
  EXPECT_EQ(silent.calls, 1);
}

TEST_F(ReplicaServiceTest, ADamagedSegmentIsNotCopiedAndALostOneIsMended) {
  const std::vector<SegmentKey> keys = PutChain("raw");
  ASSERT_TRUE(Copy(keys.back()).ok());
  OverwriteOnSsd(stores_["b"]->database(), dir_ / "b", {keys[1], 0}, 2, "damage");
  Open("b");  // Its DRAM would hide the damage.
  std::vector<UnitBytes> units;
  EXPECT_EQ(stores_["b"]->ReadUnits("default", AllUnits(spec_, keys[1], 8), &units).code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(stores_["b"]->num_damaged(), 1u);
  ASSERT_TRUE(Copy(keys.back()).ok());
  EXPECT_EQ(stores_["b"]->num_damaged(), 0u);
  EXPECT_EQ(Read("b", keys[1], 8, CodecSet()), Read("a", keys[1], 8, CodecSet()));

  const std::vector<SegmentKey> bad = PutChain("raw", 50);
  OverwriteOnSsd(stores_["a"]->database(), dir_ / "a", {bad[1], 1}, 3, "damage");
  Open("a");
  const Status refused = Copy(bad.back());
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("node a"));
  EXPECT_TRUE(stores_["b"]->StoredCodec("default", bad[0]).ok()) << "those before it are there";
  EXPECT_TRUE(IsNotFound(stores_["b"]->StoredCodec("default", bad[1]).status()));
}

TEST_F(ReplicaServiceTest, AReplicatedPutIsOnEveryOwnerWhenItReturns) {
  const std::vector<SegmentKey> keys = PutChain("fp8");
  const auto registered = Register("x", keys.back(), v1::DURABILITY_UNSPECIFIED);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->copies(), 2u);
  const auto here = Get("a", "x");
  const auto there = Get("b", "x");
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->SerializeAsString(), here->SerializeAsString());
  EXPECT_EQ(Register("x", keys.back(), v1::DURABILITY_REPLICATED)->document().name().version(), 2u);

  membership_.Set({.name = "test",
                   .settings = {.replicas = 2, .min_replicas = 2},
                   .members = {View().members[0]}});
  const Status refused = Register("y", keys.back(), v1::DURABILITY_REPLICATED).status();
  EXPECT_TRUE(IsUnavailable(refused));
  EXPECT_THAT(refused.ToString(), HasSubstr("min_replicas"));
  EXPECT_TRUE(IsNotFound(Get("a", "y").status())) << "nothing is agreed then";
}

TEST_F(ReplicaServiceTest, CachedSegmentsHaveOneCopyUnlessMoreAreAskedFor) {
  const auto put = [this](v1::Durability durability, uint64_t seed) {
    v1::PutSegmentRequest request;
    wire::KvSpecToProto(spec_, request.mutable_spec());
    const std::vector<TokenId> tokens = MakeTokens(8, seed);
    request.mutable_tokens()->Add(tokens.begin(), tokens.end());
    request.set_durability(durability);
    const auto payload = MakePayload(spec_, 8, seed);
    request.set_payload_crc32c(Crc32c(payload));
    return Call<v1::PutSegmentReply>("a", "Store/PutSegment", request, payload);
  };
  const auto is_at_b = [this](const v1::PutSegmentReply& reply) {
    const auto key = wire::KeyFromBytes(reply.key(), "key").value();
    return peers_.Describe(View().members[1], "default", key).ok();
  };
  const auto one = put(v1::DURABILITY_UNSPECIFIED, 70);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->copies(), 0u);
  EXPECT_FALSE(is_at_b(*one));
  const auto two = put(v1::DURABILITY_REPLICATED, 80);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->copies(), 2u);
  EXPECT_TRUE(is_at_b(*two));
  membership_.Set({.name = "test",
                   .settings = {.replicas = 2, .min_replicas = 2},
                   .members = {View().members[0]}});
  EXPECT_TRUE(IsUnavailable(put(v1::DURABILITY_REPLICATED, 90).status()));
}

TEST_F(ReplicaServiceTest, ExtrasOfADocumentGoToItsOwners) {
  ASSERT_TRUE(Register("x", PutChain("raw").back(), v1::DURABILITY_REPLICATED).ok());
  v1::PutExtraRequest put;
  put.mutable_document()->set_collection("default");
  put.mutable_document()->set_name("x");
  put.set_name("samkv.statistics");
  put.set_version(3);
  put.set_payload_crc32c(0);
  ASSERT_TRUE(Call<v1::PutExtraReply>("a", "Registry/PutExtra", put).ok());
  v1::ListExtrasRequest list;
  *list.mutable_document() = put.document();
  const auto extras = Call<v1::ListExtrasReply>("b", "Registry/ListExtras", list);
  ASSERT_TRUE(extras.ok()) << extras.status();
  ASSERT_EQ(extras->extras_size(), 1);
  EXPECT_EQ(extras->extras(0).version(), 3u);
}

TEST_F(ReplicaServiceTest, ExtrasWithSegmentsOfTheirOwnBringThem) {
  ASSERT_TRUE(Register("x", PutChain("raw").back(), v1::DURABILITY_REPLICATED).ok());
  servers_["b"]->StartReplication();
  const std::vector<SegmentKey> variant = PutChain("int8", /*seed=*/50);
  const auto at_b = [&] { return peers_.Describe(View().members[1], "default", variant.back()); };
  EXPECT_TRUE(IsNotFound(at_b().status()));
  v1::PutExtraRequest put;
  put.mutable_document()->set_collection("default");
  put.mutable_document()->set_name("x");
  put.set_name("cachecraft.variants");
  put.set_version(1);
  put.set_payload_crc32c(0);
  wire::KeysToProto(std::span(variant).last(1), put.mutable_segments());
  ASSERT_TRUE(Call<v1::PutExtraReply>("a", "Registry/PutExtra", put).ok());
  v1::GetExtraRequest get;
  *get.mutable_document() = put.document();
  get.set_name(put.name());
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(20);
  auto there = Call<v1::GetExtraReply>("b", "Registry/GetExtra", get);
  while (!there.ok() && SystemClock().Now() < deadline) {
    SystemClock().Sleep(std::chrono::milliseconds(20));
    there = Call<v1::GetExtraReply>("b", "Registry/GetExtra", get);
  }
  ASSERT_TRUE(there.ok()) << there.status();
  ASSERT_EQ(there->segments_size(), 1);
  EXPECT_EQ(there->segments(0), wire::KeyToBytes(variant.back()));
  EXPECT_TRUE(at_b().ok()) << "its chain came first";
}

TEST_F(ReplicaServiceTest, AServerCopiesInTheBackgroundAndServesNothingThatWasDeleted) {
  const std::vector<SegmentKey> keys = PutChain("int8+zstd");
  const auto registered = Register("x", keys.back(), v1::DURABILITY_PERSISTED);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->copies(), 0u);
  EXPECT_TRUE(IsNotFound(Get("b", "x").status()));
  servers_["b"]->StartReplication();
  const auto is_settled = [&](const v1::ReplicaProgressReply& progress) {
    return progress.passes() > 0 && !progress.pass_runs() && progress.copies_pending() == 0;
  };
  while (!is_settled(Progress("b"))) SystemClock().Sleep(std::chrono::milliseconds(10));
  EXPECT_TRUE(Get("b", "x").ok()) << Progress("b").last_failure();
  EXPECT_GT(Progress("b").copied_bytes(), 0u);

  Open("b");  // It stops, and misses the deletion.
  ASSERT_TRUE(directory_.Remove("default", {.name = "x"}, std::vector<uint64_t>{1}).ok());
  ASSERT_TRUE(servers_["b"]->CatchUpReplicas().ok());
  EXPECT_TRUE(IsNotFound(Get("b", "x").status()));
}

TEST_F(ReplicaServiceTest, AMemberWithoutACommonProtocolIsNotCalled) {
  cluster::Member other = View().members[0];
  const SegmentKey tip = PutChain("raw").back();
  EXPECT_TRUE(peers_.Describe(other, "default", tip).ok());
  other.protocol = other.oldest_protocol = cluster::kClusterProtocol + 1;
  const Status refused = peers_.Describe(other, "default", tip).status();
  EXPECT_TRUE(IsUnavailable(refused));
  EXPECT_THAT(refused.ToString(), HasSubstr("upgrade the older one"));
  other.oldest_protocol = cluster::kClusterProtocol;
  EXPECT_TRUE(peers_.Describe(other, "default", tip).ok()) << "the next release";
}

TEST_F(ReplicaServiceTest, TheMetricsAreDocumented) {
  cluster::Replicator replicator({.clock = &SystemClock()});
  quire::testing::ExpectSectionLists("Replicas", replicator, 8);
}

TEST_F(ReplicaServiceTest, TenantsAndStrangersGetNothing) {
  const std::vector<SegmentKey> keys = PutChain("raw");
  EXPECT_TRUE(IsNotFound(Copy(keys.back(), "other")));
  EXPECT_TRUE(IsNotFound(peers_.Describe(View().members[0], "other", keys.back()).status()));
  EXPECT_TRUE(IsNotFound(peers_.Read(View().members[0], "other", spec_, keys[0]).status()));
  const Status stranger = peers_.CopyChain(View().members[1], "default", keys.back(), "10.0.0.9:1",
                                           SystemClock().Now() + std::chrono::minutes(1));
  EXPECT_TRUE(IsNotFound(stranger));
  EXPECT_THAT(stranger.ToString(), HasSubstr("is no member"));
}

TEST_F(ReplicaServiceTest, ALargeSegmentComesInParts) {
  const std::vector<SegmentKey> keys = PutChain("int4");
  ReplicaSegments segments(stores_["a"]);
  std::vector<std::byte> joined;
  for (uint64_t unit = 0; unit < 8;) {
    const auto run = segments.Read("default", keys[0], unit, /*max_bytes=*/250);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->codec, "int4");
    EXPECT_EQ(run->tokens.size(), 8u);
    EXPECT_LE(run->units.size_bytes(), 250u);
    const Slice part = run->units.Flatten();
    joined.insert(joined.end(), part.bytes.begin(), part.bytes.end());
    ASSERT_GT(run->unit_crc32c.size(), 0u);
    unit += run->unit_crc32c.size();
  }
  EXPECT_EQ(joined, Read("a", keys[0], 8, CodecSet::All()));
  EXPECT_EQ(segments.Read("default", keys[0], 8, 250).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::kvserver::testing
