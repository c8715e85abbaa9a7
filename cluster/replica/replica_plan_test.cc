// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replica_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "cluster/placement/placement_key.h"
#include "cluster/replica/transfer_pace.h"
#include "tests/kit/fake_clock.h"

namespace quire::cluster {
namespace {

ClusterView ViewOf(uint32_t replicas) {
  ClusterView view{.name = "test", .settings = {.replicas = replicas}};
  for (const char* name : {"a", "b", "c"}) {
    view.members.push_back({.name = name, .node_id = std::string("id-") + name});
  }
  return view;
}

NamePlace PlaceIn(ClusterView view, const std::string& node, const std::string& name = "x") {
  const Placement placement(std::make_shared<const ClusterView>(std::move(view)));
  return PlaceOf(placement, node, "default", {.name = name});
}

TEST(ReplicaPlanTest, OwnersAreAsManyAsThereAreReplicas) {
  int owners = 0;
  for (const char* node : {"a", "b", "c"}) {
    const NamePlace place = PlaceIn(ViewOf(2), node);
    owners += place.owned ? 1 : 0;
    EXPECT_EQ(place.other_owners.size(), place.owned ? 1u : 2u);
    EXPECT_EQ(place.other_holders.size(), 2u) << "whoever serves may have it";
    for (const Member& holder : place.other_holders) EXPECT_NE(holder.name, node);
  }
  EXPECT_EQ(owners, 2);
}

/// The document "x" is hot.
ClusterView HotView(uint32_t replicas, uint32_t extra) {
  ClusterView view = ViewOf(replicas);
  view.settings.hot_replicas = 2;
  view.hot_documents = {{.tenant = "default",
                         .collection = "default",
                         .document = "x",
                         .extra_replicas = extra,
                         .placement_hash = KeyOfDocument("default", "default", "x").hash}};
  return view;
}

TEST(ReplicaPlanTest, AHotDocumentHasMoreOwnersAndOthersStay) {
  for (uint32_t extra = 1; extra <= 2; ++extra) {
    uint32_t owners = 0;
    for (const char* node : {"a", "b", "c"}) {
      const NamePlace before = PlaceIn(ViewOf(1), node), hot = PlaceIn(HotView(1, extra), node);
      owners += hot.owned ? 1 : 0;
      EXPECT_TRUE(hot.owned || !before.owned) << node << " keeps it";
      EXPECT_EQ(hot.min_owners, 1u) << "one that lacks it stops no other move";
      EXPECT_EQ(PlaceIn(HotView(1, extra), node, "y").owned, PlaceIn(ViewOf(1), node, "y").owned);
    }
    EXPECT_EQ(owners, 1 + extra);
  }
}

TEST(ReplicaPlanTest, ADrainingNodeOwnsNothingAndIsStillReadFrom) {
  ClusterView view = ViewOf(3);
  view.members[0].state = MemberState::kDraining;
  const NamePlace drained = PlaceIn(view, "a");
  EXPECT_FALSE(drained.owned);
  EXPECT_EQ(drained.other_owners.size(), 2u);
  EXPECT_EQ(PlaceIn(view, "b").other_holders.size(), 2u);
}

TEST(ReplicaPlanTest, AnOwnerCopiesWhatItLacksAndAnotherNodeReleasesWhatItHas) {
  const NamePlace owner{.owned = true};
  const NamePlace other{.owned = false};
  EXPECT_EQ(TaskOf(owner, Held::kNot), ReplicaTask::kCopy);
  EXPECT_EQ(TaskOf(owner, Held::kDamaged), ReplicaTask::kCopy);
  EXPECT_EQ(TaskOf(owner, Held::kWhole), ReplicaTask::kNone);
  EXPECT_EQ(TaskOf(other, Held::kNot), ReplicaTask::kNone);
  EXPECT_EQ(TaskOf(other, Held::kDamaged), ReplicaTask::kRelease);
  EXPECT_EQ(TaskOf(other, Held::kWhole), ReplicaTask::kRelease);
}

TEST(ReplicaPlanTest, NothingIsReleasedBeforeEveryOwnerHasIt) {
  NamePlace place{.other_owners = {{.name = "a"}, {.name = "b"}}};
  EXPECT_TRUE(MayRelease(place, {true, true}));
  EXPECT_FALSE(MayRelease(place, {true, false}));
  EXPECT_FALSE(MayRelease(place, {true})) << "one was not asked";
  place.min_owners = 3;
  EXPECT_FALSE(MayRelease(place, {true, true})) << "there are too few owners";
  place.min_owners = 2;
  EXPECT_TRUE(MayRelease(place, {true, true}));
  place.owned = true;
  EXPECT_FALSE(MayRelease(place, {true, true}));
  EXPECT_FALSE(MayRelease({}, {})) << "there is no owner";
}

TEST(ReplicaPlanTest, OnlyChangesThatMoveDocumentsChangeThePlacement) {
  ClusterView changed = ViewOf(2);
  changed.epoch = 9;
  changed.settings.max_clock_skew_millis = 1;
  EXPECT_TRUE(SamePlacement(ViewOf(2), changed));
  EXPECT_FALSE(SamePlacement(ViewOf(2), ViewOf(3)));
  changed.members[1].state = MemberState::kLost;
  EXPECT_FALSE(SamePlacement(ViewOf(2), changed));
  changed.members.pop_back();
  EXPECT_FALSE(SamePlacement(ViewOf(2), changed));
}

TEST(TransferPaceTest, APieceWaitsUntilTheBytesBeforeItArePaidFor) {
  quire::testing::FakeClock clock;
  TransferPace pace(&clock);
  pace.Draw(1000);
  EXPECT_TRUE(pace.MayBegin()) << "without a limit";
  pace.SetRate(100);
  EXPECT_TRUE(pace.MayBegin());
  pace.Draw(250);
  EXPECT_FALSE(pace.MayBegin());
  clock.Advance(std::chrono::seconds(2));
  EXPECT_FALSE(pace.MayBegin());
  clock.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(pace.MayBegin());
  clock.Advance(std::chrono::hours(1));
  EXPECT_TRUE(pace.MayBegin());
  pace.Draw(101);
  EXPECT_FALSE(pace.MayBegin()) << "an idle hour saves up one second";
}

}  // namespace
}  // namespace quire::cluster
