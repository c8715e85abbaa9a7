// SPDX-License-Identifier: Apache-2.0
#include "client/spanning/spanning_session.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "client/recall/part_pieces.h"
#include "client/recall/recall_codec.h"
#include "client/spanning/at_once.h"
#include "client/spanning/score_merge.h"
#include "client/spanning/spanning_recall.h"
#include "client/validate.h"
#include "common/wire/limits.h"

namespace quire::internal {
namespace {

/// Times that a sequence is opened, each time on other nodes.
constexpr int kMostSeatings = 3;

std::vector<std::string> AddressesOf(std::span<const SessionNodes::Node> nodes) {
  std::vector<std::string> addresses;
  for (const SessionNodes::Node& node : nodes) addresses.push_back(node.address);
  return addresses;
}

/// The node of each member.
StatusOr<std::vector<SessionNodes::Node>> NodesOf(SessionNodes& nodes,
                                                  const SequenceSpec& sequence) {
  std::vector<SessionNodes::Node> found;
  for (const SequenceMember& member : sequence.members) {
    QUIRE_ASSIGN_OR_RETURN(found.emplace_back(), nodes.NodeOf(member.context));
  }
  return found;
}

SequenceSpec SpecOf(const SequenceSpec& sequence, const SequencePlaces::Fragment& fragment) {
  SequenceSpec spec{
      .members = {}, .slots_per_head = sequence.slots_per_head, .hints = sequence.hints};
  for (const uint32_t member : fragment.members) spec.members.push_back(sequence.members[member]);
  return spec;
}

/// INVALID_ARGUMENT for a page of a member that the sequence does not have.
Status CheckMembers(const LayerWant& want, size_t members) {
  for (const uint32_t page : want.pages.pages()) {
    if (MemberOf(page) < members) continue;
    return InvalidArgument("sequence ", want.sequence, ", layer ", want.layer, ": page ",
                           PageOf(page), " of member ", MemberOf(page), ", and there are ", members,
                           " members");
  }
  return OkStatus();
}

Status NoQueries(const LayerWant& want) {
  return Unimplemented("sequence ", want.sequence,
                       " reads contexts of several nodes, which do not select together: name its "
                       "pages, selected by ScorePages or by Digests");
}

}  // namespace

SpanningSession::SpanningSession(SessionNodes* nodes, Clock* clock, const SessionOptions& options,
                                 ManagedLayers layers)
    : nodes_(*nodes),
      clock_(*clock),
      options_(options),
      sizes_(options.spec, options.part, options.codecs),
      slots_(std::move(layers), options.spec.num_kv_heads, options.slots_per_head) {}

SpanningSession::~SpanningSession() = default;

StatusOr<std::unique_ptr<ClientSession>> SpanningSession::Open(
    SessionNodes* nodes, Clock* clock, std::span<const SequenceSpec> sequences,
    const SessionOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<uint32_t> layers, LayersOf(options));
  if (sequences.empty() || sequences.size() > wire::kMaxSequences) {
    return InvalidArgument("a session of ", sequences.size(), " sequences; it must have 1 to ",
                           wire::kMaxSequences);
  }
  std::unique_ptr<SpanningSession> session(
      new SpanningSession(nodes, clock, options, ManagedLayers(std::move(layers))));
  for (const SequenceSpec& sequence : sequences) {
    QUIRE_RETURN_IF_ERROR(session->AddSequence(sequence).status());
  }
  return session;
}

Status SpanningSession::CheckOpen() const {
  return closed_ ? FailedPrecondition("the session is closed; open a new one") : OkStatus();
}

std::string_view SpanningSession::transport_name() const {
  for (const Sequence& sequence : sequences_) {
    if (!sequence.shares.empty()) return sequence.shares.front().part->session->transport_name();
  }
  return "none";
}

std::span<const int32_t> SpanningSession::ResidentPages(uint32_t sequence, uint32_t layer) const {
  const Sequence& read = sequences_[sequence];
  if (read.places.spans()) return slots_.Pages(sequence, layer);
  const Share& share = read.shares.front();
  return share.part->session->ResidentPages(share.sequence, layer);
}

std::shared_ptr<SpanningSession::Part> SpanningSession::PartOf(const std::string& address) {
  const auto part = parts_.find(address);
  return part == parts_.end() ? nullptr : part->second.lock();
}

StatusOr<SpanningSession::Share> SpanningSession::SeatAt(const SequenceSpec& sequence,
                                                         const SessionNodes::Node& node) {
  if (const auto part = PartOf(node.address)) {
    const auto number = part->session->AddSequence(sequence);
    if (number.ok()) return Share{part, *number};
    const Status& why = number.status();
    if (IsInvalidArgument(why) || IsResourceExhausted(why)) return why;
    // The context is gone, or the session is: a new session tells.
  }
  auto session = node.client->OpenSession({&sequence, 1}, options_);
  for (const SequenceMember& member : sequence.members) {
    nodes_.NoteEndOf(member.context, node.address, session.status());
  }
  QUIRE_RETURN_IF_ERROR(session.status());
  return Share{std::make_shared<Part>(Part{node.address, *std::move(session)}), 0};
}

StatusOr<SpanningSession::Sequence> SpanningSession::SeatOn(
    const SequenceSpec& sequence, std::span<const SessionNodes::Node> nodes) {
  Sequence seated{
      .members = {}, .places = SequencePlaces(AddressesOf(nodes)), .shares = {}, .lanes = {}};
  const auto& fragments = seated.places.fragments();
  seated.shares.resize(fragments.size());
  const Status opened = AtOnce(fragments.size(), [&](size_t i) -> Status {
    QUIRE_ASSIGN_OR_RETURN(seated.shares[i], SeatAt(SpecOf(sequence, fragments[i]),
                                                    nodes[fragments[i].members.front()]));
    return OkStatus();
  });
  if (!opened.ok()) {
    Leave(seated);
    return opened;
  }
  seated.members.resize(sequence.members.size());
  for (size_t i = 0; i < fragments.size(); ++i) {
    const Share& share = seated.shares[i];
    parts_[fragments[i].address] = share.part;
    const auto opened_members = share.part->session->members(share.sequence);
    for (size_t m = 0; m < opened_members.size(); ++m) {
      seated.members[fragments[i].members[m]] = opened_members[m];
    }
  }
  return seated;
}

void SpanningSession::Leave(const Sequence& sequence) {
  for (const Share& share : sequence.shares) {
    if (share.part != nullptr && share.part.use_count() > 1) {
      (void)share.part->session->RemoveSequence(share.sequence);
    }
  }
}

StatusOr<SpanningSession::Sequence> SpanningSession::Seat(const SequenceSpec& sequence) {
  if (sequence.members.empty() || sequence.members.size() > wire::kMaxMembers) {
    return InvalidArgument("a sequence of ", sequence.members.size(),
                           " members; it must have 1 to ", wire::kMaxMembers);
  }
  QUIRE_ASSIGN_OR_RETURN(auto nodes, NodesOf(nodes_, sequence));
  for (int tries = 1;; ++tries) {
    auto seated = SeatOn(sequence, nodes);
    if (seated.ok() || tries == kMostSeatings) return seated;
    auto others = NodesOf(nodes_, sequence);
    if (!others.ok() || AddressesOf(*others) == AddressesOf(nodes)) return seated;
    nodes = *std::move(others);
  }
}

StatusOr<uint32_t> SpanningSession::AddSequence(const SequenceSpec& sequence) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  uint32_t number = 0;
  while (slots_.Has(number)) ++number;
  if (number == wire::kMaxSequences) {
    return ResourceExhausted("the session has ", number,
                             " sequences, which are all that it can have; open another session");
  }
  QUIRE_ASSIGN_OR_RETURN(Sequence seated, Seat(sequence));
  const uint32_t slots = sequence.slots_per_head == 0 ? slots_per_head() : sequence.slots_per_head;
  if (seated.places.spans()) {
    seated.lanes.assign(slots_.layers().size(),
                        {.map = SlotMap(options_.spec.num_kv_heads, slots), .planned = 0});
  }
  slots_.AddSequence(number, slots);
  if (number >= sequences_.size()) sequences_.resize(number + 1);
  sequences_[number] = std::move(seated);
  return number;
}

Status SpanningSession::RemoveSequence(uint32_t sequence) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (!slots_.Has(sequence)) return InvalidArgument("the session has no sequence ", sequence);
  for (const uint32_t layer : slots_.layers().layers()) {
    if (!slots_.lane(sequence, layer).under_way) continue;
    return InvalidArgument("sequence ", sequence, ", layer ", layer,
                           ": a recall of it is under way; cancel it first");
  }
  Status failure;
  for (Share& share : sequences_[sequence].shares) {
    // The last sequence of a part takes the part with it, which closes its session.
    if (share.part.use_count() == 1) continue;
    failure.Update(share.part->session->RemoveSequence(share.sequence));
  }
  // A sequence that a node may still have ends with its part.
  slots_.RemoveSequence(sequence);
  sequences_[sequence] = {};
  return failure;
}

Status SpanningSession::CheckRecall(std::span<const LayerWant> wants,
                                    const RecallOptions& options) const {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  QUIRE_RETURN_IF_ERROR(CheckWants(wants, options_.spec, slots_));
  if (options.landing != nullptr) return InvalidArgument("the landing is of another session");
  for (const LayerWant& want : wants) {
    const Sequence& sequence = sequences_[want.sequence];
    if (sequence.places.spans()) {
      QUIRE_RETURN_IF_ERROR(CheckMembers(want, sequence.members.size()));
      if (!want.query.empty()) return NoQueries(want);
    }
    for (uint32_t i = 0; i < want.num_layers; ++i) {
      if (!slots_.lane(want.sequence, want.layer + i).under_way) continue;
      return InvalidArgument("sequence ", want.sequence, ", layer ", want.layer + i,
                             ": a recall of it is under way; take its part or cancel it first");
    }
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<PendingRecall>> SpanningSession::Start(std::vector<LayerWant> wants,
                                                                const RecallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckRecall(wants, options));
  auto recall = std::make_unique<SpanningRecall>(this, wants);
  QUIRE_RETURN_IF_ERROR(recall->Launch(options));
  return recall;
}

StatusOr<RecallResult> SpanningSession::Recall(std::span<const LayerWant> wants,
                                               const RecallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto recall, Start({wants.begin(), wants.end()}, options));
  RecallResult result;
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(std::optional<RecallPart> part, recall->Next());
    if (!part) return result;
    AppendPart(*std::move(part), &result);
  }
}

RecallPart SpanningSession::LocalPart(const RecallPart& part, const RecalledLane& lane) const {
  const uint32_t sequence = sequences_[lane.sequence].shares.front().sequence;
  RecallPart local;
  const auto placements = part.PlacementsOf(lane);
  local.placements.assign(placements.begin(), placements.end());
  for (Placement& placement : local.placements) placement.sequence = sequence;
  local.lanes.push_back(lane);
  local.lanes.front().sequence = sequence;
  local.lanes.front().first_placement = 0;
  local.lanes.front().end_placement = placements.size();
  return local;
}

void SpanningSession::Applied(const RecallPart& part) {
  for (const RecalledLane& lane : part.lanes) {
    if (!slots_.Has(lane.sequence)) continue;
    const Sequence& sequence = sequences_[lane.sequence];
    if (sequence.places.spans()) {
      ApplyLane(part, lane);
    } else {
      sequence.shares.front().part->session->Applied(LocalPart(part, lane));
    }
  }
}

void SpanningSession::ApplyLane(const RecallPart& part, const RecalledLane& recalled) {
  WorkerSlots::Lane& state = slots_.lane(recalled.sequence, recalled.layer);
  if (state.applied == recalled.exchange) return;
  SpanningLane& planned = lane(recalled.sequence, recalled.layer);
  if (state.offered != recalled.exchange || planned.planned != recalled.exchange) {
    return Forget(recalled.sequence, recalled.layer);  // Its units went over what came since.
  }
  for (const Placement& placement : part.PlacementsOf(recalled)) slots_.Place(placement);
  planned.map.Commit();
  planned.planned = 0;
  state.applied = recalled.exchange;
  state.offered = 0;
}

void SpanningSession::Invalidate(const RecallPart& part) {
  for (const RecalledLane& recalled : part.lanes) {
    if (!slots_.Has(recalled.sequence)) continue;
    const Sequence& sequence = sequences_[recalled.sequence];
    if (sequence.places.spans()) {
      Forget(recalled.sequence, recalled.layer);
    } else {
      sequence.shares.front().part->session->Invalidate(LocalPart(part, recalled));
    }
  }
}

void SpanningSession::Forget(uint32_t sequence, uint32_t layer) {
  slots_.Empty(sequence, layer);
  slots_.lane(sequence, layer).offered = 0;
  SpanningLane& forgotten = lane(sequence, layer);
  forgotten.planned = 0;
  forgotten.map.Replace(slots_.Pages(sequence, layer), slots_.Generations(sequence, layer));
}

void SpanningSession::Mismatched(const MismatchedUnit& unit) {
  if (!slots_.Has(unit.sequence)) return;
  const Sequence& sequence = sequences_[unit.sequence];
  if (MemberOf(unit.page) >= sequence.places.num_members()) return;
  const Share& share = sequence.shares[sequence.places.FragmentOf(MemberOf(unit.page))];
  MismatchedUnit local = unit;
  local.sequence = share.sequence;
  local.page = sequence.places.LocalName(unit.page);
  share.part->session->Mismatched(local);
}

Status SpanningSession::Renew(RecallPart* part, Duration timeout) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  return RenewLeases(part, timeout, clock_);
}

StatusOr<std::unique_ptr<SessionLanding>> SpanningSession::MakeLanding(uint32_t) {
  return Unimplemented("sessions over several nodes have no landings; take units from messages");
}

StatusOr<Payload> SpanningSession::Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                           uint32_t end_page, uint32_t sequence, uint32_t member,
                                           DigestKind kind) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (!slots_.Has(sequence) || member >= sequences_[sequence].members.size()) {
    return InvalidArgument("digests of member ", member, " of sequence ", sequence,
                           ", which the session does not have");
  }
  const SequencePlaces& places = sequences_[sequence].places;
  const Share& share = sequences_[sequence].shares[places.FragmentOf(member)];
  auto digests = share.part->session->Digests(layers, first_page, end_page, share.sequence,
                                              places.LocalMember(member), kind);
  nodes_.NoteEnd(share.part->address, digests.status());
  return digests;
}

StatusOr<std::vector<float>> SpanningSession::ScorePages(const ContentScoring& wanted) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (!slots_.Has(wanted.sequence)) {
    return InvalidArgument("scores of sequence ", wanted.sequence,
                           ", which the session does not have");
  }
  const Sequence& sequence = sequences_[wanted.sequence];
  QUIRE_ASSIGN_OR_RETURN(auto asked, SplitScoring(sequence.places, options_.spec, wanted));
  std::vector<std::vector<float>> scores(asked.size());
  QUIRE_RETURN_IF_ERROR(AtOnce(asked.size(), [&](size_t i) -> Status {
    const Share& share = sequence.shares[asked[i].fragment];
    asked[i].scoring.sequence = share.sequence;
    auto given = share.part->session->ScorePages(asked[i].scoring);
    nodes_.NoteEnd(share.part->address, given.status());
    QUIRE_ASSIGN_OR_RETURN(scores[i], std::move(given));
    return OkStatus();
  }));
  return MergeScores(wanted, asked, scores);
}

Status SpanningSession::Close() {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  closed_ = true;
  Status failure;
  std::set<std::shared_ptr<Part>> parts;
  for (const Sequence& sequence : sequences_) {
    for (const Share& share : sequence.shares) parts.insert(share.part);
  }
  for (const auto& part : parts) failure.Update(part->session->Close());
  return failure;
}

}  // namespace quire::internal
