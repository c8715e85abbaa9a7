// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/directory/testing/local_directory.h"
#include "cluster/membership/static_membership.h"
#include "cluster/replica/replicated_put.h"
#include "cluster/replica/testing/fake_nodes.h"
#include "tests/kit/fake_clock.h"

namespace quire::cluster {
namespace {

using testing::FakeChain;
using testing::FakeNode;
using testing::FakePeers;
using ::testing::HasSubstr;

/// Steps that are enough for any work of these tests.
constexpr int kManySteps = 20;

class ReplicatorTest : public ::testing::Test {
 protected:
  ReplicatorTest() {
    peers_.agreement = &directory_;
    for (const char* name : {"a", "b", "c"}) Add(name);
  }
  static Member MemberOf(const std::string& name) {
    return {.name = name, .node_id = "id-" + name, .address = name};
  }
  void Add(const std::string& name) {
    view_.members.push_back(MemberOf(name));
    membership_.Set(view_);
    peers_.nodes[name] = &nodes_[name];
    replicators_[name] = MakeReplicator(name);
  }
  std::unique_ptr<Replicator> MakeReplicator(const std::string& name,
                                             const Membership* membership = nullptr) {
    return std::make_unique<Replicator>(
        Replicator::Parts{.documents = &nodes_[name],
                          .segments = &nodes_[name],
                          .peers = &peers_,
                          .agreement = &directory_,
                          .feed = &directory_,
                          .membership = membership != nullptr ? membership : &membership_,
                          .clock = &clock_,
                          .node = name});
  }
  /// Sets the state of a member.
  void Set(const std::string& name, MemberState state) {
    std::ranges::find(view_.members, name, &Member::name)->state = state;
    membership_.Set(view_);
  }
  void SetReplicas(uint32_t replicas) {
    view_.settings.replicas = replicas;
    membership_.Set(view_);
  }
  /// Lets every node work, as long as there may be something to do.
  void Settle() {
    for (int i = 0; i < kManySteps; ++i) {
      for (auto& [name, replicator] : replicators_) {
        if (!peers_.silent.contains(name)) replicator->Step();
      }
      clock_.Advance(std::chrono::seconds(10));
    }
  }
  /// Puts a version of `name` at a node, as a put does.
  Document Put(const std::string& node, const std::string& name, uint64_t version = 1) {
    const ChainDescription chain = FakeChain(next_seed_++);
    const Document document{.name = {.name = name, .version = version},
                            .chain_tip = chain.keys.back()};
    nodes_[node].PutChain(chain);
    const auto agreed = directory_.Publish("default", document, /*keep_latest=*/false);
    EXPECT_TRUE(agreed.ok()) << agreed.status();
    EXPECT_TRUE(nodes_[node].Adopt("default", document.name, *agreed).ok());
    return document;
  }
  std::set<std::string> HoldersOf(const Document& document) {
    std::set<std::string> holders;
    for (auto& [name, node] : nodes_) {
      if (node.StateOf("default", document) == Held::kWhole) holders.insert(name);
    }
    return holders;
  }
  std::set<std::string> OwnersOf(const Document& document) {
    const Placement placement(membership_.View());
    std::set<std::string> owners;
    for (const auto& [name, node] : nodes_) {
      if (PlaceOf(placement, name, "default", document.name).owned) owners.insert(name);
    }
    return owners;
  }

  testing::FakePeers peers_;
  ClusterView view_{.name = "test", .settings = {.replicas = 2, .copy_bytes_per_second = 0}};
  StaticMembership membership_{view_};
  LocalDirectory directory_;
  quire::testing::FakeClock clock_;
  std::map<std::string, FakeNode> nodes_;
  std::map<std::string, std::unique_ptr<Replicator>> replicators_;
  uint8_t next_seed_ = 1;
};

TEST_F(ReplicatorTest, OwnersGetCopiesAndOthersReleaseTheirs) {
  std::vector<Document> documents;
  for (int i = 0; i < 12; ++i) documents.push_back(Put("a", "document-" + std::to_string(i)));
  nodes_["a"].extras_["document-0"] = {"samkv.statistics"};
  Settle();
  for (const Document& document : documents) {
    EXPECT_EQ(HoldersOf(document), OwnersOf(document)) << document.name.name;
    EXPECT_EQ(HoldersOf(document).size(), 2u);
  }
  for (const std::string& holder : OwnersOf(documents[0])) {
    EXPECT_FALSE(nodes_[holder].extras_["document-0"].empty()) << holder;
  }
  for (const auto& [name, replicator] : replicators_) {
    const ReplicaProgress progress = replicator->progress();
    EXPECT_EQ(progress.copies_pending + progress.releases_pending, 0u) << name;
    EXPECT_FALSE(progress.pass_runs) << name;
    EXPECT_EQ(progress.last_failure, "") << name;
  }
}

TEST_F(ReplicatorTest, ChangesAreFollowedWithoutAPass) {
  Settle();
  const uint64_t passes = replicators_["b"]->progress().passes;
  const Document document = Put("a", "x");
  for (int i = 0; i < 3; ++i) {
    for (auto& [name, replicator] : replicators_) replicator->Step();
  }
  EXPECT_EQ(HoldersOf(document), OwnersOf(document));
  EXPECT_EQ(replicators_["b"]->progress().passes, passes);
  ASSERT_TRUE(directory_.Remove("default", document.name, std::vector<uint64_t>{1}).ok());
  for (auto& [name, replicator] : replicators_) replicator->Step();
  EXPECT_TRUE(HoldersOf(document).empty());
}

TEST_F(ReplicatorTest, ANodeKeepsWhatItDoesNotOwnUntilEveryOwnerHasIt) {
  const Document document = Put("a", "x");
  SetReplicas(1);
  const std::string owner = *OwnersOf(document).begin();
  const std::string other = owner == "a" ? "b" : "a";
  nodes_[owner].LoseEverything();
  nodes_[other].PutChain(FakeChain(1));
  ASSERT_TRUE(nodes_[other]
                  .Adopt("default", document.name, *directory_.Read("default", document.name))
                  .ok());
  peers_.silent.insert(owner);
  Settle();
  EXPECT_TRUE(HoldersOf(document).contains(other)) << "its owner does not answer";
  EXPECT_GT(replicators_[other]->progress().releases_pending, 0u);
  peers_.silent.clear();
  Settle();
  EXPECT_EQ(HoldersOf(document), std::set<std::string>{owner});
}

TEST_F(ReplicatorTest, TwoNodesDoNotLeaveTheLastCopiesToEachOther) {
  SetReplicas(1);
  const Document document = Put("a", "x");
  nodes_["b"].PutChain(FakeChain(1));
  ASSERT_TRUE(
      nodes_["b"].Adopt("default", document.name, *directory_.Read("default", document.name)).ok());
  // By each node's view the other one is the only owner.
  std::map<std::string, std::unique_ptr<StaticMembership>> memberships;
  const std::map<std::string, std::string> other = {{"a", "b"}, {"b", "a"}};
  for (const auto& [name, owner] : other) {
    ClusterView view = view_;
    std::erase_if(view.members, [](const Member& member) { return member.name == "c"; });
    std::ranges::find(view.members, name, &Member::name)->state = MemberState::kDraining;
    memberships[name] = std::make_unique<StaticMembership>(view);
    replicators_[name] = MakeReplicator(name, memberships[name].get());
  }
  peers_.is_releasing = [&](const std::string& member, std::string_view tenant,
                            const DocumentName& name) {
    return replicators_[member]->IsReleasing(tenant, name);
  };
  std::set<std::string> asked;
  peers_.after_holds = [&](const std::string& member) {
    // The member decides about its own copy before the asking one hears its answer.
    if (asked.insert(member).second) replicators_[member]->Step();
  };
  replicators_["a"]->Step();
  EXPECT_EQ(asked, (std::set<std::string>{"a", "b"}));
  EXPECT_FALSE(HoldersOf(document).empty());
}

TEST_F(ReplicatorTest, ANodeThatIsLostToTheOthersReleasesNothing) {
  const Document document = Put("a", "x");
  Settle();
  const std::set<std::string> owners = OwnersOf(document);
  Set(*owners.begin(), MemberState::kLost);
  replicators_[*owners.begin()]->Step();
  Set(*owners.rbegin(), MemberState::kLeft);
  Settle();
  EXPECT_TRUE(HoldersOf(document).contains(*owners.begin()));
  EXPECT_TRUE(HoldersOf(document).contains(*owners.rbegin()));
}

TEST_F(ReplicatorTest, ADeletionBetweenCatchingUpAndTheFirstPassIsFollowed) {
  const Document gone = Put("a", "gone");
  ASSERT_TRUE(replicators_["a"]->CatchUp().ok());
  ASSERT_TRUE(directory_.Remove("default", gone.name, std::vector<uint64_t>{1}).ok());
  replicators_["a"]->Step();
  EXPECT_TRUE(HoldersOf(gone).empty());
}

TEST_F(ReplicatorTest, APassFindsDeletionsThatNothingTold) {
  Settle();
  const Document gone = Put("a", "gone");
  Settle();
  const AgreedName before = *directory_.Read("default", gone.name);
  ASSERT_TRUE(directory_.Remove("default", gone.name, std::vector<uint64_t>{1}).ok());
  Settle();
  nodes_["a"].PutChain(FakeChain(1));
  ASSERT_TRUE(nodes_["a"].Adopt("default", gone.name, before).ok());
  replicators_["a"]->StartPass();
  Settle();
  EXPECT_TRUE(HoldersOf(gone).empty());
}

TEST_F(ReplicatorTest, ANameOfATenantThatIsNotServedAnyMoreStopsNothing) {
  const Document strange = Put("a", "strange");
  nodes_["a"].tenants_ = {};
  ASSERT_TRUE(replicators_["a"]->CatchUp().ok());
  Settle();
  EXPECT_TRUE(HoldersOf(strange).contains("a"));
}

TEST_F(ReplicatorTest, WithoutPeersNamesAreMadeAsAgreedOnly) {
  view_.settings.replicas = 1;
  membership_.Set(view_);
  Replicator alone({.documents = &nodes_["a"],
                    .segments = &nodes_["a"],
                    .agreement = &directory_,
                    .feed = &directory_,
                    .membership = &membership_,
                    .clock = &clock_,
                    .node = "a"});
  ASSERT_TRUE(alone.CatchUp().ok());
  const Document kept = Put("a", "kept");
  const Document gone = Put("a", "gone");
  ASSERT_TRUE(directory_.Remove("default", gone.name, std::vector<uint64_t>{1}).ok());
  for (int i = 0; i < kManySteps; ++i) alone.Step();
  EXPECT_EQ(HoldersOf(kept), std::set<std::string>{"a"});
  EXPECT_TRUE(HoldersOf(gone).empty());
}

TEST_F(ReplicatorTest, AChangedNameDoesNotWaitForItsOldFailure) {
  SetReplicas(3);
  Settle();
  const Document first = Put("a", "x");
  peers_.failing.insert(FakeChain(1).keys[0]);
  for (int i = 0; i < 8; ++i) {
    replicators_["b"]->Step();
    clock_.Advance(std::chrono::minutes(1));
  }
  replicators_["b"]->Step();
  peers_.failing.clear();
  const Document second = Put("a", "x", 2);
  replicators_["b"]->Step();
  EXPECT_TRUE(HoldersOf(second).contains("b"));
}

TEST_F(ReplicatorTest, AStoppedReplicatorDoesNothing) {
  const Document document = Put("a", "x");
  for (auto& [name, replicator] : replicators_) replicator->Stop();
  Settle();
  EXPECT_EQ(HoldersOf(document), std::set<std::string>{"a"});
}

TEST_F(ReplicatorTest, ANodeThatWasAwayServesNothingThatWasDeleted) {
  const Document kept = Put("a", "kept");
  const Document gone = Put("a", "gone");
  Settle();
  ASSERT_TRUE(directory_.Remove("default", gone.name, std::vector<uint64_t>{1}).ok());
  for (const std::string& holder : OwnersOf(gone)) {
    ASSERT_TRUE(MakeReplicator(holder)->CatchUp().ok());
  }
  EXPECT_TRUE(HoldersOf(gone).empty());
  EXPECT_EQ(HoldersOf(kept), OwnersOf(kept));
}

TEST_F(ReplicatorTest, ARemovalBetweenCatchingUpAndTheFirstPassIsFollowed) {
  const Document document = Put("a", "x");
  Settle();
  const std::set<std::string> holders = HoldersOf(document);
  ASSERT_FALSE(holders.empty());
  for (const std::string& holder : holders) {
    replicators_[holder] = MakeReplicator(holder);
    ASSERT_TRUE(replicators_[holder]->CatchUp().ok());
  }
  const uint64_t version = document.name.version;
  ASSERT_TRUE(directory_.Remove("default", document.name, {&version, 1}).ok());
  Settle();
  EXPECT_TRUE(HoldersOf(document).empty());
}

TEST_F(ReplicatorTest, RemovalsAmongForgottenChangesAreFoundOut) {
  Settle();
  const Document gone = Put("a", "gone");
  Settle();
  ASSERT_TRUE(directory_.Remove("default", gone.name, std::vector<uint64_t>{1}).ok());
  directory_.ForgetChanges();
  Settle();
  EXPECT_TRUE(HoldersOf(gone).empty());
  const Document later = Put("a", "later");
  Settle();
  EXPECT_EQ(HoldersOf(later), OwnersOf(later));
}

TEST_F(ReplicatorTest, ALostSegmentIsCopiedAgain) {
  const Document document = Put("a", "x");
  Settle();
  const std::string owner = *OwnersOf(document).begin();
  nodes_[owner].Damage(FakeChain(1).keys[0]);
  EXPECT_NE(HoldersOf(document), OwnersOf(document));
  const uint64_t reads = peers_.reads;
  Settle();
  EXPECT_EQ(HoldersOf(document), OwnersOf(document));
  EXPECT_EQ(peers_.reads, reads + 1) << "the intact segment stays";
}

TEST_F(ReplicatorTest, AnEmptyDiskIsFilledAgain) {
  const Document document = Put("a", "x");
  Settle();
  const std::string owner = *OwnersOf(document).begin();
  nodes_[owner].LoseEverything();
  replicators_[owner] = MakeReplicator(owner);
  Settle();
  EXPECT_EQ(HoldersOf(document), OwnersOf(document));
}

TEST_F(ReplicatorTest, DrainingMovesEverythingAway) {
  std::vector<Document> documents;
  for (int i = 0; i < 8; ++i) documents.push_back(Put("b", "document-" + std::to_string(i)));
  Settle();
  Set("b", MemberState::kDraining);
  Settle();
  for (const Document& document : documents) {
    EXPECT_EQ(HoldersOf(document), (std::set<std::string>{"a", "c"})) << document.name.name;
  }
  EXPECT_EQ(replicators_["b"]->progress().releases_pending, 0u);
  Add("d");
  Settle();
  for (const Document& document : documents) {
    EXPECT_EQ(HoldersOf(document), OwnersOf(document)) << document.name.name;
  }
}

TEST_F(ReplicatorTest, AFailureLeavesTheOthersGoing) {
  const Document bad = Put("a", "bad");
  const Document good = Put("a", "good");
  peers_.failing.insert(FakeChain(1).keys[0]);
  Settle();
  EXPECT_EQ(HoldersOf(good), OwnersOf(good));
  EXPECT_NE(HoldersOf(bad), OwnersOf(bad));
  const auto failed = std::ranges::find_if(
      replicators_, [](const auto& node) { return node.second->progress().failures > 0; });
  ASSERT_NE(failed, replicators_.end());
  EXPECT_THAT(failed->second->progress().last_failure, HasSubstr("DATA_LOSS"));
  peers_.failing.clear();
  Settle();
  EXPECT_EQ(HoldersOf(bad), OwnersOf(bad));
}

TEST_F(ReplicatorTest, CopiesKeepToTheBandwidthLimit) {
  view_.settings.copy_bytes_per_second = FakeNode::kSegmentBytes;
  SetReplicas(3);
  const Document document = Put("a", "x");
  Replicator& replicator = *replicators_["b"];
  for (int second = 0; second < 3; ++second) {
    for (int i = 0; i < 5; ++i) replicator.Step();
    EXPECT_LE(replicator.progress().copied_bytes, (second + 1) * FakeNode::kSegmentBytes);
    clock_.Advance(std::chrono::seconds(1));
  }
  EXPECT_TRUE(HoldersOf(document).contains("b"));
}

TEST_F(ReplicatorTest, NothingMovesForANodeThatIsNoMember) {
  const Document document = Put("a", "x");
  view_.members.clear();
  membership_.Set(view_);
  Settle();
  EXPECT_EQ(HoldersOf(document), std::set<std::string>{"a"});
}

TEST_F(ReplicatorTest, AReplicatedPutHasItsCopiesBeforeItIsAcknowledged) {
  view_.settings.min_replicas = 2;
  SetReplicas(2);
  const Document document = Put("a", "x");
  const std::string owner = *OwnersOf(document).begin();
  const std::string other = *OwnersOf(document).rbegin();
  nodes_[owner].PutChain(FakeChain(1));
  ASSERT_TRUE(nodes_[owner]
                  .Adopt("default", document.name, *directory_.Read("default", document.name))
                  .ok());
  ReplicatedPut put(&peers_, &membership_, owner);
  const auto members = put.Prepare("default", document.name, document.chain_tip, TimePoint::max());
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 1u);
  EXPECT_EQ(put.Adopt("default", document.name, *members, TimePoint::max()).value(), 2u);
  EXPECT_TRUE(HoldersOf(document).contains(other));

  peers_.silent.insert(other);
  const auto refused = put.Prepare("default", document.name, document.chain_tip, TimePoint::max());
  EXPECT_TRUE(IsUnavailable(refused.status()));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("1 of at least 2 copies"));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("node " + other));
  view_.settings.min_replicas = 1;
  SetReplicas(2);
  EXPECT_TRUE(put.Prepare("default", document.name, document.chain_tip, TimePoint::max()).ok());
}

}  // namespace
}  // namespace quire::cluster
