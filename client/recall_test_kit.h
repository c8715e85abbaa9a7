// SPDX-License-Identifier: Apache-2.0
//
// Parts that the tests of sessions share: replies to recalls in a line each, a scripted data
// transport, and a session on both. Nothing sleeps; a script that has no more to say lets the fake
// clock run to the caller's deadline. Nothing that ships includes this.
#ifndef QUIRE_CLIENT_RECALL_TEST_KIT_H_
#define QUIRE_CLIENT_RECALL_TEST_KIT_H_

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client_test_kit.h"
#include "common/wire/lane_records.h"
#include "quire/session.h"
#include "quire/v1/session.pb.h"

namespace quire::testing {

using namespace internal;

/// One unit put into a slot; its bytes follow from the page.
struct Row {
  uint32_t head = 0;
  uint32_t slot = 0;
  uint32_t generation = 1;
  uint32_t page = 0;
  int32_t replaced = -1;
};
/// Placements of a reply in one lane; rows by ascending head and page.
struct LaneRows {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  std::vector<Row> rows = {};
};

inline std::vector<std::byte> UnitOfPage(const KvSpec& spec, uint32_t page) {
  return RandomBytes(UnitBytes(spec), page);
}

inline void AddLane(const KvSpec& spec, const LaneRows& rows, v1::RecallReply* reply,
                    Payload* payload) {
  v1::LanePlacement& lane = *reply->add_lanes();
  lane.set_sequence(rows.sequence);
  lane.set_layer(rows.layer);
  lane.mutable_counts()->Resize(static_cast<int>(spec.num_kv_heads), 0);
  wire::LaneUnits units;
  for (const Row& row : rows.rows) {
    lane.set_counts(static_cast<int>(row.head), lane.counts(static_cast<int>(row.head)) + 1);
    const std::vector<std::byte> unit = UnitOfPage(spec, row.page);
    units.slots.push_back(row.slot);
    units.generations.push_back(row.generation);
    units.pages.push_back(row.page);
    units.replaced.push_back(row.replaced);
    units.crc32c.push_back(Crc32c(unit));
    payload->Append(unit);
  }
  wire::EncodeLaneUnits(units, lane.mutable_units());
}

/// One call of a ScriptedTransport: what it was started with, and what it does.
struct ScriptedCall {
  using Step = std::function<StatusOr<std::optional<CallMessage>>(const ScriptedCall& call)>;

  Status start;            ///< Answer of Start.
  std::deque<Step> steps;  ///< One for each Next; then nothing comes any more.
  std::deque<Step> late;   ///< Steps that arrive after the cancel; it is not quiet until then.
  bool started = false;
  bool cancelled = false;
  bool gone = false;  ///< The client has destroyed its end.
  v1::RecallRequest request;
  CallOptions options;
};

/// Each Start takes the next call of the script.
class ScriptedTransport final : public Transport {
 public:
  explicit ScriptedTransport(FakeClock* clock) : clock_(clock) {}

  /// Adds a call to the script.
  std::shared_ptr<ScriptedCall> Expect() {
    calls_.push_back(std::make_shared<ScriptedCall>());
    return calls_.back();
  }
  size_t started() const { return started_; }

  bool direct_landing = true;  ///< Its answer to the question.
  /// Counts landings: each one that exists holds a copy.
  const std::shared_ptr<int> landings = std::make_shared<int>();

  TransportCapabilities capabilities() const override {
    return {.name = "scripted", .max_message_bytes = 1 << 20, .direct_landing = direct_landing};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    EXPECT_EQ(method, "quire.v1.Session/Recall");
    if (started_ == calls_.size()) return Unimplemented("the script has no call left");
    const std::shared_ptr<ScriptedCall> call = calls_[started_++];
    call->started = true;
    call->options = options;
    EXPECT_TRUE(call->request.ParseFromString(request.control));
    QUIRE_RETURN_IF_ERROR(call->start);
    return std::make_unique<Pending>(call, clock_);
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return std::make_unique<Memory>(memory, landings);
  }

 private:
  class Memory final : public Landing {
   public:
    Memory(std::span<std::byte> bytes, std::shared_ptr<int> counted)
        : bytes_(bytes), counted_(std::move(counted)) {}
    std::span<std::byte> bytes() const override { return bytes_; }

   private:
    const std::span<std::byte> bytes_;
    const std::shared_ptr<int> counted_;
  };

  class Pending final : public PendingCall {
   public:
    Pending(std::shared_ptr<ScriptedCall> call, FakeClock* clock)
        : call_(std::move(call)), clock_(clock) {}
    ~Pending() override {
      for (const ScriptedCall::Step& step : call_->late) (void)step(*call_);
      call_->late.clear();
      call_->gone = true;
    }
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      std::deque<ScriptedCall::Step>& steps = call_->cancelled ? call_->late : call_->steps;
      if (steps.empty() && call_->cancelled) return Status(StatusCode::kCancelled, "cancelled");
      if (steps.empty()) {
        clock_->Advance(std::max(deadline - clock_->Now(), Duration::zero()));
        return DeadlineExceeded("nothing has come");
      }
      const ScriptedCall::Step step = std::move(steps.front());
      steps.pop_front();
      return step(*call_);
    }
    void Cancel() override { call_->cancelled = true; }
    bool IsQuiet() const override { return call_->late.empty(); }

   private:
    const std::shared_ptr<ScriptedCall> call_;
    FakeClock* const clock_;
  };

  FakeClock* const clock_;
  std::vector<std::shared_ptr<ScriptedCall>> calls_;
  size_t started_ = 0;
};

/// A session of two sequences, layers 0 and 1, two heads and three slots per head.
class SessionFixture : public ClientTest {
 protected:
  static constexpr uint32_t kSlots = 3;

  SessionFixture() : data_(std::make_shared<ScriptedTransport>(&clock_)) {}
  void SetUp() override {
    client_ = MakeClient({.data_transport = data_});
    server_.Reply("quire.v1.Session/Open", OpenReply(18, 2));
    const std::vector<SequenceSpec> sequences(2, {.members = {{.context = KeyOf(3)}}});
    auto session = client_->OpenSession(sequences, {.spec = spec_, .slots_per_head = kSlots});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  v1::OpenSessionReply OpenReply(uint64_t num_tokens, int sequences) const {
    v1::OpenSessionReply reply;
    reply.set_session_id(77);
    reply.set_epoch(1);
    for (int i = 0; i < sequences; ++i) Open(num_tokens, reply.add_sequences());
    return reply;
  }
  /// A sequence of one context.
  void Open(uint64_t num_tokens, v1::OpenedSequence* sequence) const {
    v1::OpenedMember& member = *sequence->add_members();
    wire::ContextInfoToProto(SealedContext(spec_, num_tokens), member.mutable_context());
    for (uint64_t i = 0; i < num_tokens % spec_.page_tokens; ++i)
      member.add_tail_tokens(40 + static_cast<int>(i));
  }

  /// Wants `page` at head 0 and nothing at head 1.
  static LayerWant Want(uint32_t layer, uint32_t page, uint32_t sequence = 0) {
    return {.sequence = sequence, .layer = layer, .pages = {{page}, {}}};
  }
  /// A step that brings a part for the exchange that was asked for.
  ScriptedCall::Step Part(std::vector<LaneRows> lanes) const {
    return [this, lanes = std::move(lanes)](const ScriptedCall& call) {
      v1::RecallReply reply;
      reply.set_exchange(call.request.exchange());
      reply.set_epoch(call.request.epoch());
      Payload payload;
      for (const LaneRows& lane : lanes) AddLane(spec_, lane, &reply, &payload);
      CallMessage part{reply.SerializeAsString(), std::move(payload)};
      if (call.options.landing != nullptr) LandUnits(lanes, *call.options.landing, &part);
      return part;
    };
  }
  static ScriptedCall::Step End() {
    return [](const ScriptedCall&) { return std::nullopt; };
  }
  static ScriptedCall::Step Fail(const Status& status) {
    return [status](const ScriptedCall&) { return status; };
  }
  /// A call of the script that does `steps`.
  std::shared_ptr<ScriptedCall> Expect(std::deque<ScriptedCall::Step> steps) {
    auto call = data_->Expect();
    call->steps = std::move(steps);
    return call;
  }
  /// A call that brings what was asked for, in one part.
  std::shared_ptr<ScriptedCall> ExpectPart(std::vector<LaneRows> lanes) {
    return Expect({Part(std::move(lanes)), End()});
  }
  /// Recalls `page` into slot 0 of head 0 of `layer`, which held `replaced`, and applies it.
  void RecallAndApply(uint32_t layer, uint32_t page, uint32_t generation = 1,
                      int32_t replaced = -1) {
    ExpectPart({{0, layer, {{0, 0, generation, page, replaced}}}});
    const LayerWant want = Want(layer, page);
    const auto result = session_->Recall({&want, 1});
    ASSERT_TRUE(result.ok()) << result.status();
    session_->Applied(*result);
  }
  /// Where the units of `lanes` lie in a landing.
  std::vector<uint64_t> PlacesOf(const std::vector<LaneRows>& lanes) const {
    std::vector<uint64_t> places;
    for (const LaneRows& lane : lanes) {
      for (const Row& row : lane.rows) {
        const uint64_t head =
            (uint64_t{lane.sequence} * 2 + lane.layer) * spec_.num_kv_heads + row.head;
        places.push_back((head * kSlots + row.slot) * UnitBytes(spec_));
      }
    }
    return places;
  }
  int32_t PageIn(uint32_t layer, uint32_t slot, uint32_t sequence = 0) const {
    return session_->ResidentPages(sequence, layer)[slot];
  }

  std::shared_ptr<ScriptedTransport> data_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;

 private:
  void LandUnits(const std::vector<LaneRows>& lanes, const Landing& landing,
                 CallMessage* part) const {
    part->places = PlacesOf(lanes);
    size_t i = 0;
    for (const LaneRows& lane : lanes) {
      for (const Row& row : lane.rows) {
        std::ranges::copy(UnitOfPage(spec_, row.page), landing.bytes().data() + part->places[i++]);
      }
    }
    part->landed_bytes = part->payload.size_bytes();
    part->payload = {};
  }
};

}  // namespace quire::testing

#endif  // QUIRE_CLIENT_RECALL_TEST_KIT_H_
