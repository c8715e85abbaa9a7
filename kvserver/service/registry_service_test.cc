// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "kvserver/service/testing/service_fixture.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver::testing {
namespace {

class RegistryServiceTest : public ServiceFixture {
 protected:
  StatusOr<v1::RegisterReply> Register(const std::string& name, const std::string& tip,
                                       uint64_t ttl_seconds = 0) {
    v1::RegisterRequest request;
    request.set_ttl_seconds(ttl_seconds);
    request.mutable_name()->set_collection("books");
    request.mutable_name()->set_name(name);
    request.set_chain_tip(tip);
    return Call<v1::RegisterReply>("Registry/Register", request);
  }
  static v1::GetDocumentRequest Named(const std::string& name) {
    v1::GetDocumentRequest request;
    request.mutable_name()->set_collection("books");
    request.mutable_name()->set_name(name);
    return request;
  }
  StatusOr<v1::Collection> SetCollection(const std::string& collection,
                                         std::optional<std::string> codec,
                                         std::optional<uint64_t> ttl_seconds) {
    v1::SetCollectionRequest request;
    request.set_collection(collection);
    if (codec) request.set_codec(*codec);
    if (ttl_seconds) request.set_ttl_seconds(*ttl_seconds);
    QUIRE_ASSIGN_OR_RETURN(const auto reply,
                           Call<v1::SetCollectionReply>("Registry/SetCollection", request));
    return reply.collection();
  }
  StatusOr<v1::Collection> GetCollection(const std::string& collection) {
    v1::GetCollectionRequest request;
    request.set_collection(collection);
    QUIRE_ASSIGN_OR_RETURN(const auto reply,
                           Call<v1::GetCollectionReply>("Registry/GetCollection", request));
    return reply.collection();
  }
  uint64_t CounterOf(const std::string& name) const { return MetricValuesOf(*server_).at(name); }
};

TEST_F(RegistryServiceTest, ADocumentIsFoundReadAndDeleted) {
  const v1::ContextInfo sealed = Sealed(5, 2);
  const auto registered = Register("wörterbuch", sealed.chain_tip());
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->document().name().version(), 1u);
  EXPECT_EQ(registered->document().num_tokens(), 22u);
  EXPECT_EQ(registered->document().model(), "test");

  const auto got = Call<v1::GetDocumentReply>("Registry/Get", Named("wörterbuch"));
  EXPECT_EQ(got->document().chain_tip(), sealed.chain_tip());
  v1::StatRequest stat;
  *stat.mutable_context()->mutable_document() = Named("wörterbuch").name();
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat)->context().num_tokens(), 22u);

  v1::DeleteDocumentRequest remove;
  *remove.mutable_name() = Named("wörterbuch").name();
  EXPECT_EQ(Call<v1::DeleteDocumentReply>("Registry/Delete", remove)->num_documents(), 1u);
  EXPECT_EQ(Call<v1::GetDocumentReply>("Registry/Get", Named("wörterbuch")).status().code(),
            StatusCode::kNotFound);
}

// Promise 3: a client's acknowledged segments stay for it, whatever others delete meanwhile. They
// are deleted once every client is gone.
TEST_F(RegistryServiceTest, Promise3ADeleteTakesNothingThatAnOpenContextCovers) {
  const std::string tip = Sealed(8).chain_tip();
  ASSERT_TRUE(Register("a", tip).ok());
  const uint64_t context = OpenContext();
  ASSERT_TRUE(Append(context, 0, 8).ok()) << "both segments existed";
  v1::DeleteDocumentRequest remove;
  *remove.mutable_name() = Named("a").name();
  EXPECT_EQ(Call<v1::DeleteDocumentReply>("Registry/Delete", remove)->num_segments(), 0u);
  const auto sealed = Seal(context, 8, 2);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  ASSERT_TRUE(Register("b", sealed->context().chain_tip()).ok());
  Start();
  v1::StatRequest stat;
  *stat.mutable_context()->mutable_document() = Named("b").name();
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat)->segments_on_ssd(), 3u);
  *remove.mutable_name() = Named("b").name();
  EXPECT_EQ(Call<v1::DeleteDocumentReply>("Registry/Delete", remove)->num_segments(), 3u);
  EXPECT_EQ(CounterOf("segments"), 0u);
  EXPECT_EQ(CounterOf("ssd_bytes_used"), 0u);
}

TEST_F(RegistryServiceTest, ListsInPages) {
  const std::string tip = Sealed(4).chain_tip();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Register(name, tip).ok());
  v1::ListDocumentsRequest request;
  request.set_page_size(2);
  const auto first = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(first->documents_size(), 2);
  request.set_page_token(first->next_page_token());
  const auto second = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(second->documents_size(), 1);
  EXPECT_EQ(second->documents(0).name().name(), "c");
  EXPECT_EQ(second->next_page_token(), "");
  request.set_page_size(1001);
  EXPECT_EQ(Call<v1::ListDocumentsReply>("Registry/List", request).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(RegistryServiceTest, TheLongestNamesAreListedInPagesToo) {
  const std::string tip = Sealed(4).chain_tip();
  const std::string longest(255, 'n');
  for (int version = 0; version < 2; ++version) {
    v1::RegisterRequest request;
    request.mutable_name()->set_collection(longest);
    request.mutable_name()->set_name(longest);
    request.set_chain_tip(tip);
    ASSERT_TRUE(Call<v1::RegisterReply>("Registry/Register", request).ok());
  }
  v1::ListDocumentsRequest request;
  request.set_page_size(1);
  const auto first = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(first->documents_size(), 1);
  request.set_page_token(first->next_page_token());
  const auto second = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->documents_size(), 1);
}

TEST_F(RegistryServiceTest, BadNamesTipsAndHashesAreRefused) {
  const std::string tip = Sealed(4).chain_tip();
  for (const std::string name : {"", "a/b", "tab\t"}) {
    EXPECT_EQ(Register(name, tip).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Register(std::string(256, 'x'), tip).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register("d", "short").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register("d", std::string(32, 'k')).status().code(), StatusCode::kNotFound);
  v1::RegisterRequest hash;
  *hash.mutable_name() = Named("d").name();
  hash.set_chain_tip(tip);
  hash.set_content_hash("123");
  EXPECT_EQ(Call<v1::RegisterReply>("Registry/Register", hash).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Call<v1::GetDocumentReply>("Registry/Get", Named("d")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(RegistryServiceTest, SettingsOfACollectionAreChangedReadAndListed) {
  const auto unset = GetCollection("books");
  ASSERT_TRUE(unset.ok()) << unset.status();
  EXPECT_EQ(unset->codec(), "raw");
  EXPECT_TRUE(unset->codec_is_default());
  EXPECT_EQ(unset->ttl_seconds(), 0u);

  ASSERT_TRUE(SetCollection("books", "int8+zstd", {}).ok());
  const auto both = SetCollection("books", {}, 60);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->codec(), "int8+zstd");
  EXPECT_FALSE(both->codec_is_default());
  EXPECT_EQ(both->ttl_seconds(), 60u);
  ASSERT_TRUE(SetCollection("a", "raw", {}).ok());
  v1::ListCollectionsRequest list;
  list.set_page_size(1);
  const auto first = Call<v1::ListCollectionsReply>("Registry/ListCollections", list);
  ASSERT_EQ(first->collections_size(), 1);
  EXPECT_EQ(first->collections(0).name(), "a");
  list.set_page_token(first->next_page_token());
  const auto second = Call<v1::ListCollectionsReply>("Registry/ListCollections", list);
  ASSERT_EQ(second->collections_size(), 1);
  EXPECT_EQ(second->collections(0).SerializeAsString(), both->SerializeAsString());
  EXPECT_EQ(second->next_page_token(), "");
  EXPECT_EQ(CounterOf("collections"), 2u);

  Start();
  EXPECT_EQ(GetCollection("books")->SerializeAsString(), both->SerializeAsString());
  tenant_ = "team-b";
  EXPECT_EQ(GetCollection("books")->codec(), "raw");
  tenant_ = "default";
  const auto back = SetCollection("books", "", 0);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), unset->SerializeAsString());
  EXPECT_EQ(CounterOf("collections"), 1u);
}

TEST_F(RegistryServiceTest, ADocumentIsPinnedUntilItIsUnpinnedAlsoOverARestart) {
  ASSERT_TRUE(Register("a", Sealed(4).chain_tip()).ok());
  v1::PinDocumentRequest pin;
  v1::UnpinDocumentRequest unpin;
  *pin.mutable_name() = *unpin.mutable_name() = Named("a").name();
  const auto first = Call<v1::PinDocumentReply>("Registry/PinDocument", pin);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->was_pinned());
  EXPECT_EQ(first->document().name().version(), 1u);
  EXPECT_TRUE(Call<v1::PinDocumentReply>("Registry/PinDocument", pin)->was_pinned());
  EXPECT_EQ(CounterOf("documents_pinned"), 1u);
  EXPECT_TRUE(Call<v1::UnpinDocumentReply>("Registry/UnpinDocument", unpin)->was_pinned());
  EXPECT_FALSE(Call<v1::UnpinDocumentReply>("Registry/UnpinDocument", unpin)->was_pinned());
  ASSERT_TRUE(Call<v1::PinDocumentReply>("Registry/PinDocument", pin).ok());
  Start();
  EXPECT_EQ(CounterOf("documents_pinned"), 1u);
  EXPECT_TRUE(Call<v1::UnpinDocumentReply>("Registry/UnpinDocument", unpin)->was_pinned());
  EXPECT_FALSE(Call<v1::UnpinDocumentReply>("Registry/UnpinDocument", unpin)->was_pinned());
  *pin.mutable_name() = Named("b").name();
  EXPECT_EQ(Call<v1::PinDocumentReply>("Registry/PinDocument", pin).status().code(),
            StatusCode::kNotFound);
}

TEST_F(RegistryServiceTest, BadSettingsAreRefused) {
  const auto code = [&](const std::string& collection, std::optional<std::string> codec,
                        std::optional<uint64_t> ttl) {
    return SetCollection(collection, std::move(codec), ttl).status().code();
  };
  EXPECT_EQ(code("books", {}, {}), StatusCode::kInvalidArgument) << "nothing is set";
  EXPECT_EQ(code("", "raw", {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("a/b", "raw", {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("books", {}, wire::kMaxTtlSeconds + 1), StatusCode::kInvalidArgument);
  const Status codec = SetCollection("books", "int7", 5).status();
  EXPECT_EQ(codec.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(codec)), ::testing::HasSubstr("int8"));
  EXPECT_EQ(GetCollection("tab\t").status().code(), StatusCode::kInvalidArgument);
  v1::ListCollectionsRequest list;
  list.set_page_size(1001);
  EXPECT_EQ(Call<v1::ListCollectionsReply>("Registry/ListCollections", list).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CounterOf("collections"), 0u);
}

TEST_F(RegistryServiceTest, AnExpiredDocumentIsGoneForEveryCallAndItsSegmentsAreRemoved) {
  const v1::ContextInfo sealed = Sealed(4);
  const auto registered = Register("a", sealed.chain_tip(), 60);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const int64_t expiry = clock_.UnixMicros() + 60'000'000;
  EXPECT_EQ(registered->document().ttl_seconds(), 60u);
  EXPECT_EQ(registered->document().expires_unix_micros(), expiry);
  v1::StatRequest stat;
  *stat.mutable_context()->mutable_document() = Named("a").name();
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat)->expires_unix_micros(), expiry);
  EXPECT_EQ(Register("b", sealed.chain_tip(), wire::kMaxTtlSeconds + 1).status().code(),
            StatusCode::kInvalidArgument);

  clock_.Advance(std::chrono::seconds(60));
  EXPECT_EQ(Call<v1::GetDocumentReply>("Registry/Get", Named("a")).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(
      Call<v1::ListDocumentsReply>("Registry/List", v1::ListDocumentsRequest())->documents_size(),
      0);
  Start();  // Its thread polls at once, without waiting for its period.
  // The new server's first poll may delete them, or the old one's.
  while (CounterOf("segments") != 0) quire::testing::WaitToLookAgain();
  *stat.mutable_context() = RefTo(sealed.chain_tip());
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat).status().code(), StatusCode::kNotFound);
}

TEST_F(RegistryServiceTest, AnIngestIsRenewedRegisteredAndWatched) {
  v1::BeginIngestRequest begin;
  *begin.mutable_name() = Named("a").name();
  (*begin.mutable_tags())["team"].set_text("ops");
  begin.set_source("/tmp/a");
  const auto begun = Call<v1::BeginIngestReply>("Registry/BeginIngest", begin);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_GT(begun->lease_seconds(), 0u);
  v1::RenewRequest renew;
  renew.add_ingest_ids(begun->ingest_id());
  renew.add_ingest_ids(begun->ingest_id() + 1);
  EXPECT_EQ(Call<v1::RenewReply>("Leases/Renew", renew)->gone_ingest_ids_size(), 1);

  v1::RegisterRequest request;
  *request.mutable_name() = begun->document().name();
  request.set_chain_tip(Sealed(4).chain_tip());
  request.set_ingest_id(begun->ingest_id());
  const auto registered = Call<v1::RegisterReply>("Registry/Register", request);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->document().tags().at("team").text(), "ops");
  EXPECT_EQ(registered->document().state(), v1::DOCUMENT_STATE_READY);

  const auto page = Call<v1::WatchReply>("Registry/Watch", v1::WatchRequest());
  ASSERT_EQ(page->events_size(), 2);
  EXPECT_EQ(page->events(1).kind(), v1::DOCUMENT_EVENT_KIND_REGISTERED);
  Start();
  v1::WatchRequest rest;
  rest.set_after(page->position());
  EXPECT_EQ(Call<v1::WatchReply>("Registry/Watch", rest)->events_size(), 0);
  rest.set_after(page->position() + 1);
  EXPECT_EQ(Call<v1::WatchReply>("Registry/Watch", rest).status().code(), StatusCode::kOutOfRange);
}

TEST_F(RegistryServiceTest, ReadsOfADocumentAreCounted) {
  ASSERT_TRUE(Register("a", Sealed(4).chain_tip()).ok());
  v1::OpenContextRequest open;
  *open.mutable_spec() = SpecProto();
  *open.mutable_continues()->mutable_document() = Named("a").name();
  ASSERT_TRUE(Call<v1::OpenContextReply>("Store/OpenContext", open).ok());
  v1::FetchRequest fetch;
  *fetch.mutable_context()->mutable_document() = Named("a").name();
  v1::UnitRange& range = *fetch.add_ranges();
  range.add_pages(0);
  range.add_heads(0);
  ASSERT_TRUE(Call<v1::FetchReply>("Store/Fetch", fetch).ok());
  const auto got = Call<v1::GetDocumentReply>("Registry/Get", Named("a"));
  EXPECT_EQ(got->document().statistics().questions(), 1u);
  EXPECT_EQ(got->document().statistics().tokens_saved(), got->document().num_tokens());
  EXPECT_GT(got->document().statistics().bytes_served(), 0u);
}

TEST_F(RegistryServiceTest, AQuestionCountsForTheDocumentThatWasNamed) {
  const std::string tip = Sealed(4).chain_tip();
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Register(name, tip).ok());
  ASSERT_TRUE(Register("other", Sealed(6).chain_tip()).ok());
  v1::OpenContextRequest open;
  *open.mutable_spec() = SpecProto();
  open.mutable_continues()->set_chain_tip(tip);
  for (const char* name : {"b", "other", "gone"}) {
    *open.mutable_question_about() = Named(name).name();
    ASSERT_TRUE(Call<v1::OpenContextReply>("Store/OpenContext", open).ok()) << name;
  }
  const auto questions = [&](const char* name) {
    return Call<v1::GetDocumentReply>("Registry/Get", Named(name))
        ->document()
        .statistics()
        .questions();
  };
  EXPECT_EQ(questions("b"), 1u);
  EXPECT_EQ(questions("a"), 0u) << "of the same chain, and not named";
  EXPECT_EQ(questions("other"), 0u) << "its chain is another one";
  open.mutable_question_about()->set_name("");
  EXPECT_EQ(Call<v1::OpenContextReply>("Store/OpenContext", open).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(RegistryServiceTest, ExtrasAreVerifiedBothWays) {
  ASSERT_TRUE(Register("a", Sealed(4).chain_tip()).ok());
  const std::vector<std::byte> bytes(100, std::byte{7});
  v1::PutExtraRequest put;
  *put.mutable_document() = Named("a").name();
  put.set_name("summary");
  put.set_version(1);
  put.set_payload_crc32c(Crc(bytes) + 1);
  EXPECT_TRUE(IsDataLoss(Call<v1::PutExtraReply>("Registry/PutExtra", put, bytes).status()));
  put.set_payload_crc32c(Crc(bytes));
  ASSERT_TRUE(Call<v1::PutExtraReply>("Registry/PutExtra", put, bytes).ok());
  v1::GetExtraRequest get;
  *get.mutable_document() = Named("a").name();
  get.set_name("summary");
  Payload payload;
  const auto got = Call<v1::GetExtraReply>("Registry/GetExtra", get, {}, &payload);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->extra().crc32c(), Crc(bytes));
  EXPECT_EQ(payload.size_bytes(), bytes.size());
}

TEST_F(RegistryServiceTest, RequestsThatSayNothingAreRefused) {
  const auto code = [](const auto& reply) { return reply.status().code(); };
  EXPECT_EQ(code(Call<v1::InvalidateReply>("Registry/Invalidate", v1::InvalidateRequest())),
            StatusCode::kInvalidArgument);
  v1::SetLatestRequest latest;
  *latest.mutable_name() = Named("a").name();
  EXPECT_EQ(code(Call<v1::SetLatestReply>("Registry/SetLatest", latest)),
            StatusCode::kInvalidArgument);
  v1::WatchRequest watch;
  watch.set_max_events(1001);
  EXPECT_EQ(code(Call<v1::WatchReply>("Registry/Watch", watch)), StatusCode::kInvalidArgument);
  v1::ListDocumentsRequest list;
  list.set_filter("nothing=1");
  EXPECT_EQ(code(Call<v1::ListDocumentsReply>("Registry/List", list)),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::kvserver::testing
