// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/document_search.h"

#include <gtest/gtest.h>

#include <string>

#include "kvserver/registry/testing/registry_fixture.h"
#include "nlohmann/json.hpp"

namespace quire::kvserver::testing {
namespace {

TEST(FilterOfSearchTest, WordsAreLookedForInNameAndCollection) {
  EXPECT_EQ(FilterOfSearch(""), "");
  EXPECT_EQ(FilterOfSearch("  "), "");
  EXPECT_EQ(FilterOfSearch("pump"), "(name~\"pump\" or collection~\"pump\")");
  EXPECT_EQ(
      FilterOfSearch(" a  b\"\\ "),
      "(name~\"a\" or collection~\"a\") and (name~\"b\\\"\\\\\" or collection~\"b\\\"\\\\\")");
  EXPECT_EQ(FilterOfSearch("bytes>1GiB"), "bytes>1GiB");
}

class DocumentSearchTest : public RegistryFixture {
 protected:
  nlohmann::json Search(const std::string& query, int code = 200) {
    const HttpReply reply = SearchDocuments(*registry_, query);
    EXPECT_EQ(reply.code, code) << reply.body;
    return nlohmann::json::parse(reply.body);
  }
};

TEST_F(DocumentSearchTest, PagesFollowEachOther) {
  const auto chain = Chain({1});
  for (const char* const name : {"one", "two", "<b>three<b>"}) {
    clock_.Advance(std::chrono::seconds(1));
    ASSERT_TRUE(Register(name, chain).ok());
  }
  const auto all = Search("tenant=default&q=");
  ASSERT_EQ(all["documents"].size(), 3u);
  EXPECT_EQ(all["documents"][0]["name"], "<b>three<b>") << "the newest, as it is";
  const auto first = Search("tenant=default&limit=2");
  EXPECT_EQ(first["documents"].size(), 2u);
  const auto second = Search("tenant=default&limit=2&after=" + first["next"].get<std::string>());
  EXPECT_EQ(second["documents"][0]["name"], "one");
  EXPECT_EQ(second["next"], "");
  EXPECT_EQ(Search("tenant=default&q=tw%6F+books")["documents"].size(), 1u);
}

TEST_F(DocumentSearchTest, BadParametersAreExplained) {
  EXPECT_NE(Search("tenant=nobody", 404)["error"].get<std::string>().find("nobody"),
            std::string::npos);
  (void)Search("tenant=default&limit=0", 400);
  (void)Search("tenant=default&limit=1000000", 400);
  (void)Search("tenant=default&after=zz", 400);
  (void)Search("tenant=default&q=name%3D", 400);
  (void)Search("tenant=default&q=" + std::string(kMaxSearchBytes + 1, 'x'), 400);
}

}  // namespace
}  // namespace quire::kvserver::testing
