// SPDX-License-Identifier: Apache-2.0
#include "common/documents/agreed_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Document Version(uint64_t version, uint8_t tip = 0) {
  Document document{.name = {"books", "a", version}, .num_tokens = 7, .bytes = 9, .model = "m"};
  document.chain_tip.bytes[0] = tip != 0 ? tip : static_cast<uint8_t>(version);
  return document;
}

std::vector<uint64_t> VersionsOf(const AgreedName& name) {
  std::vector<uint64_t> versions;
  for (const Document& document : name.versions) versions.push_back(document.name.version);
  return versions;
}

AgreedName Published(const std::vector<uint64_t>& versions, bool keep_latest = false) {
  AgreedName name;
  for (const uint64_t version : versions) {
    name = WithPublished(name, Version(version), keep_latest).value();
  }
  return name;
}

TEST(AgreedChangesTest, ReservedNumbersAreNotGivenTwice) {
  AgreedName name = WithReserved({});
  EXPECT_TRUE(name.exists());
  EXPECT_EQ(name.highest, 1u);
  EXPECT_EQ(name.latest, 0u);
  EXPECT_EQ(WithReserved(name).highest, 2u);
  EXPECT_EQ(WithReserved(Published({5})).highest, 6u);
}

TEST(AgreedChangesTest, VersionsAreInOrderAndTheAliasFollowsTheHighest) {
  const AgreedName name = Published({2, 7, 4});
  EXPECT_THAT(VersionsOf(name), ElementsAre(2, 4, 7));
  EXPECT_EQ(name.latest, 7u);
  EXPECT_EQ(name.highest, 7u);
  EXPECT_FALSE(name.Find(4)->is_latest);
  EXPECT_TRUE(name.Find(7)->is_latest);
  EXPECT_EQ(Published({2, 7}, /*keep_latest=*/true).latest, 2u) << "it was somewhere";
}

TEST(AgreedChangesTest, OnlyWhatHoldsOnEveryServerIsAgreed) {
  Document document = Version(1);
  document.pinned = true;
  document.segments_lost = 3;
  document.statistics.hits = 1;
  document.expires_unix_micros = 5;
  const AgreedName name = WithPublished({}, document, false).value();
  EXPECT_FALSE(name.versions[0].pinned);
  EXPECT_EQ(name.versions[0].segments_lost, 0u);
  EXPECT_EQ(name.versions[0].statistics, DocumentStatistics());
  EXPECT_EQ(name.versions[0].expires_unix_micros, 0);
  EXPECT_EQ(name.versions[0].num_tokens, 7u);
}

TEST(AgreedChangesTest, PublishingAgainChangesNothingAndAnotherChainIsRefused) {
  const AgreedName name = Published({1, 2});
  const AgreedName moved = WithLatest(name, {"books", "a", 1}).value();
  EXPECT_TRUE(SaysTheSame(WithPublished(moved, Version(2), false).value(), moved));
  EXPECT_EQ(WithPublished(name, Version(2, /*tip=*/9), false).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(IsInvalidArgument(WithPublished(name, Version(0), false).status()));
}

TEST(AgreedChangesTest, AnAmendmentTakesTagsAndTimeToLiveOnly) {
  Document document = Version(2);
  document.tags = {{"team", "x"}};
  document.ttl_seconds = 60;
  document.source = "elsewhere";
  const AgreedName name = Published({1, 2});
  const AgreedName amended = WithAmended(name, document).value();
  EXPECT_FALSE(SaysTheSame(name, amended));
  EXPECT_EQ(amended.Find(2)->tags, document.tags);
  EXPECT_EQ(amended.Find(2)->ttl_seconds, 60u);
  EXPECT_EQ(amended.Find(2)->source, "");
  EXPECT_TRUE(IsNotFound(WithAmended(name, Version(3)).status()));
  EXPECT_TRUE(IsNotFound(WithAmended(name, Version(2, /*tip=*/9)).status()));
}

TEST(AgreedChangesTest, TheAliasMovesToVersionsThatAreThere) {
  const AgreedName name = Published({1, 2});
  const AgreedName moved = WithLatest(name, {"books", "a", 1}).value();
  EXPECT_EQ(moved.latest, 1u);
  EXPECT_TRUE(moved.Find(1)->is_latest);
  EXPECT_FALSE(moved.Find(2)->is_latest);
  EXPECT_TRUE(IsNotFound(WithLatest(name, {"books", "a", 3}).status()));
}

TEST(AgreedChangesTest, RemovalMovesTheAliasToTheHighestThatIsLeft) {
  const AgreedName name = Published({1, 2, 3});
  const std::vector<uint64_t> newest = {3, 8};
  EXPECT_EQ(Without(name, newest).latest, 2u);
  EXPECT_EQ(Without(name, newest).highest, 3u) << "its number is not given again";
  const std::vector<uint64_t> oldest = {1};
  EXPECT_EQ(Without(name, oldest).latest, 3u);
  const std::vector<uint64_t> all = {1, 2, 3};
  EXPECT_FALSE(Without(name, all).exists());
  EXPECT_THAT(Without(name, all).versions, IsEmpty());
  EXPECT_FALSE(Without(WithReserved({}), {}).exists());
}

TEST(AgreedChangesTest, SettingsOfACollectionChangeOneByOne) {
  Collection collection = WithChange({.name = "books"}, {.codec = "int8"});
  EXPECT_FALSE(collection.codec_is_default);
  collection = WithChange(collection, {.ttl_seconds = 60});
  EXPECT_EQ(collection.codec, "int8");
  EXPECT_EQ(collection.ttl_seconds, 60u);
  collection = WithChange(collection, {.codec = "", .ttl_seconds = 0});
  EXPECT_TRUE(collection.codec_is_default);
  EXPECT_FALSE(collection.ttl_seconds);
}

}  // namespace
}  // namespace quire
