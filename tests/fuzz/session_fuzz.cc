// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes calls of one session, one after another, each from a message of its own, as a hostile or
// broken worker may send them. Every answered recall must place pages of the session's contexts
// into existing slots, with a unit for each.
//
// Input: per call a byte for its kind, one for the size of its message, and the message.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/threads/executor.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/service/adapters/session_convert.h"
#include "kvserver/session/testing/fake_page_store.h"
#include "kvserver/session/testing/test_pages.h"
#include "quire/clock.h"
#include "quire/layout.h"
#include "quire/page_name.h"
#include "tests/fuzz/messages.h"
#include "tests/fuzz/require.h"

namespace {

using namespace quire;
using fuzz::Parse;
using fuzz::Require;
using namespace quire::kvserver;

constexpr char kFuzzTenant[] = "t";
constexpr uint32_t kSealedPages = 6, kOpenPages = 3, kSlots = 4;

/// A sealed context and an open one; the same for every input.
struct World {
  World() : sealed(Filled(kSealedPages)), open(Filled(kOpenPages)) {
    Require(contexts.Find(kFuzzTenant, sealed).value()->Seal({}, {}, Durability::kMemory).ok());
  }
  uint64_t Filled(uint32_t pages) {
    const auto opened = contexts.Open(kFuzzTenant, spec, nullptr);
    Require(opened.ok());
    Require(opened->context
                ->Append(0, testing::TestTokens(pages * spec.page_tokens),
                         testing::TestPages(spec, 0, pages))
                .ok());
    return opened->id;
  }
  /// A sequence of both, with `slots` slots per head (SequenceArgs).
  SessionManager::SequenceArgs Sequence(uint32_t slots) const {
    return {{{sealed}, {open, 64}}, slots};
  }

  const KvSpec spec = testing::TestSpec();
  testing::FakePageStore store;
  InlineExecutor executor;
  ContextTable contexts{
      {.store = &store, .ops = &kernels::CpuReference(), .clock = &SystemClock()}};
  ContextResolver resolver{&store, nullptr, &contexts};
  SessionManager sessions{{.store = &store,
                           .resolver = &resolver,
                           .ops = &kernels::CpuReference(),
                           .clock = &SystemClock(),
                           .executor = &executor}};
  const uint64_t sealed;
  const uint64_t open;
};

class CheckingSink final : public RecallSink {
 public:
  explicit CheckingSink(const Session& session)
      : shape_(session.shape()), slots_(session.SlotsOfSequences()) {}
  Status CheckWanted() const override { return OkStatus(); }
  Status Write(ReplyPart part) override {
    size_t units = 0;
    for (const LanePlacement& lane : part.lanes) CheckLane(lane, &units);
    Require(part.payload.size_bytes() == units * shape_.unit_bytes());
    Require(part.places.empty() || part.places.size() == units);
    return OkStatus();
  }

 private:
  void CheckLane(const LanePlacement& lane, size_t* units) const {
    Require(lane.placed.counts.size() == shape_.spec.num_kv_heads);
    size_t counted = 0;
    for (const uint32_t count : lane.placed.counts) counted += count;
    Require(counted == lane.placed.size());
    for (size_t i = 0; i < counted; ++i) {
      const uint32_t name = lane.placed.pages[i];
      Require(lane.placed.slots[i] < slots_[lane.sequence]);
      Require(PageOf(name) < (MemberOf(name) == 0 ? kSealedPages : kOpenPages));
      Require(MemberOf(name) < 2 && lane.placed.replaced[i] != static_cast<int32_t>(name));
    }
    Require(lane.num_sent <= counted);
    *units += lane.num_sent;
  }
  const SessionShape& shape_;
  const std::vector<uint32_t> slots_;  ///< Per head, by sequence.
};

void Recall(Session& session, std::string_view bytes) {
  v1::RecallRequest request;
  if (!Parse(bytes, &request)) return;
  const auto args = RecallArgsFromProto(request, session.shape(), session.SlotsOfSequences());
  if (!args.ok()) return;
  CheckingSink sink(session);
  (void)session.Recall(*args, {.max_parts = 3, .part_bytes = 1}, sink);
}
void Resync(Session& session, std::string_view bytes) {
  v1::ResyncRequest request;
  if (!Parse(bytes, &request)) return;
  const auto maps = LaneMapsFromProto(request, session.shape(), session.SlotsOfSequences());
  if (maps.ok()) (void)session.Resync(request.epoch(), *maps, TimePoint::max());
}
void AddSequence(World& world, uint64_t id, std::string_view bytes) {
  v1::AddSequenceRequest request;
  if (!Parse(bytes, &request)) return;
  // Uses the world's members, whatever the message names.
  (void)world.sessions.AddSequence(kFuzzTenant, id,
                                   world.Sequence(request.sequence().slots_per_head()));
}
void RemoveSequence(Session& session, std::string_view bytes) {
  v1::RemoveSequenceRequest request;
  if (Parse(bytes, &request)) (void)session.RemoveSequence(request.sequence(), TimePoint::max());
}

void ScorePages(Session& session, std::string_view bytes) {
  v1::ScorePagesRequest request;
  if (!Parse(bytes, &request)) return;
  const auto query = ContentQueryFromProto(request, session.shape().spec);
  if (!query.ok()) return;
  const auto scores = session.ScorePages(*query);
  if (!scores.ok()) return;
  size_t pages = 0;
  for (const CandidatePages& range : query->ranges) pages += range.num_pages();
  Require(scores->size() == pages * query->layers.size());
}

void RunCall(World& world, uint64_t id, uint8_t kind, std::string_view bytes) {
  Session& session = **world.sessions.Find(kFuzzTenant, id);
  switch (kind % 5) {
    case 0:
      return Recall(session, bytes);
    case 1:
      return Resync(session, bytes);
    case 2:
      return AddSequence(world, id, bytes);
    case 3:
      return RemoveSequence(session, bytes);
    default:
      return ScorePages(session, bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World* const world = new World();
  const auto opened =
      world->sessions.Open(kFuzzTenant, {{world->Sequence(0), world->Sequence(kSlots - 1)},
                                         world->spec,
                                         kSlots,
                                         {},
                                         HeldDigests{kernels::DigestKind::kMean, {1}}});
  Require(opened.ok());
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() >= 2) {
    const auto kind = static_cast<uint8_t>(rest[0]);
    const size_t bytes = std::min<size_t>(static_cast<uint8_t>(rest[1]), rest.size() - 2);
    RunCall(*world, opened->id, kind, rest.substr(2, bytes));
    rest.remove_prefix(2 + bytes);
  }
  world->sessions.Close(kFuzzTenant, opened->id);
  return 0;
}
