// SPDX-License-Identifier: Apache-2.0
//
// A server in a cluster: the view that it hands out, and the documents that it takes.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>

#include "cluster/membership/static_membership.h"
#include "cluster/placement/placement.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/service/testing/service_fixture.h"
#include "kvserver/store/metadata/database.h"
#include "quire/v1/cluster.pb.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

cluster::ClusterView TwoNodes() {
  return {.name = "demo",
          .id = "c1",
          .epoch = 7,
          .members = {{.name = "here", .node_id = "1", .address = "10.0.0.1:7410"},
                      {.name = "there", .node_id = "2", .address = "10.0.0.2:7410"}}};
}

class ClusterServiceTest : public ServiceFixture {
 protected:
  ClusterServiceTest() {
    cluster_ = {.membership = &membership_, .node = "here", .standing = [this] {
                  return lease_ended_ ? FailedPrecondition("its lease has ended") : OkStatus();
                }};
    Start();
  }
  ~ClusterServiceTest() override { Stop(); }
  /// A document of this owner.
  static std::string NameOwnedBy(const std::string& node) {
    const cluster::Placement placement(std::make_shared<const cluster::ClusterView>(TwoNodes()));
    for (int i = 0;; ++i) {
      const std::string name = "document-" + std::to_string(i);
      const auto key = cluster::KeyOfDocument("default", "default", name);
      const uint32_t owner = placement.OwnersOf(key, 1).members[0];
      if (placement.view().members[owner].name == node) return name;
    }
  }
  Status BeginIngest(const std::string& name) {
    v1::BeginIngestRequest request;
    request.mutable_name()->set_collection("default");
    request.mutable_name()->set_name(name);
    return Call<v1::BeginIngestReply>("Registry/BeginIngest", request).status();
  }

  /// Writes rubbish over a document's record while the server is stopped.
  void DamageRecord(const DocumentName& name) {
    Stop();
    {
      const auto database = Database::Open({.path = dir_ / "data/metadata"});
      ASSERT_TRUE(database.ok()) << database.status();
      Database::Batch batch = (*database)->NewBatch();
      batch.Put(Table::kMetadata, DocumentKey("default", name), {"rubbish"});
      ASSERT_EQ((*database)->Commit(batch, /*sync=*/false), OkStatus());
    }
    Start();
  }

  cluster::StaticMembership membership_{TwoNodes()};
  std::atomic<bool> lease_ended_ = false;
};

TEST_F(ClusterServiceTest, TheViewAndTheClockAreHandedOut) {
  const auto reply = Call<v1::ClusterViewReply>("Cluster/View", v1::ClusterViewRequest());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->view().cluster_id(), "c1");
  EXPECT_EQ(reply->view().epoch(), 7u);
  ASSERT_EQ(reply->view().members_size(), 2);
  EXPECT_EQ(reply->view().members(1).address(), "10.0.0.2:7410");
  EXPECT_EQ(reply->unix_micros(), clock_.UnixMicros());
  EXPECT_EQ(reply->frozen(), "");

  cluster_ = {};
  Start();
  EXPECT_EQ(Call<v1::ClusterViewReply>("Cluster/View", v1::ClusterViewRequest()).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(BeginIngest(NameOwnedBy("there")).ok()) << "in no cluster";
}

TEST_F(ClusterServiceTest, ADocumentOfAnotherNodeIsRefusedAndItsOwnerNamed) {
  EXPECT_TRUE(BeginIngest(NameOwnedBy("here")).ok());
  const Status refused = BeginIngest(NameOwnedBy("there"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.ToString(), HasSubstr("belongs to node there at 10.0.0.2:7410 (epoch 7)"));
  cluster::ClusterView two_replicas = TwoNodes();
  two_replicas.settings.replicas = 2;
  membership_.Set(two_replicas);
  EXPECT_EQ(BeginIngest(NameOwnedBy("there")).code(), StatusCode::kFailedPrecondition)
      << "readers would not look here first";

  lease_ended_ = true;
  const Status no_member = BeginIngest(NameOwnedBy("here"));
  EXPECT_EQ(no_member.code(), StatusCode::kUnavailable);
  EXPECT_THAT(no_member.ToString(), HasSubstr("its lease has ended"));
}

TEST_F(ClusterServiceTest, WithoutANodeThatIsUpNobodyTakesDocuments) {
  cluster::ClusterView draining = TwoNodes();
  for (cluster::Member& member : draining.members) member.state = cluster::MemberState::kDraining;
  membership_.Set(draining);
  EXPECT_THAT(BeginIngest("a").ToString(), HasSubstr("start or undrain one"));
}

TEST_F(ClusterServiceTest, ADocumentThatIsHeldTakesFurtherVersions) {
  membership_.Set({.name = "demo", .members = {TwoNodes().members[0]}});
  const std::string name = NameOwnedBy("there");
  v1::RegisterRequest request;
  request.mutable_name()->set_collection("default");
  request.mutable_name()->set_name(name);
  request.set_chain_tip(Sealed(5, 2).chain_tip());
  const auto registered = Call<v1::RegisterReply>("Registry/Register", request);
  ASSERT_TRUE(registered.ok()) << registered.status();
  membership_.Set(TwoNodes());
  EXPECT_TRUE(BeginIngest(name).ok());
  DamageRecord({"default", name, 1});
  EXPECT_TRUE(BeginIngest(name).ok()) << "a damaged version is held, too";
}

}  // namespace
}  // namespace quire::kvserver::testing
