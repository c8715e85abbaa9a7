// SPDX-License-Identifier: Apache-2.0
//
// Store and registry methods. Arguments are checked before anything is sent, and replies before
// anything is used. Promise 2: bytes that fail their checksum are never returned.
#include <functional>
#include <string>
#include <vector>

#include "client/client_test_kit.h"
#include "quire/client.h"
#include "quire/v1/object.pb.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/store.pb.h"

namespace quire {
namespace {

using namespace internal;

using testing::KeyOf;
using testing::RandomPayload;

class ClientStoreTest : public testing::ClientTest {
 protected:
  ClientStoreTest() : client_(MakeClient()) {}

  void ReplyFetch(uint64_t units, const Payload& payload, std::vector<uint32_t> checksums) {
    v1::FetchReply reply;
    reply.set_num_units(units);
    reply.mutable_unit_crc32c()->Assign(checksums.begin(), checksums.end());
    server_.Reply("quire.v1.Store/Fetch", reply, payload);
  }
  void ReplySeal(const std::function<void(v1::ContextInfo*)>& change) {
    v1::SealReply reply;
    wire::ContextInfoToProto(testing::SealedContext(spec_, 18), reply.mutable_context());
    change(reply.mutable_context());
    server_.Reply("quire.v1.Store/Seal", reply);
  }
  v1::Document ProtoDocument(const std::string& name, uint64_t version) {
    v1::Document document;
    document.mutable_name()->set_collection("default");
    document.mutable_name()->set_name(name);
    document.mutable_name()->set_version(version);
    document.set_chain_tip(wire::KeyToBytes(KeyOf(7)));
    return document;
  }

  const std::vector<TokenId> tokens_ = {1, 2, 3, 4, 5};
  const std::unique_ptr<Client> client_;
};

TEST_F(ClientStoreTest, PutSegmentSendsTheChecksumOfItsPayload) {
  v1::PutSegmentReply reply;
  reply.set_key(wire::KeyToBytes(KeyOf(5)));
  server_.Reply("quire.v1.Store/PutSegment", reply);
  const Payload payload = RandomPayload(SegmentBytes(spec_, 2), 1);
  const auto key =
      client_->PutSegment(spec_, kRootKey, tokens_, payload, PutDurability::kPersisted, "books");
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(*key, KeyOf(5));
  const auto request = server_.RequestOf<v1::PutSegmentRequest>(0);
  EXPECT_EQ(request.payload_crc32c(), Crc32c(testing::Bytes(payload)));
  EXPECT_EQ(request.durability(), v1::DURABILITY_PERSISTED);
  EXPECT_EQ(request.collection(), "books");
  EXPECT_EQ(std::vector<TokenId>(request.tokens().begin(), request.tokens().end()), tokens_);
  EXPECT_TRUE(request.parent().empty());
  EXPECT_TRUE(request.payload().empty());
}

TEST_F(ClientStoreTest, ArgumentsThatCannotBeRightAreNotSent) {
  KvSpec bad = spec_;
  bad.head_dim = 0;
  const Payload payload = RandomPayload(SegmentBytes(spec_, 2), 1);
  const std::vector<TokenId> too_many(9, 1);
  EXPECT_TRUE(IsInvalidArgument(client_->PutSegment(bad, kRootKey, tokens_, payload).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->PutSegment(spec_, kRootKey, {}, payload).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->PutSegment(spec_, kRootKey, too_many, payload).status()));
  EXPECT_TRUE(IsInvalidArgument(
      client_->PutSegment(spec_, kRootKey, tokens_, RandomPayload(8, 1)).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->OpenContext(bad, {}).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->AppendPages(1, 0, {}, payload).status()));
  const std::vector<uint32_t> layer = {0}, descending = {1, 0};
  EXPECT_TRUE(IsInvalidArgument(client_->AppendLayers(1, 0, {}, layer, payload).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->AppendLayers(1, 0, tokens_, {}, payload).status()));
  EXPECT_TRUE(
      IsInvalidArgument(client_->AppendLayers(1, 0, tokens_, descending, payload).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->Seal(1, tokens_, {}).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->Stat(DocumentName{.name = "a/b"}).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->GetDocument({.collection = "", .name = "a"}).status()));
  EXPECT_TRUE(
      IsInvalidArgument(client_->RegisterDocument({.name = "a"}, KeyOf(1), "short").status()));
  EXPECT_TRUE(IsInvalidArgument(client_->ListDocuments("a/b").status()));
  EXPECT_TRUE(IsInvalidArgument(client_->OpenContext(spec_, {}, {.collection = "a/b"}).status()));
  EXPECT_TRUE(
      IsInvalidArgument(client_->RegisterDocument({.name = "a"}, KeyOf(1), {}, 0).status()));
  EXPECT_TRUE(IsInvalidArgument(
      client_->RegisterDocument({.name = "a"}, KeyOf(1), {}, UINT64_MAX).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->SetCollection("", {.codec = "raw"}).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->SetCollection("c", {.ttl_seconds = UINT64_MAX}).status()));
  EXPECT_TRUE(IsInvalidArgument(client_->GetCollection("a/b").status()));
  EXPECT_TRUE(server_.calls().empty());
}

TEST_F(ClientStoreTest, ObjectsOfAReplyAreCheckedAndDamagedUnitsAreNamedToTheServer) {
  const char* method = "quire.v1.Objects/Get";
  const Payload bytes = RandomPayload(100, 1);
  v1::GetObjectsReply good;
  v1::ObjectUnits* const object = good.add_objects();
  object->set_size_bytes(100);
  object->set_incarnation(1);
  object->add_unit_crc32c(Crc32c(testing::Bytes(bytes)));
  v1::GetObjectsReply damaged = good;
  damaged.mutable_objects(0)->set_unit_crc32c(0, 7);
  server_.Fail(method, Unavailable("the reply was lost"));
  server_.Reply(method, damaged, bytes);
  server_.Reply(method, good, bytes);
  const std::vector<ObjectRange> range = {{.key = "a"}};
  const auto read = client_->GetObjects(range);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(testing::Bytes(read->front()->payload), testing::Bytes(bytes));
  ASSERT_EQ(server_.calls().size(), 3u);
  const auto request = server_.RequestOf<v1::GetObjectsRequest>(2);
  ASSERT_EQ(request.mismatched_size(), 1);
  EXPECT_EQ(request.mismatched(0).key(), "a");
  EXPECT_EQ(request.mismatched(0).crc32c(), Crc32c(testing::Bytes(bytes)));

  v1::GetObjectsReply no_units = good, other_unit = good;
  no_units.mutable_objects(0)->clear_unit_crc32c();
  other_unit.mutable_objects(0)->set_first_unit(1);
  for (const v1::GetObjectsReply& reply : {v1::GetObjectsReply(), no_units, other_unit}) {
    server_.Reply(method, reply, bytes);
    EXPECT_TRUE(IsDataLoss(client_->GetObjects(range).status())) << reply.DebugString();
  }
  for (const uint64_t size : {0u, 99u, 101u}) {
    server_.Reply(method, good, RandomPayload(size, 1));
    EXPECT_TRUE(IsDataLoss(client_->GetObjects(range).status())) << size;
  }
}

TEST_F(ClientStoreTest, AppendLayersSendsLayersTokensAndChecksumAndIsRepeated) {
  const char* method = "quire.v1.Store/AppendLayers";
  v1::AppendLayersReply reply;
  reply.set_num_tokens(8);
  server_.Fail(method, Unavailable("the reply was lost"));
  server_.Reply(method, reply);
  const std::vector<uint32_t> layers = {0, 1};
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const Payload payload = RandomPayload(SegmentBytes(spec_, 1), 1);
  const auto appended = client_->AppendLayers(7, 3, tokens, layers, payload);
  ASSERT_TRUE(appended.ok()) << appended.status();
  EXPECT_EQ(*appended, 8u);
  ASSERT_EQ(server_.calls().size(), 2u);
  const auto request = server_.RequestOf<v1::AppendLayersRequest>(1);
  EXPECT_EQ(request.context_id(), 7u);
  EXPECT_EQ(request.first_page(), 3u);
  EXPECT_EQ(std::vector<uint32_t>(request.layers().begin(), request.layers().end()), layers);
  EXPECT_EQ(std::vector<TokenId>(request.tokens().begin(), request.tokens().end()), tokens);
  EXPECT_EQ(request.payload_crc32c(), Crc32c(testing::Bytes(payload)));
  EXPECT_EQ(testing::Bytes(server_.calls()[1].request.payload), testing::Bytes(payload));
}

TEST_F(ClientStoreTest, ASealedContextMustNameItsWholeChain) {
  const std::vector<TokenId> tail = {1, 2};
  const Payload payload = RandomPayload(UnitBytes(spec_) * 4, 1);
  ReplySeal([](v1::ContextInfo*) {});
  const auto sealed = client_->Seal(1, tail, payload);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->num_pages, 5u);
  EXPECT_EQ(sealed->chain_tip, KeyOf(3));

  const std::vector<std::function<void(v1::ContextInfo*)>> lies = {
      [](v1::ContextInfo* info) { info->clear_chain_tip(); },
      [](v1::ContextInfo* info) { info->set_chain_tip("short"); },
      [](v1::ContextInfo* info) { info->mutable_segment_keys()->RemoveLast(); },
      [](v1::ContextInfo* info) { info->set_num_pages(4); },
      [](v1::ContextInfo* info) { info->set_num_tokens(UINT64_MAX); },
      [](v1::ContextInfo* info) { info->set_num_tokens(20); },
      [](v1::ContextInfo* info) { info->mutable_spec()->set_page_tokens(0); },
      [](v1::ContextInfo* info) { info->clear_spec(); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    ReplySeal(lies[i]);
    EXPECT_TRUE(IsDataLoss(client_->Seal(1, tail, payload).status())) << "lie " << i;
  }
}

TEST_F(ClientStoreTest, ASealWhoseReplyWasLostIsRepeated) {
  server_.Fail("quire.v1.Store/Seal", Unavailable("the reply was lost"));
  ReplySeal([](v1::ContextInfo*) {});
  EXPECT_TRUE(client_->Seal(1, std::vector<TokenId>{1, 2}, RandomPayload(8, 1)).ok());
  EXPECT_EQ(server_.calls().size(), 2u);
}

TEST_F(ClientStoreTest, FetchReturnsUnitsThatMatchTheirChecksums) {
  const uint64_t unit = UnitBytes(spec_);
  const Payload payload = RandomPayload(6 * unit, 2);
  ReplyFetch(6, payload, testing::UnitChecksums(payload, unit));
  const std::vector<UnitRange> ranges = {{.layer = 0, .pages = {0, 2}},
                                         {.layer = 1, .pages = {1}, .heads = {0, 1}}};
  const auto fetched = client_->Fetch(KeyOf(1), ranges);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(testing::Bytes(*fetched), testing::Bytes(payload));
}

TEST_F(ClientStoreTest, FetchedBytesThatAreWrongInAnyWayAreNotReturned) {
  const uint64_t unit = UnitBytes(spec_);
  const std::vector<UnitRange> ranges = {{.layer = 0, .pages = {0, 2}, .heads = {1}}};
  std::vector<std::byte> bytes = testing::RandomBytes(2 * unit, 2);
  Payload good;
  good.Append(bytes);
  const std::vector<uint32_t> checksums = testing::UnitChecksums(good, unit);
  bytes[unit + 3] ^= std::byte{1};
  Payload flipped;
  flipped.Append(bytes);

  ReplyFetch(2, good, {checksums[0]});
  ReplyFetch(3, good, checksums);
  ReplyFetch(UINT64_MAX, good, checksums);
  ReplyFetch(2, RandomPayload(2 * unit - 1, 2), checksums);
  ReplyFetch(2, {}, checksums);
  ReplyFetch(0, good, {});
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(IsDataLoss(client_->Fetch(KeyOf(1), ranges).status())) << "reply " << i;
  }
  // Promise 2: the server hears which unit did not match, and is asked again.
  ReplyFetch(2, flipped, checksums);
  ReplyFetch(2, good, checksums);
  const auto fetched = client_->Fetch(KeyOf(1), ranges);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(testing::Bytes(*fetched), testing::Bytes(good));
  const auto request = server_.RequestOf<v1::FetchRequest>(server_.calls().size() - 1);
  ASSERT_EQ(request.mismatched_size(), 1);
  EXPECT_EQ(request.mismatched(0).page(), 2u);
  EXPECT_EQ(request.mismatched(0).head(), 1u);
  EXPECT_NE(request.mismatched(0).crc32c(), checksums[1]);
}

TEST_F(ClientStoreTest, LookupMustCoverWhatItsSegmentsCover) {
  const std::vector<TokenId> tokens(18, 3);
  const auto reply_with = [&](int segments, uint64_t num_tokens) {
    v1::LookupReply reply;
    for (int i = 0; i < segments; ++i) reply.add_segment_keys(wire::KeyToBytes(KeyOf(1)));
    reply.set_num_tokens(num_tokens);
    server_.Reply("quire.v1.Store/Lookup", reply);
    return client_->Lookup(spec_, tokens);
  };
  EXPECT_EQ(reply_with(2, 16)->num_tokens, 16u);
  EXPECT_EQ(reply_with(3, 18)->segment_keys.size(), 3u);
  EXPECT_EQ(reply_with(0, 0)->num_tokens, 0u);
  EXPECT_TRUE(IsDataLoss(reply_with(2, 18).status()));
  EXPECT_TRUE(IsDataLoss(reply_with(4, 18).status()));
}

TEST_F(ClientStoreTest, ListGathersAllPagesAndStopsAtOneThatRepeats) {
  v1::ListDocumentsReply first;
  *first.add_documents() = ProtoDocument("a", 1);
  first.set_next_page_token("more");
  v1::ListDocumentsReply last;
  *last.add_documents() = ProtoDocument("b", 2);
  server_.Reply("quire.v1.Registry/List", first);
  server_.Reply("quire.v1.Registry/List", last);
  const auto documents = client_->ListDocuments("");
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_EQ(documents->size(), 2u);
  EXPECT_EQ((*documents)[1].name.name, "b");
  EXPECT_EQ(server_.RequestOf<v1::ListDocumentsRequest>(1).page_token(), "more");

  server_.Reply("quire.v1.Registry/List", first);
  server_.Reply("quire.v1.Registry/List", first);
  EXPECT_TRUE(IsDataLoss(client_->ListDocuments("").status()));
}

TEST_F(ClientStoreTest, ADocumentReplyMustBeAboutTheDocumentAskedFor) {
  const auto reply_with = [&](const v1::Document& document) {
    v1::GetDocumentReply reply;
    *reply.mutable_document() = document;
    server_.Reply("quire.v1.Registry/Get", reply);
    return client_->GetDocument({.name = "a", .version = 2}).status();
  };
  EXPECT_TRUE(reply_with(ProtoDocument("a", 2)).ok());
  EXPECT_TRUE(IsDataLoss(reply_with(ProtoDocument("b", 2))));
  EXPECT_TRUE(IsDataLoss(reply_with(ProtoDocument("a", 3))));
  EXPECT_TRUE(IsDataLoss(reply_with(ProtoDocument("a", 0))));
  EXPECT_TRUE(IsDataLoss(reply_with(v1::Document())));
}

TEST_F(ClientStoreTest, ADocumentBringsItsTimes) {
  v1::GetDocumentReply reply;
  *reply.mutable_document() = ProtoDocument("a", 2);
  reply.mutable_document()->set_ttl_seconds(60);
  reply.mutable_document()->set_expires_unix_micros(1'700'000'060'000'000);
  server_.Reply("quire.v1.Registry/Get", reply);
  const auto document = client_->GetDocument({.name = "a"});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->ttl_seconds, 60u);
  EXPECT_EQ(document->expires_unix_micros, 1'700'000'060'000'000);
  reply.mutable_document()->set_ttl_seconds(UINT64_MAX);
  server_.Reply("quire.v1.Registry/Get", reply);
  EXPECT_TRUE(IsDataLoss(client_->GetDocument({.name = "a"}).status()));
}

TEST_F(ClientStoreTest, OnlyWhatChangesOfACollectionIsSent) {
  v1::SetCollectionReply reply;
  reply.mutable_collection()->set_name("c");
  reply.mutable_collection()->set_codec("int8");
  for (int i = 0; i < 3; ++i) server_.Reply("quire.v1.Registry/SetCollection", reply);
  const auto set = client_->SetCollection("c", {.codec = "int8"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->codec, "int8");
  EXPECT_FALSE(set->codec_is_default);
  EXPECT_FALSE(set->ttl_seconds);
  ASSERT_TRUE(client_->SetCollection("c", {.ttl_seconds = 0}).ok());
  EXPECT_FALSE(server_.RequestOf<v1::SetCollectionRequest>(0).has_ttl_seconds());
  EXPECT_FALSE(server_.RequestOf<v1::SetCollectionRequest>(1).has_codec());
  EXPECT_TRUE(server_.RequestOf<v1::SetCollectionRequest>(1).has_ttl_seconds());
  EXPECT_TRUE(IsDataLoss(client_->SetCollection("d", {.codec = "int8"}).status()))
      << "a reply about another collection";
}

TEST_F(ClientStoreTest, ListsOfCollectionsAreGatheredAndChecked) {
  v1::ListCollectionsReply first;
  first.add_collections()->set_name("a");
  first.mutable_collections(0)->set_codec("raw");
  v1::ListCollectionsReply last = first;
  first.set_next_page_token("more");
  last.mutable_collections(0)->set_name("b");
  last.mutable_collections(0)->set_ttl_seconds(7);
  server_.Reply("quire.v1.Registry/ListCollections", first);
  server_.Reply("quire.v1.Registry/ListCollections", last);
  const auto collections = client_->ListCollections();
  ASSERT_TRUE(collections.ok()) << collections.status();
  ASSERT_EQ(collections->size(), 2u);
  EXPECT_EQ((*collections)[1].ttl_seconds, 7u);
  server_.Reply("quire.v1.Registry/ListCollections", first);
  server_.Reply("quire.v1.Registry/ListCollections", first);
  EXPECT_TRUE(IsDataLoss(client_->ListCollections().status())) << "it would never end";
  last.mutable_collections(0)->clear_codec();
  server_.Reply("quire.v1.Registry/ListCollections", last);
  EXPECT_TRUE(IsDataLoss(client_->ListCollections().status()));
}

}  // namespace
}  // namespace quire
