// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/cluster_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cluster/placement/placement_key.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

EtcdSnapshot Snapshot() {
  return {
      .keys = {{"cluster", {R"({"cluster_id": "c1", "min_protocol": 1})", 3}},
               {"settings", {R"({"replicas": 2, "unknown_setting": true})", 4}},
               {"nodes/a", {R"({"node_id": "1", "last": {"name": "a", "node_id": "1"}})", 5}},
               {"nodes/b",
                {R"({"node_id": "2", "left": true, "last": {"name": "b", "zone": "east"}})", 6}},
               {"nodes/c", {R"({"node_id": "3", "last": {"name": "c", "zone": "no zone!"}})", 7}},
               {"nodes/d", {R"({"node_id": "4", "draining": true, "last": {"name": "d"}})", 8}},
               {"live/d", {R"({"name": "d", "node_id": "4", "weight": 7})", 9}},
               {"live/a", {R"({"name": "a", "node_id": "another disk"})", 10}},
               {"later/thing", {"what a later version keeps", 11}}},
      .revision = 12};
}

TEST(ClusterRecordsTest, TheViewHasEveryNodeWithItsState) {
  const auto records = ParseRecords(Snapshot());
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->nodes.at("b").mod_revision, 6);
  const ClusterView view = ViewOf("demo", *records);
  EXPECT_EQ(view.id, "c1");
  EXPECT_EQ(view.epoch, 12u);
  EXPECT_EQ(view.settings.replicas, 2u);
  EXPECT_EQ(view.settings.max_clock_skew_millis, 5000u) << "a default";
  ASSERT_EQ(view.members.size(), 3u) << "a record out of range is left out";
  EXPECT_EQ(view.Find("a")->state, MemberState::kLost) << "the lease is another disk's";
  EXPECT_EQ(view.Find("b")->state, MemberState::kLeft);
  EXPECT_EQ(view.Find("d")->state, MemberState::kDraining);
  EXPECT_EQ(view.Find("d")->weight, 7u);
  EXPECT_EQ(view.Find("e"), nullptr);
}

/// Key and record of a hot document, as nodes write them.
std::pair<std::string, EtcdKey> HotRecord(const std::string& document, const std::string& more) {
  return {HotKey(KeyOfDocument("t", "books", document).hash),
          {R"({"tenant": "t", "collection": "books", "document": ")" + document + "\"" + more + "}",
           13}};
}

TEST(ClusterRecordsTest, HotDocumentsAreInTheViewAndUnsoundOnesAreLeftOut) {
  EtcdSnapshot snapshot = Snapshot();
  snapshot.keys.insert(HotRecord("a", R"(, "extra_replicas": 2, "lease": "77")"));
  snapshot.keys.insert(HotRecord("b", R"(, "extra_replicas": 1)"));
  snapshot.keys.insert(HotRecord("c", R"(, "extra_replicas": 9, "lease": "77")"));
  snapshot.keys["hot/0000000000000001"] =
      HotRecord("d", R"(, "extra_replicas": 1, "lease": "1")").second;
  const ClusterView view = ViewOf("demo", ParseRecords(snapshot).value());
  ASSERT_EQ(view.hot_documents.size(), 1u);
  const HotDocument& hot = view.hot_documents[0];
  EXPECT_EQ(hot.document, "a");
  EXPECT_EQ(hot.extra_replicas, 2u);
  EXPECT_EQ(hot.lease, 77);
  EXPECT_EQ(hot.revision, 13);
  EXPECT_EQ(view.FindHot(hot.placement_hash), &hot);
  EXPECT_EQ(view.FindHot(hot.placement_hash + 1), nullptr);

  // A client hears of its own tenant's, and not of the lease.
  EXPECT_TRUE(FromProto(ToProto(view, "u")).value().hot_documents.empty());
  const ClusterView told = FromProto(ToProto(view, "t")).value();
  ASSERT_EQ(told.hot_documents.size(), 1u);
  EXPECT_EQ(told.hot_documents[0].placement_hash, hot.placement_hash);
  EXPECT_EQ(told.hot_documents[0].lease, 0);
}

TEST(ClusterRecordsTest, AsManyHotDocumentsAsNodesTakeAreInTheView) {
  EtcdSnapshot snapshot = Snapshot();
  for (size_t i = 0; i < kMaxHotDocuments + 10; ++i) {
    snapshot.keys.insert(
        HotRecord("d" + std::to_string(i), R"(, "extra_replicas": 1, "lease": "5")"));
  }
  const ClusterView view = ViewOf("demo", ParseRecords(snapshot).value());
  EXPECT_EQ(view.hot_documents.size(), kMaxHotDocuments);
  EXPECT_TRUE(std::ranges::is_sorted(view.hot_documents, {}, &HotDocument::placement_hash));
}

TEST(ClusterRecordsTest, ARecordThatIsNoJsonIsNamed) {
  EtcdSnapshot snapshot = Snapshot();
  snapshot.keys["nodes/b"].value = "{";
  EXPECT_EQ(ParseRecords(snapshot).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(ParseRecords(snapshot).status().ToString(), HasSubstr("nodes/b"));
}

TEST(ClusterRecordsTest, AViewSurvivesTheWire) {
  const ClusterView view = ViewOf("demo", *ParseRecords(Snapshot()));
  v1::ClusterView proto;
  ASSERT_TRUE(FromJsonText("view", ToJsonText(ToProto(view, "default")), &proto).ok());
  EXPECT_EQ(FromProto(proto).value(), view);

  v1::ClusterView twice = proto;
  twice.mutable_members(1)->set_name("a");
  EXPECT_THAT(FromProto(twice).status().ToString(), HasSubstr("two members are named a"));
  proto.mutable_settings()->set_replicas(kMaxReplicas + 1);
  EXPECT_THAT(FromProto(proto).status().ToString(), HasSubstr("must be 1..8"));
}

TEST(ClusterRecordsTest, NamesAreChecked) {
  for (const char* good : {"a", "0", "node-1.zone_2"})
    EXPECT_TRUE(CheckClusterName("it", good).ok());
  for (const char* bad : {"", "-a", "A", "a/b", "a b", "\xc3\xa4"}) {
    EXPECT_THAT(CheckClusterName("it", bad).ToString(), HasSubstr("it '")) << bad;
  }
  EXPECT_TRUE(CheckClusterName("it", std::string(64, 'a')).ok());
  EXPECT_FALSE(CheckClusterName("it", std::string(65, 'a')).ok());
}

}  // namespace
}  // namespace quire::cluster
