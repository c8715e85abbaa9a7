// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/hot_documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/membership/static_membership.h"
#include "cluster/placement/placement_key.h"
#include "common/metrics/testing/metrics_page.h"
#include "tests/kit/fake_clock.h"

namespace quire::cluster {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(500);

/// Agreement in memory, in the view of a membership. Records end as leases do.
class MemoryAgreement final : public HotAgreement {
 public:
  MemoryAgreement(StaticMembership* membership, quire::testing::FakeClock* clock)
      : membership_(*membership), clock_(*clock) {}

  StatusOr<bool> Begin(const ReadName& name, Duration keep) override {
    QUIRE_RETURN_IF_ERROR(answer);
    const uint64_t hash = KeyOfDocument(name.tenant, name.collection, name.document).hash;
    if (documents_.contains(hash)) return false;
    keep_ = keep;
    documents_[hash] = {.tenant = name.tenant,
                        .collection = name.collection,
                        .document = name.document,
                        .placement_hash = hash,
                        .lease = 1,
                        .revision = ++revision_};
    ends_[hash] = clock_.Now() + keep;
    Show();
    return true;
  }
  StatusOr<bool> AddOne(const HotDocument& known) override {
    QUIRE_RETURN_IF_ERROR(answer);
    HotDocument& document = documents_.at(known.placement_hash);
    if (document.revision != known.revision) return false;
    ++document.extra_replicas;
    document.revision = ++revision_;
    Show();
    return true;
  }
  Status Keep(const HotDocument& known) override {
    QUIRE_RETURN_IF_ERROR(answer);
    ++renewals;
    if (!ends_.contains(known.placement_hash)) return NotFound("it has cooled");
    ends_[known.placement_hash] = clock_.Now() + keep_;
    return OkStatus();
  }
  /// Ends what nobody kept.
  void Tick() {
    const size_t before = documents_.size();
    std::erase_if(documents_, [&](const auto& one) { return ends_[one.first] <= clock_.Now(); });
    if (documents_.size() != before) Show();
  }

  Status answer;
  int renewals = 0;

 private:
  void Show() {
    ClusterView view = *membership_.View();
    view.hot_documents.clear();
    for (const auto& [hash, document] : documents_) view.hot_documents.push_back(document);
    ++view.epoch;
    membership_.Set(std::move(view));
  }

  StaticMembership& membership_;
  quire::testing::FakeClock& clock_;
  std::map<uint64_t, HotDocument> documents_;
  std::map<uint64_t, TimePoint> ends_;
  Duration keep_{};
  int64_t revision_ = 0;
};

class HotDocumentsTest : public ::testing::Test {
 protected:
  HotDocumentsTest() {
    for (const std::string name : {"a", "b", "c", "d"}) {
      nodes_[name] = std::make_unique<HotDocuments>(
          HotDocuments::Parts{.take_reads = [this, name] { return std::move(reads_[name]); },
                              .agreement = &agreement_,
                              .membership = &membership_,
                              .clock = &clock_,
                              .node = name});
    }
  }
  static ClusterView ViewOfFour() {
    ClusterView view{
        .name = "test",
        .settings = {
            .replicas = 1, .hot_reads_per_second = 100, .hot_replicas = 2, .hot_keep_seconds = 30}};
    for (const std::string name : {"a", "b", "c", "d"}) {
      view.members.push_back({.name = name, .node_id = "id-" + name, .address = name});
    }
    return view;
  }
  std::vector<std::string> Owners() const {
    const Placement placement(membership_.View());
    const PlacementKey key = KeyOfDocument(kName.tenant, kName.collection, kName.document);
    std::vector<std::string> names;
    for (const uint32_t member : placement.OwnersOf(key, placement.CopiesOf(key)).members) {
      names.push_back(placement.view().members[member].name);
    }
    return names;
  }
  /// Reads the document this often a second, spread over its owners.
  void Read(uint64_t reads_per_second, Duration time) {
    for (const TimePoint end = clock_.Now() + time; clock_.Now() < end;) {
      const std::vector<std::string> owners = Owners();
      for (const std::string& owner : owners) {
        reads_[owner].push_back({.name = kName, .reads = reads_per_second / owners.size() / 2});
      }
      clock_.Advance(kStep);
      for (auto& [name, node] : nodes_) node->Step();
      agreement_.Tick();
    }
  }

  static inline const ReadName kName = {"t", "books", "handbook"};
  quire::testing::FakeClock clock_;
  StaticMembership membership_{ViewOfFour()};
  MemoryAgreement agreement_{&membership_, &clock_};
  std::map<std::string, std::vector<DocumentReads>> reads_;
  std::map<std::string, std::unique_ptr<HotDocuments>> nodes_;
};

TEST_F(HotDocumentsTest, AHotDocumentGetsOwnersOneAfterTheOtherAndLosesThemWhenItCools) {
  const std::vector<std::string> before = Owners();
  Read(80, std::chrono::seconds(60));
  EXPECT_EQ(Owners(), before) << "below the limit";
  Read(500, std::chrono::seconds(8));
  ASSERT_EQ(Owners().size(), 2u);
  EXPECT_EQ(Owners()[0], before[0]) << "the others stay";
  Read(500, std::chrono::seconds(60));
  EXPECT_EQ(Owners().size(), 3u) << "hot_replicas bounds them";
  Read(120, std::chrono::seconds(120));
  EXPECT_EQ(Owners().size(), 3u) << "one owner would read above half of the limit";
  Read(30, std::chrono::seconds(90));
  EXPECT_EQ(Owners(), before);
}

TEST_F(HotDocumentsTest, AModestRiseGetsOneOwner) {
  Read(150, std::chrono::seconds(200));
  EXPECT_EQ(Owners().size(), 2u);
  EXPECT_LE(agreement_.renewals, 2 * 200 / 10 + 2) << "each owner renews three times a lease";
}

TEST_F(HotDocumentsTest, AnAgreementThatIsAwayIsAskedAgain) {
  agreement_.answer = Unavailable("etcd is away");
  Read(500, std::chrono::seconds(20));
  EXPECT_EQ(Owners().size(), 1u);
  agreement_.answer = OkStatus();
  Read(500, std::chrono::seconds(2));
  EXPECT_EQ(Owners().size(), 2u);
}

TEST_F(HotDocumentsTest, ALoweredSettingHoldsAtOnce) {
  Read(500, std::chrono::seconds(60));
  ASSERT_EQ(Owners().size(), 3u);
  ClusterView view = *membership_.View();
  view.settings.hot_replicas = 1;
  membership_.Set(view);
  EXPECT_EQ(Owners().size(), 2u);
  view.settings.hot_reads_per_second = 0;
  membership_.Set(view);
  EXPECT_EQ(Owners().size(), 1u);
  Read(500, std::chrono::seconds(60));
  EXPECT_TRUE(membership_.View()->hot_documents.empty()) << "nobody keeps it";
}

TEST_F(HotDocumentsTest, TheMetricsAreDocumented) {
  quire::testing::ExpectSectionLists("Hot documents", *nodes_["a"], 3);
}

TEST_F(HotDocumentsTest, ANodeThatOwnsNothingOfItDecidesNothing) {
  const std::string owner = Owners()[0];
  const std::string other = owner == "a" ? "b" : "a";
  for (int i = 0; i < 100; ++i) {
    reads_[other].push_back({.name = kName, .reads = 1000});
    clock_.Advance(kStep);
    nodes_[other]->Step();
  }
  EXPECT_EQ(Owners().size(), 1u);
}

}  // namespace
}  // namespace quire::cluster
