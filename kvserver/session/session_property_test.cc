// SPDX-License-Identifier: Apache-2.0
//
// Promise 4 with a real map: a random worker whose requests and replies get lost keeps its own
// slots; every diff that it applies fits them exactly, and after it the slots hold what was
// selected.
#include <set>

#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

constexpr uint32_t kPages = 40, kSlots = 6;

class RandomWorker {
 public:
  RandomWorker(const KvSpec& spec, Session* session, uint64_t seed)
      : spec_(spec), session_(*session), random_(seed) {
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      slots_.push_back({layer, std::vector(spec.num_kv_heads, std::vector<int32_t>(kSlots, -1)),
                        std::vector(spec.num_kv_heads, std::vector<uint32_t>(kSlots, 0))});
    }
  }

  void Step() {
    if (!synced_) return Resync();
    if (random_.Below(10) == 0 && pending_.layers.empty()) return Ack();
    if (pending_.layers.empty()) pending_ = {epoch_, applied_ + 1, applied_, Wants()};
    if (random_.Below(8) == 0) return GiveUp();
    if (Lost()) return;
    const auto answer = session_.Recall(pending_);
    ASSERT_TRUE(answer.ok()) << answer.status();
    if (Lost()) return;  // The reply; the same recall is repeated at the next step.
    Apply(*answer);
    applied_ = pending_.sequence;
    pending_ = {};
  }

 private:
  bool Lost() { return random_.Below(5) == 0; }

  /// Wants something else after all: the old recall may or may not have arrived.
  void GiveUp() {
    if (!Lost()) {
      ASSERT_TRUE(session_.Recall(pending_).ok());
    }
    pending_ = {};
    synced_ = false;
  }
  void Ack() {
    if (!Lost()) {
      ASSERT_TRUE(session_.Ack(epoch_, applied_).ok());
    }
  }
  void Resync() {
    ++epoch_;
    if (Lost()) return;
    ASSERT_TRUE(session_.Resync(epoch_, applied_, slots_).ok());
    synced_ = !Lost();
  }

  std::vector<LayerWant> Wants() {
    std::vector<LayerWant> wants;
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      if (random_.Below(3) == 0) continue;
      LayerWant& want = wants.emplace_back(LayerWant{layer, {}, {}});
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        std::set<uint32_t> pages;
        for (uint64_t n = random_.Below(kSlots + 1); n > 0; --n) {
          pages.insert(static_cast<uint32_t>(random_.Below(kPages)));
        }
        want.pages.emplace_back(pages.begin(), pages.end());
      }
    }
    if (wants.empty()) wants.push_back({0, std::vector<std::vector<uint32_t>>(2), {}});
    return wants;
  }

  void Apply(const RecallAnswer& answer) {
    size_t next = 0;
    for (size_t i = 0; i < answer.layers.size(); ++i) {
      const LayerPlacement& layer = answer.layers[i];
      for (uint32_t head = 0; head < layer.heads.size(); ++head) {
        std::vector<int32_t>& pages = slots_[layer.layer].pages[head];
        std::vector<uint32_t>& generations = slots_[layer.layer].generations[head];
        for (const Placement& p : layer.heads[head]) {
          EXPECT_EQ(p.replaced, pages[p.slot]);
          EXPECT_EQ(p.generation, generations[p.slot] + 1);
          EXPECT_EQ(std::count(pages.begin(), pages.end(), static_cast<int32_t>(p.page)), 0);
          const auto unit = answer.units[next++].slice.bytes;
          const auto expected = TestUnit(spec_, p.page, layer.layer, head, spec_.page_tokens);
          EXPECT_TRUE(std::equal(unit.begin(), unit.end(), expected.begin(), expected.end()));
          pages[p.slot] = static_cast<int32_t>(p.page);
          generations[p.slot] = p.generation;
        }
        for (const uint32_t page : pending_.layers[i].pages[head]) {
          EXPECT_EQ(std::count(pages.begin(), pages.end(), static_cast<int32_t>(page)), 1);
        }
      }
    }
    EXPECT_EQ(next, answer.units.size());
  }

  const KvSpec& spec_;
  Session& session_;
  SeededRandom random_;
  std::vector<LayerSlots> slots_;
  RecallArgs pending_;  ///< Without layers: none.
  uint64_t epoch_ = 1, applied_ = 0;
  bool synced_ = true;
};

class SessionPropertyTest : public SessionFixture {};

TEST_F(SessionPropertyTest, EveryDiffFitsTheWorkersOwnMapWhateverIsLost) {
  const SegmentKey tip = SealedWith(kPages)->chain_tip();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto opened = OpenSession(tip, kSlots);
    RandomWorker worker(spec_, sessions_.Find(kTenant, opened.id)->get(), seed);
    for (int step = 0; step < 300 && !HasFailure(); ++step) worker.Step();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    sessions_.Close(kTenant, opened.id);
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
