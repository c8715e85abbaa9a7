// SPDX-License-Identifier: Apache-2.0
//
// A session against a server that loses, delays, damages and forgets at random. It also sends parts
// twice, and replies to earlier recalls. The session never takes a slot to hold another page than
// it does (promise 4). Once the faults are over every recall succeeds. With units as payload and
// with a landing, which what comes again lands in again.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/recall_test_kit.h"
#include "common/wire/unit_list.h"
#include "tests/kit/same_bytes.h"

namespace quire {
namespace {

using namespace internal;

using testing::FakeClock;

constexpr uint32_t kKvHeads = 2;
constexpr uint32_t kSlots = 3;         ///< Slots of the sequence.
constexpr uint32_t kSessionSlots = 5;  ///< Slots that its lanes have room for in a landing.
constexpr uint32_t kPages = 12;
constexpr int kSteps = 400;

/// The server's half of the protocol, over lanes (sequence 0, layers 0 and 1).
class ModelServer final : public Transport {
 public:
  ModelServer(const KvSpec& spec, FakeClock* clock, uint64_t seed)
      : spec_(spec), clock_(clock), random_(seed) {}

  void StopFaults() { faulty_ = false; }
  bool Fault(uint32_t one_in) { return faulty_ && random_.Below(one_in) == 0; }

  StatusOr<CallMessage> Resync(const CallMessage& message) {
    v1::ResyncRequest request;
    EXPECT_TRUE(request.ParseFromString(message.control));
    if (Fault(4)) return Unavailable("the resync was lost");
    if (request.epoch() <= epoch_) return FailedPrecondition("the epoch has passed");
    epoch_ = request.epoch();
    lanes_ = {};
    for (const v1::LaneMap& map : request.lanes()) {
      Lane& lane = lanes_.at(map.layer());
      wire::LaneSlots slots;
      EXPECT_TRUE(wire::DecodeLaneSlots(map.slots(), kKvHeads * kSlots, &slots).ok());
      for (size_t i = 0; i < slots.pages.size(); ++i) {
        lane.committed[i] = {slots.pages[i], slots.generations[i]};
      }
      lane.pending = lane.committed;
      lane.committed_exchange = lane.pending_exchange = map.applied();
    }
    if (Fault(4)) return Unavailable("the reply to the resync was lost");
    return CallMessage{v1::ResyncReply().SerializeAsString(), {}};
  }

  TransportCapabilities capabilities() const override {
    return {.name = "model", .max_message_bytes = 1 << 20, .direct_landing = true};
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return std::make_unique<Memory>(memory);
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view, CallMessage message,
                                               const CallOptions& options) override {
    if (Fault(8)) return Unavailable("no connection");
    if (Fault(30)) lanes_ = {};  // The server forgets everything.
    v1::RecallRequest request;
    EXPECT_TRUE(request.ParseFromString(message.control));
    auto call = std::make_unique<Pending>(this, clock_, options.landing);
    if (Fault(15)) call->events = earlier_;
    if (Fault(10)) return call;
    std::deque<Event> events = Serve(request, options.landing);
    earlier_.clear();
    for (Event& event : events) {
      if (event.rows) earlier_.emplace_back(event).again = true;
      call->events.push_back(std::move(event));
      if (Fault(25) && !earlier_.empty()) call->events.push_back(earlier_.back());
    }
    return call;
  }

 private:
  struct Slot {
    int32_t page = -1;
    uint32_t generation = 0;
  };
  using Slots = std::array<Slot, kKvHeads * kSlots>;
  struct Lane {
    uint64_t committed_exchange = 0;
    uint64_t pending_exchange = 0;
    Slots committed;
    Slots pending;
  };
  using Next = StatusOr<std::optional<CallMessage>>;
  struct Event {
    Next what;
    std::optional<testing::LaneRows> rows = {};  ///< Rows of a part.
    bool again = false;                          ///< Units land when it comes.
  };

  class Memory final : public Landing {
   public:
    explicit Memory(std::span<std::byte> bytes) : bytes_(bytes) {}
    std::span<std::byte> bytes() const override { return bytes_; }

   private:
    const std::span<std::byte> bytes_;
  };
  /// Hands out what was served, as far as nothing goes wrong.
  class Pending final : public PendingCall {
   public:
    Pending(ModelServer* server, FakeClock* clock, Landing* landing)
        : server_(server), clock_(clock), landing_(landing) {}
    ~Pending() override { server_->given_up_.erase(this); }
    ModelServer::Next Next(TimePoint deadline) override {
      if (cancelled_) return Status(StatusCode::kCancelled, "cancelled");
      if (server_->Fault(12)) return Lose();
      if (events.empty() || server_->Fault(12)) {
        clock_->Advance(std::max(deadline - clock_->Now(), Duration::zero()));
        return DeadlineExceeded("nothing has come");
      }
      Event event = std::move(events.front());
      events.pop_front();
      if (event.again && landing_ != nullptr) server_->Land(*event.rows, *landing_);
      return std::move(event.what);
    }
    void Cancel() override {
      cancelled_ = true;
      if (landing_ != nullptr) server_->given_up_.insert(this);
    }
    bool IsQuiet() const override {
      if (server_->given_up_.contains(this) && !server_->Fault(2)) server_->given_up_.erase(this);
      return !server_->given_up_.contains(this);
    }
    /// Writes once more what has not been taken.
    void LandLate() const {
      for (const Event& event : events) {
        if (event.rows) server_->Land(*event.rows, *landing_);
      }
    }

    std::deque<Event> events;

   private:
    Status Lose() {
      cancelled_ = true;
      return Unavailable("the peer died");
    }
    ModelServer* const server_;
    FakeClock* const clock_;
    Landing* const landing_;
    bool cancelled_ = false;
  };

  std::deque<Event> Serve(const v1::RecallRequest& request, Landing* landing) {
    std::deque<Event> events;
    for (const v1::LayerWant& want : request.wants()) {
      for (int i = 0; i < want.applied_size(); ++i) {
        const uint32_t layer = want.first_layer() + static_cast<uint32_t>(i);
        auto event = ServeLane(request, want, layer, want.applied(i), landing);
        if (!event.ok()) {
          events.push_back({.what = event.status()});
          return events;
        }
        events.push_back(*std::move(event));
      }
    }
    events.push_back({.what = std::nullopt});
    for (const Pending* pending : given_up_) pending->LandLate();
    return events;
  }

  StatusOr<Event> ServeLane(const v1::RecallRequest& request, const v1::LayerWant& want,
                            uint32_t layer, uint64_t applied, Landing* landing) {
    Lane& lane = lanes_.at(layer);
    if (request.epoch() != epoch_) return FailedPrecondition("the epoch has passed");
    if (applied == lane.pending_exchange) {
      lane.committed = lane.pending;
      lane.committed_exchange = lane.pending_exchange;
    }
    if (applied != lane.committed_exchange || request.exchange() <= lane.pending_exchange) {
      return FailedPrecondition("out of order");
    }
    lane.pending = lane.committed;
    lane.pending_exchange = request.exchange();
    PageLists pages;
    EXPECT_TRUE(wire::DecodeUnitList(want.units(), kKvHeads, kSlots, &pages).ok());
    testing::LaneRows rows{.layer = layer};
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      PlaceMissing(pages.Head(head), head, &lane.pending, &rows);
    }
    v1::RecallReply reply;
    reply.set_exchange(request.exchange());
    reply.set_epoch(request.epoch());
    Payload payload;
    testing::AddLane(spec_, rows, &reply, &payload);
    CallMessage part{reply.SerializeAsString(), std::move(payload)};
    if (landing != nullptr) {
      part.places = Land(rows, *landing);
      part.landed_bytes = part.payload.size_bytes();
      part.payload = {};
    }
    if (Fault(15)) part.control.resize(part.control.size() - 1);
    return Event{.what = std::optional<CallMessage>(std::move(part)), .rows = std::move(rows)};
  }

  static void PlaceMissing(std::span<const uint32_t> wanted, uint32_t head, Slots* slots,
                           testing::LaneRows* rows) {
    const auto own = std::span(*slots).subspan(size_t{head} * kSlots, kSlots);
    const std::set<int32_t> keep(wanted.begin(), wanted.end());
    for (const int32_t page : keep) {
      if (std::ranges::any_of(own, [&](const Slot& slot) { return slot.page == page; })) continue;
      const auto victim =
          std::ranges::find_if(own, [&](const Slot& slot) { return !keep.contains(slot.page); });
      rows->rows.push_back({head, static_cast<uint32_t>(victim - own.begin()), ++victim->generation,
                            static_cast<uint32_t>(page), victim->page});
      victim->page = page;
    }
  }

  /// Puts the units where they go, and tells where that is.
  std::vector<uint64_t> Land(const testing::LaneRows& rows, const Landing& landing) const {
    const uint64_t bytes = UnitBytes(spec_);
    std::vector<uint64_t> places;
    for (const testing::Row& row : rows.rows) {
      const uint64_t slot = (uint64_t{rows.layer} * kKvHeads + row.head) * kSessionSlots + row.slot;
      const std::vector<std::byte> unit = testing::UnitOfPage(spec_, row.page);
      std::copy(unit.begin(), unit.end(), landing.bytes().begin() + slot * bytes);
      places.push_back(slot * bytes);
    }
    return places;
  }

  const KvSpec spec_;
  FakeClock* const clock_;
  SeededRandom random_;
  bool faulty_ = true;
  uint64_t epoch_ = 1;
  std::array<Lane, 2> lanes_ = {};
  std::deque<Event> earlier_;          ///< The parts of the last reply, which may come again.
  std::set<const Pending*> given_up_;  ///< Into landings, of which something may still land.
};

enum class Way { kInMessages, kLanding };

class SessionPropertyTest : public testing::ClientTest, public ::testing::WithParamInterface<Way> {
 protected:
  void Open(uint64_t seed) {
    model_ = std::make_shared<ModelServer>(spec_, &clock_, seed);
    client_ = MakeClient({.data_transport = model_});
    v1::OpenSessionReply reply;
    reply.set_session_id(77);
    reply.set_epoch(1);
    wire::ContextInfoToProto(testing::SealedContext(spec_, uint64_t{kPages} * spec_.page_tokens),
                             reply.add_sequences()->add_members()->mutable_context());
    server_.Reply("quire.v1.Session/Open", reply);
    for (int i = 0; i < 100 * kSteps; ++i) {
      server_.Push("quire.v1.Session/Resync",
                   [this](const CallMessage& request) { return model_->Resync(request); });
    }
    const SequenceSpec sequence = {.members = {{.context = testing::KeyOf(3)}},
                                   .slots_per_head = kSlots};
    session_ =
        *client_->OpenSession({&sequence, 1}, {.spec = spec_, .slots_per_head = kSessionSlots});
    own_.assign(2 * kKvHeads * kSessionSlots * UnitBytes(spec_), std::byte{0});
    if (GetParam() == Way::kLanding) {
      landing_ = *session_->MakeLanding();
      ASSERT_TRUE(landing_->direct());
    }
  }

  std::span<std::byte> Unit(uint32_t layer, size_t head, size_t slot) {
    const uint64_t bytes = UnitBytes(spec_);
    const size_t unit = (layer * kKvHeads + head) * kSessionSlots + slot;
    return std::span(own_).subspan(unit * bytes, bytes);
  }
  /// Does what a worker does with a part.
  void Apply(const RecallPart& part) {
    const std::vector<std::byte> bytes = testing::Bytes(part.payload);
    for (size_t i = 0; i < part.placements.size(); ++i) {
      const Placement& at = part.placements[i];
      std::ranges::copy(std::span(bytes).subspan(i * UnitBytes(spec_), UnitBytes(spec_)),
                        Unit(at.layer, at.head, at.slot).begin());
    }
    session_->Applied(part);
  }
  /// Every page that the session relies on is there.
  void CheckSlots() {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const std::span<const int32_t> pages = session_->ResidentPages(0, layer);
      ASSERT_EQ(pages.size(), kKvHeads * kSlots);
      for (size_t slot = 0; slot < pages.size(); ++slot) {
        if (pages[slot] < 0) continue;
        ASSERT_TRUE(
            testing::SameBytes(Unit(layer, slot / kSlots, slot % kSlots),
                               testing::UnitOfPage(spec_, static_cast<uint32_t>(pages[slot]))))
            << "layer " << layer << ", slot " << slot;
      }
    }
  }
  LayerWant RandomWant(uint32_t layer, uint32_t num_layers, SeededRandom& random) const {
    LayerWant want = {.layer = layer, .num_layers = num_layers};
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      std::set<uint32_t> pages;
      for (uint64_t i = random.Below(kSlots + 1); i > 0; --i) {
        pages.insert(static_cast<uint32_t>(random.Below(kPages)));
      }
      want.pages.AppendHead(std::vector<uint32_t>(pages.begin(), pages.end()));
    }
    return want;
  }
  RecallOptions Options() {
    return {.timeout = std::chrono::milliseconds(100), .landing = landing_.get()};
  }
  /// Starts, takes parts of, or gives up one of the recalls in flight.
  void Step(SeededRandom& random) {
    const auto layer = static_cast<uint32_t>(random.Below(2));
    std::unique_ptr<PendingRecall>& recall = under_way_[layer];
    if (recall == nullptr) {
      auto started = session_->Start({RandomWant(layer, 1, random)}, Options());
      if (started.ok()) recall = *std::move(started);
      return;
    }
    if (random.Below(6) == 0) return recall.reset();
    const auto part = recall->Next(clock_.Now() + std::chrono::milliseconds(10));
    if (part.ok() && part->has_value()) {
      if (random.Below(5) != 0) Apply(**part);
      return;
    }
    const bool not_yet = IsDeadlineExceeded(part.status()) && clock_.Now() < recall->deadline();
    if (!not_yet) recall.reset();
  }

  std::shared_ptr<ModelServer> model_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
  std::vector<std::byte> own_;  ///< Room for the worker's slots, laid out as a landing.
  std::unique_ptr<SessionLanding> landing_;
  std::map<uint32_t, std::unique_ptr<PendingRecall>> under_way_;  ///< By layer.
};

std::string WayName(const ::testing::TestParamInfo<Way>& way) {
  static constexpr std::array kNames = {"InMessages", "Landing"};
  return kNames[static_cast<size_t>(way.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, SessionPropertyTest,
                         ::testing::Values(Way::kInMessages, Way::kLanding), WayName);

TEST_P(SessionPropertyTest, TheMapNeverNamesAPageThatIsNotThere) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Open(seed);
    SeededRandom random(1000 + seed);
    for (int step = 0; step < kSteps; ++step) {
      Step(random);
      CheckSlots();
      if (HasFatalFailure()) return;
    }
    under_way_.clear();
    model_->StopFaults();
    for (int i = 0; i < 3; ++i) {
      const LayerWant want = RandomWant(0, 2, random);
      const auto result = session_->Recall({&want, 1}, Options());
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->lanes.size(), 2u);
      Apply(*result);
      CheckSlots();
    }
    landing_.reset();
    session_.reset();
  }
}

}  // namespace
}  // namespace quire
