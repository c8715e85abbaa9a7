// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kvserver/registry/testing/registry_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DocumentListingTest : public RegistryFixture {
 protected:
  void Add(const std::string& name, Tags tags, uint64_t seed = 1) {
    const auto added = registry_->Register(
        "default", {"books", name, 0},
        {.chain_tip = Chain({seed}).back().key, .source = "/src/" + name, .tags = std::move(tags)});
    ASSERT_TRUE(added.ok()) << added.status();
    clock_.Advance(std::chrono::seconds(1));
  }
  /// Names of all pages.
  std::vector<std::string> Names(DocumentRegistry::ListQuery query) {
    std::vector<std::string> names;
    std::string token;
    do {
      query.page_token = token;
      const auto page = registry_->List("default", query);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const Document& document : page->documents) names.push_back(document.name.name);
      token = page->next_page_token;
    } while (!token.empty());
    return names;
  }
  using Strings = std::vector<std::string>;
};

TEST_F(DocumentListingTest, AFilterChoosesAcrossPages) {
  for (int i = 0; i < 9; ++i) Add("d" + std::to_string(i), {{"odd", i % 2 == 1}});
  for (const uint32_t page_size : {1, 2, 100}) {
    EXPECT_EQ(Names({.filter = "odd=true and name>d2", .page_size = page_size}),
              (Strings{"d3", "d5", "d7"}))
        << page_size;
  }
  EXPECT_TRUE(Names({.collection = "other", .filter = "odd=true"}).empty());
}

TEST_F(DocumentListingTest, TheNewestComeFirstAndPagesStayWhereTheyWere) {
  for (const char* name : {"a", "c", "b"}) Add(name, {});
  const auto newest = DocumentRegistry::Order::kNewest;
  EXPECT_EQ(Names({.order = newest, .page_size = 2}), (Strings{"b", "c", "a"}));
  const auto first = registry_->List("default", {.order = newest, .page_size = 1});
  Add("d", {});
  ASSERT_TRUE(registry_->Delete("default", {"books", "b", 0}, false).ok());
  const auto second = registry_->List(
      "default", {.order = newest, .page_size = 1, .page_token = first->next_page_token});
  EXPECT_EQ(second->documents[0].name.name, "c");
  EXPECT_EQ(registry_->List("default", {.page_token = first->next_page_token}).status().code(),
            StatusCode::kInvalidArgument)
      << "a token of the other order";
}

TEST_F(DocumentListingTest, ATagThatNothingHasIsNamedWithTheKnownOnes) {
  Add("a", {{"team", "ops"}});
  const auto code = [&](const std::string& filter) {
    return registry_->List("default", {.filter = filter}).status().code();
  };
  EXPECT_EQ(code("team=dev"), StatusCode::kOk);
  const Status wrong = registry_->List("default", {.filter = "name=a and taem=ops"}).status();
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(wrong).find("position 12"), std::string_view::npos) << wrong;
  EXPECT_NE(Message(wrong).find("tags: team"), std::string_view::npos) << wrong;
  EXPECT_EQ(registry_->List("other", {.filter = "team=ops"}).status().code(),
            StatusCode::kInvalidArgument)
      << "another tenant's tags are not known";
  OpenRegistry();
  EXPECT_EQ(code("team=ops"), StatusCode::kOk);
  ASSERT_TRUE(registry_->Update("default", {"books", "a", 0}, {.remove_tags = {"team"}}).ok());
  EXPECT_EQ(code("team=ops"), StatusCode::kInvalidArgument);
}

TEST_F(DocumentListingTest, TagsAndTimeToLiveChangeAndSurviveARestart) {
  Add("a", {{"team", "ops"}, {"old", true}});
  const auto changed =
      registry_->Update("default", {"books", "a", 0},
                        {.set_tags = {{"team", "dev"}}, .remove_tags = {"old"}, .ttl_seconds = 60});
  ASSERT_TRUE(changed.ok()) << changed.status();
  OpenRegistry();
  const auto got = registry_->Get("default", {"books", "a", 0});
  EXPECT_EQ(got->tags, (Tags{{"team", "dev"}}));
  EXPECT_EQ(got->ttl_seconds, 60u);
  EXPECT_EQ(got->source, "/src/a");
  EXPECT_EQ(registry_->Update("default", {"books", "a", 0}, {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      registry_->Update("default", {"books", "a", 0}, {.set_tags = {{"A", true}}}).status().code(),
      StatusCode::kInvalidArgument);
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(GetCode("a"), StatusCode::kNotFound);
  EXPECT_EQ(Names({.filter = "state=expired"}), (Strings{"a"}));
  EXPECT_EQ(registry_->RemoveExpired()->num_documents, 1u);
  EXPECT_TRUE(Names({.filter = "state=expired"}).empty());
}

TEST_F(DocumentListingTest, TheSameTextUnderTwoNamesIsStoredOnce) {
  Add("a", {}, 1);
  const uint64_t before = CountersOf(*store_)["segments"];
  Add("b", {}, 1);
  EXPECT_EQ(CountersOf(*store_)["segments"], before);
}

TEST_F(DocumentListingTest, ModelsNeverMix) {
  const auto mine = Chain({1});
  const auto other = PutTestSegment(*store_, SmallSpec("another"), 1);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->key, mine.back().key) << "the same tokens under another model";
  Add("a", {}, 1);
  ASSERT_TRUE(registry_->Register("default", {"books", "b", 0}, {.chain_tip = other->key}).ok());
  EXPECT_EQ(Names({.filter = "model=small"}), (Strings{"a"}));
  EXPECT_EQ(Names({.filter = "model=another"}), (Strings{"b"}));
}

TEST_F(DocumentListingTest, InvalidatingASourceRemovesWhatCameFromIt) {
  Add("a", {}, 1);
  Add("a", {}, 2);
  Add("b", {}, 3);
  const auto gone = registry_->InvalidateSource("default", "/src/a");
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->num_documents, 2u);
  EXPECT_EQ(gone->num_segments, 2u);
  EXPECT_EQ(Names({}), (Strings{"b"}));
  EXPECT_EQ(Events().back(), "INVALIDATED a@2");
  EXPECT_EQ(registry_->InvalidateSource("default", "/src/a").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(registry_->Invalidate("default", {"books", "b", 0})->num_documents, 1u);
}

}  // namespace
}  // namespace quire::kvserver::testing
