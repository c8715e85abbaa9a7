// SPDX-License-Identifier: Apache-2.0
#include "client/routing/document_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/client_test_kit.h"
#include "client/routing/testing/fake_cluster.h"
#include "quire/cluster_client.h"

namespace quire {
namespace {

using internal::DocumentPlaces;
using internal::RecentMap;
using testing::KeyOf;

class DocumentPlacesTest : public ::testing::Test {
 protected:
  DocumentPlacesTest() {
    for (const std::string& address : {order_[0], order_[1]}) cluster_.documents[address] = {"x"};
  }
  std::string Find(const ContextRef& context) {
    return places_.Find(context, Duration::max()).value_or("nowhere");
  }

  testing::FakeCluster cluster_;
  const std::vector<std::string> order_ = cluster_.Order("x");
  const std::shared_ptr<DocumentRouter> router_ = cluster_.MakeRouter();
  DocumentPlaces places_{router_, &cluster_.clock};
  const DocumentName x_ = {.name = "x"};
};

TEST_F(DocumentPlacesTest, ADocumentStaysOnItsNodeUntilThatFails) {
  EXPECT_EQ(Find(x_), order_[0]);
  places_.NoteEnd(order_[1], Unavailable("another node"));
  EXPECT_EQ(Find(x_), order_[0]);
  EXPECT_EQ(cluster_.documents_asked[order_[0]], 1) << "its node is known";
  places_.NoteEnd(order_[0], NotFound("no such session"));
  EXPECT_EQ(Find(x_), order_[0]);
  EXPECT_EQ(cluster_.documents_asked[order_[0]], 1) << "the node is there";
  places_.NoteEndOf(x_, order_[0], NotFound("no such extra"));
  EXPECT_EQ(Find(x_), order_[0]);
  EXPECT_EQ(cluster_.documents_asked[order_[0]], 2) << "it is asked whether it has the document";
  cluster_.silent = {order_[0]};
  places_.NoteEnd(order_[0], Unavailable("lost"));
  EXPECT_EQ(Find(x_), order_[1]);
  cluster_.silent = {};
  EXPECT_EQ(Find(x_), order_[1]);
  EXPECT_TRUE(IsNotFound(places_.Find(DocumentName{.name = "y"}, Duration::max()).status()));
}

TEST_F(DocumentPlacesTest, AChainGoesWhereItsDocumentGoes) {
  const ContextRef chain(KeyOf(3)), variant(KeyOf(4));
  EXPECT_TRUE(IsNotFound(places_.Find(chain, Duration::max()).status()));
  const DocumentName second = {.name = "x", .version = 2};
  places_.NoteFound(order_[1], second, KeyOf(3));
  EXPECT_EQ(Find(chain), order_[1]);
  EXPECT_EQ(Find(second), order_[1]);
  EXPECT_EQ(cluster_.documents_asked[order_[1]], 0) << "it was found there";
  places_.NoteChain(KeyOf(4), second);
  EXPECT_EQ(Find(variant), order_[1]);
  places_.NoteEnd(order_[1], Unavailable("lost"));
  EXPECT_EQ(Find(chain), order_[0]);
  EXPECT_EQ(Find(variant), order_[0]);
}

TEST_F(DocumentPlacesTest, AnOpenContextStaysWhereItWasOpened) {
  places_.NoteContext(77, order_[1]);
  EXPECT_EQ(Find(uint64_t{77}), order_[1]);
  places_.NoteEnd(order_[1], Unavailable("lost"));
  EXPECT_EQ(Find(uint64_t{77}), order_[1]);
  places_.ForgetContext(77);
  EXPECT_TRUE(IsNotFound(places_.Find(uint64_t{77}, Duration::max()).status()));
}

TEST_F(DocumentPlacesTest, OnlyTheLatestEntriesAreKept) {
  RecentMap<int, int> map(2);
  map.Put(1, 10);
  map.Put(2, 20);
  map.Put(1, 11);
  ASSERT_NE(map.Find(1), nullptr);
  EXPECT_EQ(*map.Find(1), 11);
  map.Put(3, 30);
  EXPECT_EQ(map.Find(1), nullptr);
  EXPECT_EQ(map.size(), 2u);
}

TEST_F(DocumentPlacesTest, AClientOfTheClusterTakesTheNodeThatCanBeConnectedTo) {
  std::vector<std::string> connected;
  std::string refused;
  const auto connect = [&](const std::string& address, std::shared_ptr<Transport> control) {
    connected.push_back(address);
    if (address == refused) {
      return StatusOr<std::unique_ptr<Client>>(Unavailable("no answer"));
    }
    return Client::Create({.transport = std::move(control), .clock = &cluster_.clock});
  };
  const auto client =
      ClusterClient::Create({.router = router_, .connect = connect, .clock = &cluster_.clock});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->data_transport_name(), "none");
  const auto first = (*client)->ForDocument(x_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*client)->ForDocument(x_).value(), *first);
  EXPECT_EQ(connected, std::vector<std::string>{order_[0]});
  EXPECT_EQ((*client)->data_transport_name(), "fake");

  connected.clear();
  refused = order_[0];
  const auto other =
      ClusterClient::Create({.router = router_, .connect = connect, .clock = &cluster_.clock});
  ASSERT_TRUE((*other)->ForDocument(x_).ok());
  EXPECT_EQ(connected, (std::vector<std::string>{order_[0], order_[1]}));
}

TEST_F(DocumentPlacesTest, CallsToOneNodeAreRefusedByAClientOfTheCluster) {
  EXPECT_EQ(ClusterClient::Create({.router = router_}).status().code(),
            StatusCode::kInvalidArgument);
  const auto connect = [](const std::string&, std::shared_ptr<Transport> control) {
    return Client::Create({.transport = std::move(control)});
  };
  const auto client = ClusterClient::Create({.router = router_, .connect = connect}).value();
  EXPECT_EQ(client->ListDocuments("default").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(client->DeleteSegments({}).status().code(), StatusCode::kUnimplemented);
  const std::vector<std::string> keys = {"key"};
  EXPECT_EQ(client->StatObjects(keys).status().code(), StatusCode::kUnimplemented);
  const std::vector<ObjectRange> ranges = {{.key = "key"}};
  EXPECT_EQ(client->GetObjects(ranges).status().code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(IsNotFound(client->GetDocument({.name = "y"}).status()));
  EXPECT_TRUE(IsNotFound(client->Stat(KeyOf(9)).status()));
  EXPECT_TRUE(IsNotFound(client->DropContext(5)));
  EXPECT_FALSE(client->LandsDirectly());
}

}  // namespace
}  // namespace quire
