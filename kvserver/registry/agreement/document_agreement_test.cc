// SPDX-License-Identifier: Apache-2.0
//
// Registries of two servers that share an agreement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/documents/testing/memory_agreement.h"
#include "common/documents/testing/memory_collections.h"
#include "kvserver/registry/agreement/gone_names.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A server of the cluster: a store, its metadata and a registry.
struct Node {
  Node(Clock* its_clock, DocumentAgreement* its_agreement, CollectionAgreement* its_settings)
      : clock(its_clock), agreement(its_agreement), settings(its_settings) {
    PageStore::Options options{.ssd_path = dir.path(), .dram_bytes = 1 << 20};
    options.agree_on_salts = [](const auto&, const auto&) {
      return StatusOr<TenantSalts>(TenantSalts{{"default", TenantSalt{}}});
    };
    store = PageStore::Open(options).value();
    Reopen();
  }
  void Reopen(DocumentAgreement* with) {
    registry.reset();
    registry = DocumentRegistry::Open(store.get(), &metadata, clock, {}, std::chrono::seconds(30),
                                      with, with == nullptr ? nullptr : settings)
                   .value();
  }
  void Reopen() { Reopen(agreement); }

  /// Puts a chain of segments made from `seeds`, the same on each server.
  SegmentKey Chain(const std::vector<uint64_t>& seeds) {
    SegmentKey tip = kRootKey;
    for (const uint64_t seed : seeds) {
      tip = PutTestSegment(*store, spec, seed, tip, 0, Durability::kMemory, "default").value().key;
    }
    return tip;
  }
  StatusOr<Document> Register(const DocumentName& name, const std::vector<uint64_t>& seeds,
                              std::optional<uint64_t> ttl_seconds = {}) {
    QUIRE_ASSIGN_OR_RETURN(const auto result,
                           registry->Register("default", name, Chain(seeds), "", ttl_seconds));
    return result.document;
  }
  StatusOr<Document> Get(uint64_t version = 0) {
    return registry->Get("default", {"books", "a", version});
  }
  StatusCode CodeOf(uint64_t version = 0) { return Get(version).status().code(); }
  /// Aligns the name with what is agreed, and adopts what is missing.
  size_t Follow() {
    const AgreedName agreed = agreement->Read("default", {"books", "a"}).value();
    const auto missing = registry->Align("default", {"books", "a"}, agreed).value();
    for (const Document& document : missing) {
      EXPECT_TRUE(registry->Adopt("default", document.name, agreed).ok());
    }
    return missing.size();
  }
  std::vector<std::string> Events() {
    std::vector<std::string> events;
    const auto page = registry->Watch({.tenant = "default", .max_events = 1000}, TimePoint::min(),
                                      [] { return false; });
    for (const DocumentEvent& event : page->events) {
      events.push_back(std::string(Name(event.kind)) + "@" +
                       std::to_string(event.document.version));
    }
    return events;
  }

  Clock* const clock;
  DocumentAgreement* const agreement;
  CollectionAgreement* const settings;
  const KvSpec spec = SmallSpec();
  quire::testing::TempDir dir;
  FlakyMetadata metadata;
  std::unique_ptr<PageStore> store;
  std::unique_ptr<DocumentRegistry> registry;
};

class DocumentAgreementTest : public ::testing::Test {
 protected:
  /// The name of all tests.
  AgreedName Agreed() { return agreement_.Read("default", kName).value(); }
  std::vector<uint64_t> AgreedVersions() {
    std::vector<uint64_t> versions;
    for (const Document& document : Agreed().versions) versions.push_back(document.name.version);
    return versions;
  }

  const DocumentName kName{"books", "a", 0};
  quire::testing::FakeClock clock_;
  quire::testing::MemoryAgreement agreement_;
  quire::testing::MemoryCollections settings_;
  Node one_{&clock_, &agreement_, &settings_};
  Node two_{&clock_, &agreement_, &settings_};
};

TEST_F(DocumentAgreementTest, VersionsAreNumberedOverAllServers) {
  EXPECT_EQ(one_.Register(kName, {1})->name.version, 1u);
  EXPECT_EQ(two_.Register(kName, {2})->name.version, 2u);
  const auto ingest = one_.registry->BeginIngest("default", kName, {});
  ASSERT_TRUE(ingest.ok()) << ingest.status();
  EXPECT_EQ(ingest->document.name.version, 3u);
  EXPECT_EQ(two_.Register(kName, {4})->name.version, 4u);
  const auto registered = one_.registry->Register(
      "default", kName, {.chain_tip = one_.Chain({3}), .ingest_id = ingest->id});
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->document.name.version, 3u);
  EXPECT_THAT(AgreedVersions(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Agreed().latest, 4u);
}

TEST_F(DocumentAgreementTest, AVersionNamesOneChainOnAllServers) {
  ASSERT_TRUE(one_.Register({"books", "a", 7}, {1}).ok());
  EXPECT_EQ(two_.Register({"books", "a", 7}, {2}).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(two_.CodeOf(7), StatusCode::kNotFound);
  clock_.Advance(std::chrono::seconds(1));
  const auto same = two_.Register({"books", "a", 7}, {1});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->created_unix_micros, one_.Get(7)->created_unix_micros) << "as agreed";
}

TEST_F(DocumentAgreementTest, NothingIsRegisteredWhileTheAgreementIsAway) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  agreement_.is_away = true;
  EXPECT_TRUE(IsUnavailable(one_.Register(kName, {2}).status()));
  EXPECT_TRUE(IsUnavailable(one_.registry->BeginIngest("default", kName, {}).status()));
  EXPECT_TRUE(IsUnavailable(one_.registry->SetLatest("default", {"books", "a", 1}).status()));
  EXPECT_TRUE(IsUnavailable(one_.registry->Delete("default", kName, false).status()));
  EXPECT_TRUE(
      IsUnavailable(one_.registry->Update("default", kName, {.set_tags = {{"x", true}}}).status()));
  EXPECT_EQ(one_.Get()->name.version, 1u) << "reads go on";
}

TEST_F(DocumentAgreementTest, ALostReplyCanBeAskedForAgain) {
  agreement_.loses_reply = true;
  EXPECT_TRUE(IsUnavailable(one_.Register({"books", "a", 1}, {1}).status()));
  EXPECT_EQ(one_.CodeOf(1), StatusCode::kNotFound);
  ASSERT_TRUE(one_.Register({"books", "a", 1}, {1}).ok());
  EXPECT_EQ(one_.Get()->name.version, 1u);
  EXPECT_THAT(AgreedVersions(), ElementsAre(1));
}

TEST_F(DocumentAgreementTest, AReplicaIsTheSameDocument) {
  Document document = *one_.Register(kName, {1, 2}, 60);
  document = *one_.registry->Update("default", kName, {.set_tags = {{"team", "x"}}});
  two_.Chain({1, 2});
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_EQ(two_.Follow(), 1u);
  const auto replica = two_.Get();
  ASSERT_TRUE(replica.ok()) << replica.status();
  EXPECT_EQ(replica->name, document.name);
  EXPECT_EQ(replica->chain_tip, document.chain_tip);
  EXPECT_EQ(replica->created_unix_micros, document.created_unix_micros);
  EXPECT_EQ(replica->expires_unix_micros, document.expires_unix_micros);
  EXPECT_EQ(replica->tags, document.tags);
  EXPECT_TRUE(replica->is_latest);
  EXPECT_EQ(two_.store->CountNames(document.chain_tip), 1u);
  EXPECT_EQ(two_.Follow(), 0u);
  EXPECT_THAT(two_.Events(), IsEmpty()) << "the server that was called tells";
  EXPECT_THAT(one_.Events(), ElementsAre("REGISTERED@1", "UPDATED@1"));
}

TEST_F(DocumentAgreementTest, ChangesReachReplicas) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  ASSERT_TRUE(one_.Register(kName, {2}).ok());
  two_.Chain({1});
  two_.Chain({2});
  EXPECT_EQ(two_.Follow(), 2u);
  ASSERT_TRUE(
      one_.registry->Update("default", {"books", "a", 1}, {.set_tags = {{"x", true}}}).ok());
  ASSERT_TRUE(one_.registry->SetLatest("default", {"books", "a", 1}).ok());
  EXPECT_EQ(two_.Follow(), 0u);
  EXPECT_EQ(two_.Get()->name.version, 1u);
  EXPECT_EQ(two_.Get()->tags, (Tags{{"x", true}}));
  const SegmentKey tip = two_.Get()->chain_tip;
  EXPECT_EQ(one_.registry->Delete("default", {"books", "a", 1}, false)->num_documents, 1u);
  two_.Follow();
  EXPECT_EQ(two_.CodeOf(1), StatusCode::kNotFound);
  EXPECT_FALSE(two_.store->Tokens("default", tip).ok()) << "its segments went with it";
  EXPECT_EQ(two_.Get()->name.version, 2u);
}

TEST_F(DocumentAgreementTest, UpdatesOfTwoServersAddUp) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.registry->Update("default", kName, {.set_tags = {{"x", true}}}).ok());
  const auto both = two_.registry->Update("default", kName, {.set_tags = {{"y", true}}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->tags, (Tags{{"x", true}, {"y", true}}));
}

TEST_F(DocumentAgreementTest, LatestIsNeverAnOlderVersion) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.Register(kName, {2}).ok());
  const auto missing = two_.registry->Align("default", kName, Agreed());
  ASSERT_THAT(*missing, SizeIs(1));
  EXPECT_EQ(missing->front().name.version, 2u);
  EXPECT_EQ(two_.CodeOf(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(two_.Get(1)->name.version, 1u);
  EXPECT_TRUE(two_.registry->SetLatest("default", {"books", "a", 1}).ok());
  EXPECT_EQ(two_.Get()->name.version, 1u);
}

TEST_F(DocumentAgreementTest, AnOlderStateChangesNothing) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  const AgreedName before = Agreed();
  ASSERT_TRUE(one_.Register(kName, {2}).ok());
  EXPECT_THAT(*one_.registry->Align("default", kName, before), IsEmpty());
  EXPECT_EQ(one_.Get()->name.version, 2u);
  EXPECT_EQ(one_.registry->Adopt("default", {"books", "a", 1}, before).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(DocumentAgreementTest, AdoptionNeedsTheWholeChainAndTheAgreement) {
  ASSERT_TRUE(one_.Register(kName, {1, 2}).ok());
  EXPECT_TRUE(IsNotFound(two_.registry->Adopt("default", {"books", "a", 1}, Agreed())));
  EXPECT_EQ(two_.registry->Adopt("default", {"books", "a", 2}, Agreed()).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(two_.CodeOf(), StatusCode::kNotFound);
}

TEST_F(DocumentAgreementTest, AReleasedReplicaIsGoneHereOnly) {
  const SegmentKey tip = one_.Register(kName, {1})->chain_tip;
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.registry->Release("default", {"books", "a", 1}).ok());
  EXPECT_EQ(one_.CodeOf(), StatusCode::kNotFound);
  EXPECT_FALSE(one_.store->Tokens("default", tip).ok());
  EXPECT_EQ(two_.Get()->name.version, 1u);
  EXPECT_THAT(AgreedVersions(), ElementsAre(1));
  EXPECT_THAT(one_.Events(), ElementsAre("REGISTERED@1"));
  EXPECT_TRUE(IsNotFound(one_.registry->Release("default", {"books", "a", 1})));
}

TEST_F(DocumentAgreementTest, ACrashAfterTheAgreementIsHealedByAlign) {
  one_.metadata.applies_left = 0;
  EXPECT_TRUE(IsUnavailable(one_.Register(kName, {1}).status()));
  one_.metadata.applies_left = 1 << 30;
  one_.Reopen();
  EXPECT_EQ(one_.CodeOf(), StatusCode::kNotFound);
  EXPECT_THAT(AgreedVersions(), ElementsAre(1));
  EXPECT_EQ(one_.Follow(), 1u) << "its chain is here";
  EXPECT_EQ(one_.Get()->name.version, 1u);

  one_.metadata.applies_left = 0;
  EXPECT_TRUE(IsUnavailable(one_.registry->Delete("default", kName, false).status()));
  one_.metadata.applies_left = 1 << 30;
  one_.Reopen();
  EXPECT_EQ(one_.Get()->name.version, 1u) << "the row is left";
  EXPECT_EQ(one_.Follow(), 0u);
  EXPECT_EQ(one_.CodeOf(), StatusCode::kNotFound);
}

TEST_F(DocumentAgreementTest, AnIngestThatWasPublishedBeforeACrashIsAdopted) {
  const auto ingest = one_.registry->BeginIngest("default", kName, {});
  one_.metadata.applies_left = 0;
  EXPECT_TRUE(IsUnavailable(
      one_.registry
          ->Register("default", kName, {.chain_tip = one_.Chain({1}), .ingest_id = ingest->id})
          .status()));
  one_.metadata.applies_left = 1 << 30;
  one_.Reopen();
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(*one_.registry->FailAbandonedIngests(), 1u);
  EXPECT_EQ(one_.Follow(), 1u);
  EXPECT_EQ(one_.Get()->state, DocumentState::kReady);
}

TEST_F(DocumentAgreementTest, AVersionThatWasTakenByAnotherChainGivesWay) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.registry->Delete("default", kName, false).ok());
  const Document again = *one_.Register(kName, {2});
  EXPECT_EQ(again.name.version, 1u);
  two_.Chain({2});
  EXPECT_EQ(two_.Follow(), 1u);
  EXPECT_EQ(two_.Get()->chain_tip, again.chain_tip);
}

TEST_F(DocumentAgreementTest, WhatExpiresIsWithdrawnFromAllServers) {
  ASSERT_TRUE(one_.Register(kName, {1}, 60).ok());
  two_.Chain({1});
  two_.Follow();
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(one_.registry->RemoveExpired()->num_documents, 1u);
  EXPECT_FALSE(Agreed().exists());
  EXPECT_EQ(two_.registry->RemoveExpired()->num_documents, 0u) << "Align has deleted it";
  EXPECT_EQ(two_.CodeOf(1), StatusCode::kNotFound);
  EXPECT_THAT(one_.Events(), ElementsAre("REGISTERED@1", "EXPIRED@1"));
}

TEST_F(DocumentAgreementTest, AnExtendedDocumentIsNotWithdrawnByAServerThatHasNotHeardOfIt) {
  ASSERT_TRUE(one_.Register(kName, {1}, 60).ok());
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(
      one_.registry->Update("default", kName, {.ttl_seconds = std::optional(uint64_t{600})}).ok());
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(two_.registry->RemoveExpired()->num_documents, 0u);
  EXPECT_EQ(two_.Get()->ttl_seconds, 600u);
  EXPECT_EQ(one_.Get()->ttl_seconds, 600u);
}

TEST_F(DocumentAgreementTest, ExpiryWaitsForTheAgreement) {
  ASSERT_TRUE(one_.Register(kName, {1}, 60).ok());
  clock_.Advance(std::chrono::seconds(61));
  agreement_.is_away = true;
  EXPECT_TRUE(IsUnavailable(one_.registry->RemoveExpired().status()));
  EXPECT_EQ(one_.CodeOf(), StatusCode::kNotFound) << "its time is over nevertheless";
  agreement_.is_away = false;
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(one_.registry->RemoveExpired()->num_documents, 1u);
  EXPECT_FALSE(Agreed().exists());
}

TEST_F(DocumentAgreementTest, AnExpiredVersionCanBeTakenAgain) {
  ASSERT_TRUE(one_.Register({"books", "a", 3}, {1}, 60).ok());
  clock_.Advance(std::chrono::seconds(61));
  const auto again = one_.Register({"books", "a", 3}, {2});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Agreed().versions.at(0).chain_tip, again->chain_tip);
}

TEST_F(DocumentAgreementTest, DeletingANameDeletesVersionsOfAllServers) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  ASSERT_TRUE(two_.Register(kName, {2}).ok());
  EXPECT_EQ(one_.registry->Delete("default", kName, false)->num_documents, 2u);
  EXPECT_FALSE(Agreed().exists());
  two_.Follow();
  EXPECT_EQ(two_.CodeOf(2), StatusCode::kNotFound);
  EXPECT_TRUE(IsNotFound(one_.registry->Delete("default", kName, false).status()));
}

TEST_F(DocumentAgreementTest, DocumentsFromBeforeTheClusterBecomeItsDocuments) {
  Node old(&clock_, &agreement_, &settings_);
  old.Reopen(nullptr);
  ASSERT_TRUE(old.Register(kName, {1}).ok());
  ASSERT_TRUE(old.Register(kName, {2}).ok());
  ASSERT_TRUE(old.registry->SetLatest("default", {"books", "a", 1}).ok());
  old.Reopen(&agreement_);
  EXPECT_THAT(*old.registry->Align("default", kName, Agreed()), IsEmpty());
  EXPECT_EQ(old.Get(2)->name.version, 2u) << "not yet agreed, and not deleted";
  agreement_.is_away = true;
  EXPECT_TRUE(old.registry->KeepUp(/*is_member=*/true).ok());
  agreement_.is_away = false;
  EXPECT_TRUE(old.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_THAT(AgreedVersions(), ElementsAre(1, 2));
  EXPECT_EQ(Agreed().latest, 1u);
  EXPECT_EQ(old.Follow(), 0u);
  EXPECT_EQ(old.Register(kName, {3})->name.version, 3u);
}

TEST_F(DocumentAgreementTest, ARestoredAgreementLearnsWhatServersHaveSinceItsBackup) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  const auto backup = agreement_.BackUp();
  ASSERT_TRUE(one_.Register(kName, {2}).ok());
  ASSERT_TRUE(
      one_.registry->Update("default", {"books", "a", 1}, {.set_tags = {{"team", "x"}}}).ok());
  agreement_.Restore(backup);
  EXPECT_THAT(AgreedVersions(), ElementsAre(1));
  EXPECT_EQ(one_.Follow(), 0u);
  EXPECT_EQ(one_.Get(2)->name.version, 2u) << "not known, and not deleted";
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/false).ok());
  EXPECT_THAT(AgreedVersions(), ElementsAre(1)) << "a server that is no member says nothing";
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_THAT(AgreedVersions(), ElementsAre(1, 2));
  EXPECT_EQ(Agreed().latest, 2u) << "versions do not go back";
  EXPECT_EQ(Agreed().Find(1)->tags, (Tags{{"team", "x"}}));
  EXPECT_EQ(one_.Register(kName, {3})->name.version, 3u);
}

TEST_F(DocumentAgreementTest, AChangeAfterARestoreTakesInWhatTheServerHasFirst) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  const auto backup = agreement_.BackUp();
  ASSERT_TRUE(one_.Register(kName, {2}).ok());
  agreement_.Restore(backup);
  EXPECT_EQ(one_.Register(kName, {3})->name.version, 3u) << "version 2 is not given again";
  EXPECT_THAT(AgreedVersions(), ElementsAre(1, 2, 3));
}

TEST_F(DocumentAgreementTest, AnAgreementThatIsAwayIsAskedOnceForAllThatExpired) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(one_.Register({"books", name}, {1}, 60).ok());
  }
  clock_.Advance(std::chrono::seconds(61));
  agreement_.is_away = true;
  const int before = agreement_.num_calls;
  EXPECT_TRUE(IsUnavailable(one_.registry->RemoveExpired().status()));
  EXPECT_EQ(agreement_.num_calls, before + 1);
  agreement_.is_away = false;
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(one_.registry->RemoveExpired()->num_documents, 3u);
}

TEST_F(DocumentAgreementTest, SettingsOfCollectionsAreThoseOfAllServers) {
  const auto ttl_on = [](Node& node) {
    return node.registry->GetCollection("default", "books")->ttl_seconds;
  };
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  two_.Chain({1});
  two_.Follow();
  SettingsChange change{.codec = *CodecByName("int8"), .ttl_seconds = std::optional(uint64_t{60})};
  ASSERT_TRUE(one_.registry->SetCollection("default", "books", change).ok());
  EXPECT_EQ(ttl_on(one_), 60u);
  EXPECT_TRUE(two_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(ttl_on(two_), 60u);
  EXPECT_EQ(two_.registry->CodecOf("default", "books")->id, CodecId::kInt8);
  EXPECT_NE(two_.Get()->expires_unix_micros, 0);

  SettingsChange reset;
  reset.codec.emplace();
  reset.ttl_seconds.emplace();
  ASSERT_TRUE(two_.registry->SetCollection("default", "books", reset).ok());
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(ttl_on(one_), std::nullopt) << "its first look";
  ASSERT_TRUE(two_.registry->SetCollection("default", "books", change).ok());
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(ttl_on(one_), std::nullopt) << "until it looks again";
  clock_.Advance(std::chrono::seconds(11));
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(ttl_on(one_), 60u);
}

TEST_F(DocumentAgreementTest, SettingsStayWhileTheAgreementIsAway) {
  SettingsChange change;
  change.ttl_seconds = std::optional(uint64_t{60});
  settings_.is_away = true;
  EXPECT_TRUE(IsUnavailable(one_.registry->SetCollection("default", "books", change).status()));
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(one_.registry->GetCollection("default", "books")->ttl_seconds, std::nullopt);
}

TEST_F(DocumentAgreementTest, SettingsFromBeforeTheClusterBecomeEverybodys) {
  Node old(&clock_, &agreement_, &settings_);
  old.Reopen(nullptr);
  SettingsChange change;
  change.ttl_seconds = std::optional(uint64_t{60});
  for (const char* collection : {"books", "films"}) {
    ASSERT_TRUE(old.registry->SetCollection("default", collection, change).ok());
  }
  change.ttl_seconds = std::optional(uint64_t{90});
  ASSERT_TRUE(one_.registry->SetCollection("default", "books", change).ok());
  old.Reopen(&agreement_);
  EXPECT_TRUE(old.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_TRUE(one_.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_EQ(old.registry->GetCollection("default", "books")->ttl_seconds, 90u);
  EXPECT_EQ(one_.registry->GetCollection("default", "films")->ttl_seconds, 60u);
}

TEST_F(DocumentAgreementTest, ServersThatRegisterAtOnceEndWithTheSameVersions) {
  constexpr uint64_t kEach = 8;
  for (uint64_t seed = 1; seed <= 2 * kEach; ++seed) {
    one_.Chain({seed});
    two_.Chain({seed});
  }
  const auto put = [this](Node& node, uint64_t first) {
    for (uint64_t i = 0; i < kEach; ++i) {
      const auto document = node.Register(kName, {first + i});
      EXPECT_TRUE(document.ok()) << document.status();
    }
  };
  std::atomic<bool> done{false};
  std::thread follower([this, &done] {
    while (!done) {
      for (Node* node : {&one_, &two_}) {
        const AgreedName agreed = Agreed();
        const auto missing = node->registry->Align("default", kName, agreed).value();
        for (const Document& document : missing) {
          // A newer state may have become known.
          (void)node->registry->Adopt("default", document.name, agreed);
        }
      }
    }
  });
  std::thread other([&] { put(two_, 1 + kEach); });
  put(one_, 1);
  other.join();
  done = true;
  follower.join();
  one_.Follow();
  two_.Follow();
  EXPECT_THAT(AgreedVersions(), SizeIs(2 * kEach));
  for (Node* node : {&one_, &two_}) {
    EXPECT_EQ(node->Get()->name.version, 2 * kEach);
    for (const Document& document : Agreed().versions) {
      EXPECT_EQ(node->Get(document.name.version)->chain_tip, document.chain_tip);
      EXPECT_EQ(node->store->CountNames(document.chain_tip), 1u);
    }
  }
}

TEST_F(DocumentAgreementTest, ADeletionBeforeTheReplyOfARegistrationStands) {
  const DocumentName version{"books", "a", 1};
  agreement_.before_reply = [&] {
    EXPECT_EQ(one_.registry->Delete("default", kName, false)->num_documents, 1u);
  };
  EXPECT_TRUE(IsNotFound(one_.Register(version, {1}).status()));
  EXPECT_EQ(one_.CodeOf(1), StatusCode::kNotFound);
  EXPECT_FALSE(Agreed().exists());
  EXPECT_TRUE(one_.Register(version, {1}).ok()) << "its name is free again";
}

TEST_F(DocumentAgreementTest, WhatWasDeletedMeanwhileIsNotAdopted) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  const AgreedName before = Agreed();
  two_.Chain({1});
  ASSERT_TRUE(one_.registry->Delete("default", kName, false).ok());
  ASSERT_TRUE(two_.registry->Align("default", kName, Agreed()).ok());
  EXPECT_EQ(two_.registry->Adopt("default", {"books", "a", 1}, before).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(two_.CodeOf(1), StatusCode::kNotFound);
}

TEST_F(DocumentAgreementTest, AReplicaThatIsDeletedIsNotAdoptedAgain) {
  ASSERT_TRUE(one_.Register(kName, {1}).ok());
  const AgreedName before = Agreed();
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.registry->Delete("default", kName, false).ok());
  two_.Follow();
  two_.Chain({1});
  EXPECT_EQ(two_.registry->Adopt("default", {"books", "a", 1}, before).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(DocumentAgreementTest, DamagedRowsDeleteNothingThatIsAgreed) {
  const Document document = *one_.Register(kName, {1});
  SettingsChange change;
  change.ttl_seconds = std::optional(uint64_t{600});
  ASSERT_TRUE(one_.registry->SetCollection("default", "books", change).ok());
  const std::string settings = *one_.metadata.Get(CollectionKey("default", "books"));
  const auto damage = [this](const std::string& key) {
    MetadataBatch batch;
    batch.Put(key, "damaged");
    ASSERT_TRUE(one_.metadata.Apply(batch).ok());
  };
  damage(CollectionKey("default", "books"));
  damage(DocumentKey("default", document.name));
  EXPECT_THAT(*one_.registry->Align("default", kName, Agreed()), IsEmpty());
  MetadataBatch batch;
  batch.Put(CollectionKey("default", "books"), settings);
  ASSERT_TRUE(one_.metadata.Apply(batch).ok());
  EXPECT_EQ(one_.Get()->chain_tip, document.chain_tip) << "the row is written again";
  EXPECT_TRUE(one_.store->Tokens("default", document.chain_tip).ok());

  damage(DocumentKey("default", document.name));
  damage(ChainKey("default", document.name));
  EXPECT_THAT(*one_.registry->Align("default", kName, Agreed()), SizeIs(1)) << "chain unknown";
  EXPECT_EQ(one_.CodeOf(1), StatusCode::kNotFound);
}

TEST_F(DocumentAgreementTest, ARegistrationOfTheSameChainIsNotExpiredByAnOlderRow) {
  ASSERT_TRUE(one_.Register(kName, {1}, 60).ok());
  two_.Chain({1});
  two_.Follow();
  const int64_t before = two_.Get()->created_unix_micros;
  ASSERT_TRUE(one_.registry->Delete("default", kName, false).ok());
  clock_.Advance(std::chrono::seconds(30));
  const Document again = *one_.Register(kName, {1}, 60);
  clock_.Advance(std::chrono::seconds(31));
  EXPECT_EQ(two_.registry->RemoveExpired()->num_documents, 0u);
  EXPECT_EQ(one_.Get()->name, again.name);
  EXPECT_EQ(two_.Get()->created_unix_micros, again.created_unix_micros);
  EXPECT_TRUE(IsNotFound(two_.metadata.Get(CreatedKey("default", before, again.name)).status()));
  EXPECT_TRUE(two_.metadata.Get(CreatedKey("default", again.created_unix_micros, again.name)).ok());
}

TEST_F(DocumentAgreementTest, AVersionThatExpiredElsewhereCanBeTakenAgain) {
  ASSERT_TRUE(one_.Register({"books", "a", 3}, {1}, 60).ok());
  clock_.Advance(std::chrono::seconds(61));
  const auto same = two_.Register({"books", "a", 3}, {1}, 60);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->created_unix_micros, clock_.UnixMicros());
  clock_.Advance(std::chrono::seconds(61));
  const auto other = one_.Register({"books", "a", 3}, {2});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Agreed().versions.at(0).chain_tip, other->chain_tip);
}

TEST_F(DocumentAgreementTest, ALateRowIsNotPublishedAgain) {
  ASSERT_TRUE(one_.Register({"books", "a", 1}, {1}).ok());
  two_.Chain({1});
  two_.Follow();
  ASSERT_TRUE(one_.registry->Delete("default", kName, false).ok());
  clock_.Advance(std::chrono::seconds(5));
  const auto again = two_.Register({"books", "a", 1}, {1});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Agreed().versions.at(0).created_unix_micros, clock_.UnixMicros());
}

TEST_F(DocumentAgreementTest, AnIngestTakesANumberThatIsFreeHere) {
  const auto failed = one_.registry->BeginIngest("default", kName, {});
  ASSERT_TRUE(failed.ok());
  ASSERT_TRUE(one_.registry->FailIngest("default", failed->id, "stopped").ok());
  ASSERT_TRUE(one_.registry->BeginIngest("default", kName, {}).ok());
  ASSERT_TRUE(two_.Register(kName, {1}).ok());
  ASSERT_TRUE(two_.registry->Delete("default", kName, false).ok());
  ASSERT_FALSE(Agreed().exists()) << "its numbers are given again";
  const auto first = one_.registry->BeginIngest("default", kName, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->document.name.version, 1u) << "the failed one gives way";
  const auto second = one_.registry->BeginIngest("default", kName, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->document.name.version, 3u) << "2 is being ingested";
}

TEST_F(DocumentAgreementTest, ABadNameStopsNeitherUpkeepNorOtherNames) {
  Node old(&clock_, &agreement_, &settings_);
  old.Reopen(nullptr);
  ASSERT_TRUE(old.Register({"books", "A"}, {1}).ok());
  ASSERT_TRUE(old.Register(kName, {2}).ok());
  MetadataBatch batch;
  batch.Put(LatestKey("default", {"books", "A", 0}), "damaged");
  ASSERT_TRUE(old.metadata.Apply(batch).ok());
  old.Reopen(&agreement_);
  EXPECT_TRUE(IsDataLoss(old.registry->KeepUp(/*is_member=*/true)));
  EXPECT_THAT(AgreedVersions(), ElementsAre(1));
  EXPECT_TRUE(old.registry->KeepUp(/*is_member=*/true).ok()) << "every name had its turn";
}

TEST_F(DocumentAgreementTest, ADiskFromBeforeTheClusterLeavesTheAliasWhereItIs) {
  ASSERT_TRUE(one_.Register({"books", "a", 1}, {1}).ok());
  ASSERT_TRUE(one_.Register({"books", "a", 3}, {3}).ok());
  Node old(&clock_, &agreement_, &settings_);
  old.Reopen(nullptr);
  ASSERT_TRUE(old.Register(kName, {1}).ok());
  ASSERT_TRUE(old.Register(kName, {2}).ok());
  ASSERT_TRUE(old.registry->SetLatest("default", {"books", "a", 1}).ok());
  old.Reopen(&agreement_);
  EXPECT_TRUE(old.registry->KeepUp(/*is_member=*/true).ok());
  EXPECT_THAT(AgreedVersions(), ElementsAre(1, 2, 3));
  EXPECT_EQ(Agreed().latest, 3u);
}

TEST_F(DocumentAgreementTest, NothingFollowsTheLastVersion) {
  const uint64_t last = std::numeric_limits<uint64_t>::max();
  ASSERT_TRUE(one_.Register({"books", "a", last}, {1}).ok());
  EXPECT_EQ(one_.Register(kName, {2}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(one_.Get()->name.version, last);
  EXPECT_THAT(AgreedVersions(), ElementsAre(last));
}

TEST(GoneNamesTest, TheNewestNamesAndStatesAreKnown) {
  GoneNames names;
  names.Note("never agreed", 0);
  names.Note("a", 7);
  names.Note("a", 5);
  EXPECT_EQ(names.RevisionOf("a"), 7u);
  EXPECT_EQ(names.RevisionOf("never agreed"), 0u);
  for (size_t i = 0; i < GoneNames::kMostNames; ++i) names.Note(std::to_string(i), 8);
  EXPECT_EQ(names.RevisionOf("a"), 0u);
  EXPECT_EQ(names.RevisionOf("0"), 8u);
}

TEST_F(DocumentAgreementTest, HeldNamesAreListedInPages) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(one_.Register({"books", name}, {1}).ok());
  std::vector<std::string> seen;
  std::string after;
  do {
    const auto page = one_.registry->HeldNames(after, 2);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const auto& [tenant, name] : page->names) seen.push_back(tenant + "/" + name.name);
    after = page->next;
  } while (!after.empty());
  EXPECT_THAT(seen, ElementsAre("default/a", "default/b", "default/c"));
  EXPECT_THAT(two_.registry->HeldNames("", 2)->names, IsEmpty());
}

}  // namespace
}  // namespace quire::kvserver::testing
