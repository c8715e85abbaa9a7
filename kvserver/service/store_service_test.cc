// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/testing/service_fixture.h"
#include "kvserver/session/testing/fake_page_store.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class StoreServiceTest : public ServiceFixture {
 protected:
  /// A request for one whole segment, and its payload [layers][pages][n_kv].
  v1::PutSegmentRequest PutRequest(std::vector<std::byte>* payload, uint64_t seed = 1) const {
    payload->clear();
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      for (uint32_t page = 0; page < spec_.segment_pages; ++page) {
        for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
          const auto unit = TestUnit(spec_, page, layer, head, spec_.page_tokens, seed);
          payload->insert(payload->end(), unit.begin(), unit.end());
        }
      }
    }
    v1::PutSegmentRequest request;
    *request.mutable_spec() = SpecProto();
    for (const TokenId id : TestTokens(spec_.segment_tokens())) request.add_tokens(id);
    request.set_payload_crc32c(Crc(*payload));
    return request;
  }
  StatusOr<v1::PutSegmentReply> Put(const v1::PutSegmentRequest& request,
                                    std::vector<std::byte> payload) {
    return Call<v1::PutSegmentReply>("Store/PutSegment", request, std::move(payload));
  }
  /// Fetches and compares: all heads of `pages` at `layer`.
  void ExpectFetch(const v1::ContextRef& context, uint32_t layer, std::vector<uint32_t> pages,
                   uint64_t num_tokens) {
    v1::FetchRequest request;
    *request.mutable_context() = context;
    v1::UnitRange* range = request.add_ranges();
    range->set_layer(layer);
    range->mutable_pages()->Add(pages.begin(), pages.end());
    Payload payload;
    const auto reply = Call<v1::FetchReply>("Store/Fetch", request, {}, &payload);
    ASSERT_TRUE(reply.ok()) << reply.status();
    std::vector<std::byte> expected;
    for (const uint32_t page : pages) {
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        const auto unit = TestUnit(spec_, page, layer, head, TokensInPage(spec_, num_tokens, page));
        EXPECT_EQ(reply->unit_crc32c(static_cast<int>(expected.size() / unit.size())), Crc(unit));
        expected.insert(expected.end(), unit.begin(), unit.end());
      }
    }
    const Slice bytes = payload.Flatten();
    EXPECT_TRUE(
        std::equal(bytes.bytes.begin(), bytes.bytes.end(), expected.begin(), expected.end()));
  }
};

TEST_F(StoreServiceTest, ATenantThatIsRefusedIsToldToOperators) {
  for (int i = 0; i < 4; ++i) OpenContext();
  v1::OpenContextRequest request;
  *request.mutable_spec() = SpecProto();
  ASSERT_EQ(Call<v1::OpenContextReply>("Store/OpenContext", request).status().code(),
            StatusCode::kResourceExhausted);
  tenant_ = "nobody";
  ASSERT_FALSE(Call<v1::OpenContextReply>("Store/OpenContext", request).ok());
  auto counters = MetricValuesOf(*server_);
  EXPECT_EQ(counters["troubles{reason=\"call_refused\"}"], 1u);
  EXPECT_EQ(counters["troubles{reason=\"caller_unproven\"}"], 1u);
}

TEST_F(StoreServiceTest, APutSegmentIsIdempotentAndItsBytesNeverChange) {
  std::vector<std::byte> payload, other;
  const auto request = PutRequest(&payload);
  const auto first = Put(request, payload);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->existed());
  const auto again = Put(request, payload);
  EXPECT_TRUE(again->existed());
  EXPECT_EQ(again->key(), first->key());
  const auto different = PutRequest(&other, /*seed=*/2);
  const auto taken = Put(different, other);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(taken->existed() && taken->differs());
  EXPECT_FALSE(again->differs());
  auto strict = different;
  strict.set_strict(true);
  EXPECT_EQ(Put(strict, other).status().code(), StatusCode::kAlreadyExists);
  ExpectFetch(RefTo(first->key()), 1, {0, 3}, spec_.segment_tokens());
}

TEST_F(StoreServiceTest, HostilePutsAreRefusedAndNothingIsStored) {
  std::vector<std::byte> payload;
  const v1::PutSegmentRequest good = PutRequest(&payload);
  const auto expect = [&](StatusCode code, const std::string& words, auto change) {
    v1::PutSegmentRequest request = good;
    std::vector<std::byte> bytes = payload;
    change(request, bytes);
    const auto reply = Put(request, bytes);
    EXPECT_EQ(reply.status().code(), code) << words;
    EXPECT_THAT(std::string(Message(reply.status())), HasSubstr(words));
  };
  using Put = v1::PutSegmentRequest;
  using Bytes = std::vector<std::byte>;
  expect(StatusCode::kDataLoss, "checksum", [](Put&, Bytes& b) { b[7] ^= std::byte{1}; });
  expect(StatusCode::kDataLoss, "checksum", [](Put& r, Bytes&) { r.set_payload_crc32c(1); });
  expect(StatusCode::kInvalidArgument, "", [](Put& r, Bytes& b) {
    b.pop_back();
    r.set_payload_crc32c(Crc(b));
  });
  expect(StatusCode::kInvalidArgument, "", [](Put& r, Bytes& b) {
    b.clear();
    r.set_payload_crc32c(0);
  });
  expect(StatusCode::kInvalidArgument, "tokens", [](Put& r, Bytes&) { r.add_tokens(1); });
  expect(StatusCode::kInvalidArgument, "tokens", [](Put& r, Bytes&) { r.clear_tokens(); });
  expect(StatusCode::kInvalidArgument, "tokens[3]", [](Put& r, Bytes&) { r.set_tokens(3, -1); });
  expect(StatusCode::kInvalidArgument, "parent", [](Put& r, Bytes&) { r.set_parent("short"); });
  expect(StatusCode::kInvalidArgument, "key",
         [](Put& r, Bytes&) { r.set_key(std::string(32, 'k')); });
  expect(StatusCode::kInvalidArgument, "durability",
         [](Put& r, Bytes&) { r.set_durability(static_cast<v1::Durability>(9)); });
  expect(StatusCode::kUnimplemented, "no replicas; ask for memory or persisted",
         [](Put& r, Bytes&) { r.set_durability(v1::DURABILITY_REPLICATED); });
  expect(StatusCode::kInvalidArgument, "num_layers",
         [](Put& r, Bytes&) { r.mutable_spec()->set_num_layers(1u << 31); });
  expect(StatusCode::kInvalidArgument, "",
         [](Put& r, Bytes&) { r.mutable_spec()->set_num_layers(5); });
  EXPECT_FALSE(this->Put(good, std::vector<std::byte>(1)).ok());
  v1::LookupRequest lookup;
  *lookup.mutable_spec() = SpecProto();
  *lookup.mutable_tokens() = good.tokens();
  EXPECT_EQ(Call<v1::LookupReply>("Store/Lookup", lookup)->num_tokens(), 0u);
}

TEST_F(StoreServiceTest, AContextLivesFromOpenToSealAndSurvivesARestart) {
  const v1::ContextInfo sealed = Sealed(6, 3);
  EXPECT_EQ(sealed.num_tokens(), 27u);
  EXPECT_EQ(sealed.num_pages(), 7u);
  EXPECT_EQ(sealed.segment_keys_size(), 2);
  EXPECT_EQ(sealed.chain_tip(), sealed.segment_keys(1));
  Start();
  ExpectFetch(RefTo(sealed.chain_tip()), 2, {6, 0, 5}, 27);
  v1::StatRequest stat;
  *stat.mutable_context() = RefTo(sealed.chain_tip());
  const auto reply = Call<v1::StatReply>("Store/Stat", stat);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->bytes(), SegmentBytes(spec_, 7));
  EXPECT_EQ(reply->segments_on_ssd(), 2u);
  v1::LookupRequest lookup;
  *lookup.mutable_spec() = SpecProto();
  for (const TokenId id : TestTokens(40)) lookup.add_tokens(id);
  const auto found = Call<v1::LookupReply>("Store/Lookup", lookup);
  EXPECT_EQ(found->num_tokens(), 16u);  // The short segment ends elsewhere.
  EXPECT_EQ(found->segment_keys(0), sealed.segment_keys(0));
}

TEST_F(StoreServiceTest, AnOpenContextIsReadWhileItGrows) {
  v1::ContextRef chain = RefTo(Sealed(6, 3).chain_tip()), open;
  open.set_open_context(OpenContext(&chain));
  ASSERT_TRUE(Append(open.open_context(), 6, 1).ok());
  ExpectFetch(open, 0, {1, 4, 6}, 28);
  v1::StatRequest stat;
  *stat.mutable_context() = open;
  const auto reply = Call<v1::StatReply>("Store/Stat", stat);
  EXPECT_EQ(reply->bytes(), SegmentBytes(spec_, 7));
  EXPECT_EQ(reply->context().chain_tip(), "");
}

TEST_F(StoreServiceTest, HostileAppendsAreRefused) {
  const uint64_t context = OpenContext();
  const auto units = TestPages(spec_, 0, 2);
  auto request = AppendRequest(context, 0, 2, units);
  const auto send = [&](const v1::AppendPagesRequest& r, const std::vector<std::byte>& b) {
    return Call<v1::AppendPagesReply>("Store/AppendPages", r, b).status().code();
  };
  EXPECT_EQ(send(request, {}), StatusCode::kDataLoss);
  request.set_context_id(context + 1);
  EXPECT_EQ(send(request, units), StatusCode::kNotFound);
  request.set_context_id(context);
  request.set_first_page(~0u);
  EXPECT_EQ(send(request, units), StatusCode::kInvalidArgument);
  request.set_first_page(0);
  request.add_tokens(7);
  EXPECT_EQ(send(request, units), StatusCode::kInvalidArgument);
  request.clear_tokens();
  EXPECT_EQ(send(request, units), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Append(context, 0, 2).ok());
  EXPECT_EQ(Append(context, 0, 2, /*seed=*/2).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Seal(context, 2, 4).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(StoreServiceTest, PagesSentLayerByLayerAreReadWhenTheyAreWholeAndSealedOnce) {
  v1::ContextRef open;
  open.set_open_context(OpenContext());
  const uint64_t id = open.open_context();
  EXPECT_EQ(AppendLayers(id, 0, 4, {2})->num_tokens(), 0u);
  EXPECT_EQ(AppendLayers(id, 4, 2, {0, 2})->num_tokens(), 0u) << "a later range overtakes";
  EXPECT_EQ(AppendLayers(id, 0, 4, {0, 1})->num_tokens(), 16u);
  ExpectFetch(open, 1, {0, 3}, 16);
  EXPECT_EQ(Seal(id, 6, 3).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(AppendLayers(id, 4, 2, {1})->num_tokens(), 24u);
  EXPECT_EQ(AppendLayers(id, 0, 6, {0, 1, 2})->num_tokens(), 24u) << "everything again";
  const auto sealed = Seal(id, 6, 3);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(Seal(id, 6, 3)->context().chain_tip(), sealed->context().chain_tip());
  ExpectFetch(RefTo(sealed->context().chain_tip()), 2, {6, 0, 5}, 27);
  EXPECT_EQ(Sealed(6, 3).chain_tip(), sealed->context().chain_tip()) << "the same as whole pages";
}

TEST_F(StoreServiceTest, HostileLayersAreRefusedAndTakeNothing) {
  const uint64_t context = OpenContext();
  const std::vector<uint32_t> layers = {0, 2};
  const auto units = TestLayers(spec_, 0, 2, layers);
  const v1::AppendLayersRequest good = LayersRequest(context, 0, 2, layers, units);
  const auto expect = [&](StatusCode code, const std::string& words, auto change) {
    v1::AppendLayersRequest request = good;
    std::vector<std::byte> bytes = units;
    change(request, bytes);
    const auto reply = Call<v1::AppendLayersReply>("Store/AppendLayers", request, bytes);
    EXPECT_EQ(reply.status().code(), code) << words;
    EXPECT_THAT(std::string(Message(reply.status())), HasSubstr(words));
  };
  using Layers = v1::AppendLayersRequest;
  using Bytes = std::vector<std::byte>;
  expect(StatusCode::kDataLoss, "checksum", [](Layers&, Bytes& b) { b[7] ^= std::byte{1}; });
  expect(StatusCode::kDataLoss, "checksum", [](Layers&, Bytes& b) { b.clear(); });
  expect(StatusCode::kNotFound, "", [](Layers& r, Bytes&) { r.set_context_id(1); });
  expect(StatusCode::kInvalidArgument, "layers is empty",
         [](Layers& r, Bytes&) { r.clear_layers(); });
  expect(StatusCode::kInvalidArgument, "layers", [](Layers& r, Bytes&) { r.set_layers(1, 3); });
  expect(StatusCode::kInvalidArgument, "layers", [](Layers& r, Bytes&) { r.set_layers(1, 0); });
  expect(StatusCode::kInvalidArgument, "layers", [](Layers& r, Bytes&) { r.set_layers(0, ~0u); });
  expect(StatusCode::kInvalidArgument, "layers", [](Layers& r, Bytes&) { r.add_layers(2); });
  expect(StatusCode::kInvalidArgument, "2 pages take",
         [](Layers& r, Bytes&) { r.mutable_layers()->RemoveLast(); });
  expect(StatusCode::kInvalidArgument, "whole number of pages",
         [](Layers& r, Bytes&) { r.add_tokens(7); });
  expect(StatusCode::kInvalidArgument, "tokens", [](Layers& r, Bytes&) { r.clear_tokens(); });
  expect(StatusCode::kInvalidArgument, "tokens[2]", [](Layers& r, Bytes&) { r.set_tokens(2, -1); });
  expect(StatusCode::kInvalidArgument, "first_page is 1",
         [](Layers& r, Bytes&) { r.set_first_page(1); });
  expect(StatusCode::kInvalidArgument, "first_page",
         [](Layers& r, Bytes&) { r.set_first_page(~0u); });
  expect(StatusCode::kOk, "", [](Layers&, Bytes&) {});
  expect(StatusCode::kAlreadyExists, "other tokens",
         [](Layers& r, Bytes&) { r.set_tokens(5, 9999); });
  EXPECT_EQ(AppendLayers(context, 1, 1, {2}, /*seed=*/2).status().code(),
            StatusCode::kAlreadyExists);
  tenant_ = "team-b";
  EXPECT_EQ(AppendLayers(context, 0, 2, {1}).status().code(), StatusCode::kNotFound);
}

TEST_F(StoreServiceTest, ContextsAreBoundedDroppedAndEndWhenNobodyRenewsThem) {
  v1::DropContextRequest drop;
  for (int i = 0; i < 4; ++i) drop.set_context_id(OpenContext());
  v1::OpenContextRequest open;
  *open.mutable_spec() = SpecProto();
  const auto fifth = Call<v1::OpenContextReply>("Store/OpenContext", open);
  EXPECT_EQ(fifth.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Call<v1::DropContextReply>("Store/DropContext", drop).ok());
  EXPECT_EQ(Call<v1::DropContextReply>("Store/DropContext", drop).status().code(),
            StatusCode::kNotFound);
  EXPECT_NE(OpenContext(), 0u);
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_NE(OpenContext(), 0u);
}

TEST_F(StoreServiceTest, ALeaseIsNamedInTheReplyAndRenewedForManyAtOnce) {
  v1::OpenContextRequest open;
  *open.mutable_spec() = SpecProto();
  const auto opened = Call<v1::OpenContextReply>("Store/OpenContext", open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->lease_seconds(), ServerOptions().idle_seconds);
  const uint64_t left = OpenContext();
  v1::RenewRequest renew;
  renew.add_context_ids(opened->context_id());
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(std::chrono::seconds(opened->lease_seconds()) * 2 / 3);
    const auto renewed = Call<v1::RenewReply>("Leases/Renew", renew);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_EQ(renewed->gone_context_ids_size(), 0);
  }
  renew.add_context_ids(left);
  renew.add_session_ids(7);
  const auto renewed = Call<v1::RenewReply>("Leases/Renew", renew);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_THAT(renewed->gone_context_ids(), ::testing::ElementsAre(left));
  EXPECT_THAT(renewed->gone_session_ids(), ::testing::ElementsAre(7u));
  tenant_ = "team-b";
  EXPECT_EQ(Call<v1::RenewReply>("Leases/Renew", renew)->gone_context_ids_size(), 2);
  renew.mutable_context_ids()->Resize(4097, 1);
  EXPECT_EQ(Call<v1::RenewReply>("Leases/Renew", renew).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(StoreServiceTest, ContinuingUnderAnotherSpecNamesTheField) {
  v1::OpenContextRequest open;
  *open.mutable_spec() = SpecProto();
  open.mutable_spec()->set_page_tokens(8);
  *open.mutable_continues() = RefTo(Sealed(4).chain_tip());
  const auto reply = Call<v1::OpenContextReply>("Store/OpenContext", open);
  EXPECT_EQ(reply.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(reply.status())), HasSubstr("page_tokens"));
}

TEST_F(StoreServiceTest, FetchesOutsideTheContextOrTooLargeAreRefused) {
  const v1::ContextRef context = RefTo(Sealed(4).chain_tip());
  const auto fetch = [&](uint32_t layer, std::vector<uint32_t> pages, std::vector<uint32_t> heads) {
    v1::FetchRequest request;
    *request.mutable_context() = context;
    v1::UnitRange* range = request.add_ranges();
    range->set_layer(layer);
    range->mutable_pages()->Add(pages.begin(), pages.end());
    range->mutable_heads()->Add(heads.begin(), heads.end());
    return Call<v1::FetchReply>("Store/Fetch", request).status().code();
  };
  EXPECT_EQ(fetch(0, {3}, {1}), StatusCode::kOk);
  EXPECT_EQ(fetch(0, {}, {}), StatusCode::kOk);
  EXPECT_EQ(fetch(3, {0}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(fetch(0, {4}, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(fetch(0, {0}, {2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(fetch(0, std::vector<uint32_t>(4000, 1), {}), StatusCode::kResourceExhausted);
  EXPECT_EQ(Call<v1::FetchReply>("Store/Fetch", v1::FetchRequest()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(StoreServiceTest, TenantsSeeNothingOfEachOther) {
  const v1::ContextInfo sealed = Sealed(4);
  const uint64_t context = OpenContext();
  tenant_ = "team-b";
  v1::StatRequest stat;
  *stat.mutable_context() = RefTo(sealed.chain_tip());
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Append(context, 0, 1).status().code(), StatusCode::kNotFound);
  const v1::ContextInfo own = Sealed(4);
  EXPECT_NE(own.chain_tip(), sealed.chain_tip());
}

TEST_F(StoreServiceTest, DeleteCountsAndSparesWhatDocumentsUse) {
  const uint64_t context = OpenContext();
  ASSERT_TRUE(Append(context, 0, 8).ok());
  const v1::ContextInfo sealed = Seal(context, 8, 0)->context();
  v1::RegisterRequest document;
  document.mutable_name()->set_collection("c");
  document.mutable_name()->set_name("d");
  document.set_chain_tip(sealed.chain_tip());
  document.set_context_id(context);
  ASSERT_TRUE(Call<v1::RegisterReply>("Registry/Register", document).ok());
  v1::DeleteRequest request;
  EXPECT_EQ(Call<v1::DeleteReply>("Store/Delete", request).status().code(),
            StatusCode::kInvalidArgument);
  *request.mutable_segment_keys() = sealed.segment_keys();
  EXPECT_EQ(Call<v1::DeleteReply>("Store/Delete", request).status().code(),
            StatusCode::kFailedPrecondition);
  v1::DeleteDocumentRequest remove;
  *remove.mutable_name() = document.name();
  remove.set_keep_segments(true);
  ASSERT_TRUE(Call<v1::DeleteDocumentReply>("Registry/Delete", remove).ok());
  EXPECT_EQ(Call<v1::DeleteReply>("Store/Delete", request)->num_deleted(), 2u);
  EXPECT_EQ(Call<v1::DeleteReply>("Store/Delete", request).status().code(), StatusCode::kNotFound);
}

/// The store's methods over a store that reports the codec of a put.
class CodecOfPutsTest : public StoreServiceTest {
 protected:
  class WitnessStore final : public FakePageStore {
   public:
    StatusOr<PutSegmentResult> PutSegment(std::string_view tenant,
                                          const PutSegmentArgs& args) override {
      codecs.push_back(Name(args.codec));
      return FakePageStore::PutSegment(tenant, args);
    }
    std::vector<std::string> codecs;
  };
  CodecOfPutsTest() {
    AddStoreMethods({.store = &store_,
                     .registry = registry_.get(),
                     .contexts = &contexts_,
                     .resolver = &resolver_,
                     .max_reply_bytes = 1 << 20},
                    &dispatcher_);
    transport_ = std::make_unique<LoopbackTransport>(&dispatcher_, LoopbackTransport::Options{});
  }
  ~CodecOfPutsTest() override { transport_.reset(); }
  void SetCodec(const std::string& collection, const std::string& codec) {
    SettingsChange change;
    change.codec = *CodecByName(codec);
    ASSERT_TRUE(registry_->SetCollection("default", collection, change).ok());
  }

  WitnessStore store_;
  std::unique_ptr<DocumentRegistry> registry_ =
      DocumentRegistry::Open(&store_, &store_.metadata(), &clock_, *CodecByName("fp8")).value();
  ContextTable contexts_{{.store = &store_, .ops = &kernels::CpuReference(), .clock = &clock_}};
  ContextResolver resolver_{&store_, registry_.get(), &contexts_};
  Admission door_{{.door = "any"}};
  Dispatcher dispatcher_{{.store = &store_, .reads = &door_, .writes = &door_, .clock = &clock_}};
};

TEST_F(CodecOfPutsTest, SegmentsArePutWithTheCodecOfTheirCollection) {
  SetCodec("books", "int8+zstd");
  std::vector<std::byte> payload;
  v1::PutSegmentRequest request = PutRequest(&payload);
  for (const char* collection : {"", "books", "never-set"}) {
    request.set_collection(collection);
    const auto put = Put(request, payload);
    ASSERT_TRUE(put.ok()) << put.status();
  }
  EXPECT_EQ(store_.codecs, (std::vector<std::string>{"fp8", "int8+zstd", "fp8"}));
  request.set_collection("a/b");
  EXPECT_EQ(Put(request, payload).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CodecOfPutsTest, AContextKeepsTheCodecThatItsCollectionHadWhenItWasOpened) {
  SetCodec("books", "int4");
  v1::OpenContextRequest request;
  *request.mutable_spec() = SpecProto();
  request.set_collection("books");
  const auto opened = Call<v1::OpenContextReply>("Store/OpenContext", request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  SetCodec("books", "raw");
  ASSERT_TRUE(Append(opened->context_id(), 0, 5).ok());
  ASSERT_TRUE(Seal(opened->context_id(), 5, 2).ok());
  EXPECT_EQ(store_.codecs, (std::vector<std::string>{"int4", "int4"}));
  request.set_collection("tab\t");
  EXPECT_EQ(Call<v1::OpenContextReply>("Store/OpenContext", request).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(StoreServiceTest, RepresentativesAreCheckedAndPutOnce) {
  const uint64_t context = OpenContext();
  ASSERT_TRUE(Append(context, 0, spec_.segment_pages).ok());
  const auto sealed = Seal(context, spec_.segment_pages, 0);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  const size_t bytes = size_t{spec_.num_layers} * spec_.segment_pages * spec_.num_kv_heads *
                       spec_.key_dim() * ElementBytes(spec_.dtype);
  const auto put = [&](const std::string& key, std::vector<std::byte> digests, uint32_t flip = 0) {
    v1::PutRepresentativesRequest request;
    request.set_key(key);
    request.set_payload_crc32c(Crc(digests) ^ flip);
    return Call<v1::PutRepresentativesReply>("Store/PutRepresentatives", request,
                                             std::move(digests));
  };
  const std::string& tip = sealed->context().chain_tip();
  const std::vector<std::byte> digests(bytes, std::byte{1});
  EXPECT_EQ(put("short", digests).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(put(std::string(32, 'x'), digests).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(put(tip, digests, 1).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(put(tip, {}).status().code(), StatusCode::kInvalidArgument);
  for (const bool existed : {false, true}) {
    const auto reply = put(tip, digests);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->existed(), existed);
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
