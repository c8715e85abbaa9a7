// SPDX-License-Identifier: Apache-2.0
//
// Promise 4 with real maps: a random worker with several lanes keeps its own slots. Its requests
// and their replies get lost, delayed, repeated, reordered and cancelled half way. Every difference
// that it applies fits its slots exactly, and afterwards they hold the selected pages.
#include <deque>
#include <map>
#include <set>

#include "kvserver/session/testing/session_fixture.h"
#include "quire/page_name.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

constexpr uint32_t kPages = 20, kSessionSlots = 5, kSequences = 2, kMembers = 2;
constexpr uint32_t kSlots[kSequences] = {kSessionSlots, 3};

/// The worker's state of one lane.
struct WorkerLane {
  LaneMap slots;
  uint64_t asked = 0;  ///< The exchange in flight; 0: none.
};

class RandomWorker {
 public:
  RandomWorker(const KvSpec& spec, Session* session, uint64_t seed)
      : spec_(spec), session_(*session), random_(seed) {
    for (uint32_t sequence = 0; sequence < kSequences; ++sequence) {
      for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
        const size_t slots = spec.num_kv_heads * kSlots[sequence];
        lanes_.push_back(
            {{sequence, layer, 0, std::vector<int32_t>(slots, -1), std::vector<uint32_t>(slots, 0)},
             0});
      }
    }
  }

  void Step() {
    switch (random_.Below(8)) {
      case 0:
      case 1:
        return SendRecall();
      case 2:
      case 3:
      case 4:
        return DeliverRequest();
      case 5:
      case 6:
        return DeliverReply();
      default:
        return random_.Below(6) == 0 ? Resync() : SendRecall();
    }
  }
  uint64_t applied_lanes() const { return applied_lanes_; }

 private:
  /// One part of a reply, or its error.
  struct Reply {
    uint64_t epoch, exchange;
    Status status;
    CollectingSink::Part part;
  };

  bool Often() { return random_.Below(3) > 0; }
  WorkerLane& LaneOf(uint32_t sequence, uint32_t layer) {
    return lanes_[sequence * spec_.num_layers + layer];
  }

  PageLists RandomPages(uint32_t sequence) {
    PageLists pages;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      std::set<uint32_t> names;
      for (uint64_t n = random_.Below(kSlots[sequence] + 1); n > 0; --n) {
        names.insert(PageName(static_cast<uint32_t>(random_.Below(kMembers)),
                              static_cast<uint32_t>(random_.Below(kPages))));
      }
      pages.AppendHead(std::vector<uint32_t>(names.begin(), names.end()));
    }
    return pages;
  }

  /// Requests some lanes. A lane in flight is sometimes given up: its reply is not applied.
  void SendRecall() {
    RecallArgs args{epoch_, ++exchange_, {}, false};
    for (uint32_t sequence = 0; sequence < kSequences; ++sequence) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        WorkerLane& lane = LaneOf(sequence, layer);
        if (lane.asked != 0 && random_.Below(8) > 0) continue;
        lane.asked = exchange_;
        const bool extends = !args.wants.empty() && Often() && CanExtend(args.wants.back(), lane);
        if (!extends) args.wants.push_back({{sequence, layer, {}}, RandomPages(sequence), {}});
        args.wants.back().lanes.applied.push_back(lane.slots.applied);
      }
    }
    wants_[exchange_] = args;
    Send(args);
  }
  static bool CanExtend(const WantedLayers& want, const WorkerLane& lane) {
    return want.lanes.sequence == lane.slots.sequence &&
           want.lanes.first_layer + want.lanes.num_layers() == lane.slots.layer;
  }
  /// Sends it into the network, sometimes twice. A request that is never delivered is lost.
  void Send(const RecallArgs& request) {
    for (uint64_t n = 1 + random_.Below(5) / 4; n > 0; --n) requests_.push_back(request);
    if (requests_.size() > 6) requests_.erase(requests_.begin() + Any(requests_));
  }
  template <typename T>
  std::ptrdiff_t Any(const T& from) {
    return static_cast<std::ptrdiff_t>(random_.Below(from.size()));
  }

  void DeliverRequest() {
    if (requests_.empty()) return;
    const auto it = requests_.begin() + (Often() ? 0 : Any(requests_));
    const RecallArgs request = *it;
    requests_.erase(it);
    CollectingSink sink;
    const size_t lanes = 1 + random_.Below(8);
    sink.wanted = [&](size_t asked) {
      return asked < lanes ? OkStatus() : Status(StatusCode::kCancelled, "given up");
    };
    const ReplyShape reply{.max_parts = 1 + static_cast<uint32_t>(random_.Below(4)),
                           .part_bytes = 1 + random_.Below(4000)};
    const uint64_t epoch = request.epoch, exchange = request.exchange;
    const Status status = session_.Recall(request, reply, sink);
    for (const auto& part : sink.parts()) replies_.push_back({epoch, exchange, OkStatus(), part});
    if (!status.ok()) replies_.push_back({epoch, exchange, status, {}});
    // Replies not read in time are lost with their connection.
    while (replies_.size() > 12) replies_.pop_front();
  }

  void DeliverReply() {
    if (replies_.empty()) return;
    const auto it = replies_.begin() + (Often() ? 0 : Any(replies_));
    const Reply reply = *it;
    replies_.erase(it);
    if (random_.Below(8) > 0) TakeReply(reply);  // Otherwise it is lost.
  }
  void TakeReply(const Reply& reply) {
    if (reply.epoch != epoch_) return;
    if (!reply.status.ok()) {
      ASSERT_TRUE(reply.status.code() == StatusCode::kCancelled ||
                  reply.status.code() == StatusCode::kFailedPrecondition)
          << reply.status;
      for (WorkerLane& lane : lanes_) {
        if (lane.asked == reply.exchange) lane.asked = 0;
      }
      return;
    }
    const std::vector<Slice>& units = reply.part.payload.slices();
    const Slice* unit = units.data();
    for (const LanePlacement& placement : reply.part.lanes) {
      WorkerLane& lane = LaneOf(placement.sequence, placement.layer);
      if (lane.asked == reply.exchange) {
        Apply(placement, unit, lane);
        lane.slots.applied = reply.exchange;
        lane.asked = 0;
        ++applied_lanes_;
      }
      unit += static_cast<std::ptrdiff_t>(placement.placed.size());
    }
    EXPECT_TRUE(unit == units.data() + units.size());
  }

  void Apply(const LanePlacement& placement, const Slice* unit, WorkerLane& lane) {
    const PlacedUnits& placed = placement.placed;
    const uint32_t slots = kSlots[placement.sequence];
    size_t i = 0;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      const auto pages = std::span(lane.slots.pages).subspan(head * slots, slots);
      const auto generations = std::span(lane.slots.generations).subspan(head * slots, slots);
      for (const size_t end = i + placed.counts[head]; i < end; ++i, ++unit) {
        const uint32_t slot = placed.slots[i];
        ASSERT_LT(slot, slots) << "of sequence " << placement.sequence;
        EXPECT_EQ(placed.replaced[i], pages[slot]);
        EXPECT_EQ(placed.generations[i], generations[slot] + 1);
        EXPECT_EQ(std::ranges::count(pages, static_cast<int32_t>(placed.pages[i])), 0);
        const auto expected =
            TestUnit(spec_, PageOf(placed.pages[i]), placement.layer, head, spec_.page_tokens);
        EXPECT_TRUE(quire::testing::SameBytes(unit->bytes, expected));
        pages[slot] = static_cast<int32_t>(placed.pages[i]);
        generations[slot] = placed.generations[i];
      }
      for (const uint32_t page : WantOf(lane).units.Head(head)) {
        EXPECT_EQ(std::ranges::count(pages, static_cast<int32_t>(page)), 1);
      }
    }
  }
  const WantedLayers& WantOf(const WorkerLane& lane) {
    for (const WantedLayers& want : wants_.at(lane.asked).wants) {
      if (want.lanes.sequence == lane.slots.sequence &&
          lane.slots.layer - want.lanes.first_layer < want.lanes.num_layers()) {
        return want;
      }
    }
    ADD_FAILURE() << "a lane that was not asked for";
    return wants_.at(lane.asked).wants.front();
  }

  /// Gives up everything. Empty lanes need no map.
  void Resync() {
    ++epoch_;
    std::vector<LaneMap> maps;
    for (WorkerLane& lane : lanes_) {
      lane.asked = 0;
      if (std::ranges::count(lane.slots.pages, -1) == std::ssize(lane.slots.pages)) {
        lane.slots.applied = 0;
        std::ranges::fill(lane.slots.generations, 0u);
      } else {
        maps.push_back(lane.slots);
      }
    }
    ASSERT_TRUE(session_.Resync(epoch_, maps, kNever).ok());
    EXPECT_EQ(session_.Resync(epoch_, maps, kNever).code(), StatusCode::kFailedPrecondition);
  }

  const KvSpec& spec_;
  Session& session_;
  SeededRandom random_;
  std::vector<WorkerLane> lanes_;
  std::map<uint64_t, RecallArgs> wants_;
  std::deque<RecallArgs> requests_;
  std::deque<Reply> replies_;
  uint64_t epoch_ = 1, exchange_ = 0, applied_lanes_ = 0;
};

class SessionPropertyTest : public SessionFixture {};

TEST_F(SessionPropertyTest, EveryDiffFitsTheWorkersOwnSlotsWhateverIsLost) {
  const SegmentKey tip = SealedWith(kPages)->chain_tip();
  uint64_t applied_lanes = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto opened =
        OpenSession({{{{tip}, {tip, 50}}, kSlots[0]}, {{{tip}, {tip}}, kSlots[1]}}, kSessionSlots);
    RandomWorker worker(spec_, sessions_.Find(kTenant, opened.id)->get(), seed);
    for (int step = 0; step < 2000 && !HasFailure(); ++step) worker.Step();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    applied_lanes += worker.applied_lanes();
    sessions_.Close(kTenant, opened.id);
  }
  EXPECT_GT(applied_lanes, 1000u) << "the worker hardly ever got what it asked for";
}

}  // namespace
}  // namespace quire::kvserver::testing
