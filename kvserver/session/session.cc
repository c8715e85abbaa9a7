// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "quire/page_name.h"

namespace quire::kvserver {
namespace {

Status CheckDistinct(std::span<const uint32_t> lanes, uint32_t num_managed) {
  if (std::ranges::adjacent_find(lanes, std::greater_equal<>()) == lanes.end()) return OkStatus();
  std::vector<uint32_t> sorted(lanes.begin(), lanes.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return OkStatus();
  return InvalidArgument("a managed layer of sequence ", *twice / num_managed,
                         " is named twice: name each lane once");
}

/// True when `name` is a page of a member.
bool IsPage(uint32_t name, std::span<const uint32_t> member_pages) {
  return MemberOf(name) < member_pages.size() && PageOf(name) < member_pages[MemberOf(name)];
}

Status NoSuchPage(uint32_t name, std::span<const uint32_t> member_pages) {
  if (MemberOf(name) >= member_pages.size()) {
    return InvalidArgument("page ", PageOf(name), " of member ", MemberOf(name),
                           ": the sequence has ", member_pages.size(), " members");
  }
  return InvalidArgument("page ", PageOf(name), " of member ", MemberOf(name), ": its context has ",
                         member_pages[MemberOf(name)]);
}

/// Present number of pages of each member.
std::vector<uint32_t> PagesOf(const SessionSequence& sequence) {
  std::vector<uint32_t> pages;
  for (const MemberContext& member : sequence.members()) {
    pages.push_back(member.context.view()->num_pages());
  }
  return pages;
}

}  // namespace

Session::Session(SessionShared* shared, SessionShape shape, const Limits& limits)
    : shared_(*shared),
      shape_(std::move(shape)),
      limits_(limits),
      unit_cut_(shape_.spec, shape_.part, shape_.codecs),
      layer_index_(shape_.spec.num_layers, -1),
      claims_(max_lanes(), kMaxWorking) {
  for (uint32_t i = 0; i < shape_.num_managed(); ++i) {
    layer_index_[shape_.managed_layers[i]] = static_cast<int32_t>(i);
  }
}

// --- Sequences.

uint64_t Session::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

std::vector<uint32_t> Session::SlotsOfSequences() const {
  MutexLock lock(mutex_);
  std::vector<uint32_t> slots;
  slots.reserve(sequences_.size());
  for (const SessionSequencePtr& sequence : sequences_) {
    slots.push_back(sequence != nullptr ? sequence->slots_per_head() : 0);
  }
  return slots;
}

std::shared_ptr<const DigestHolder> Session::HoldDigests(
    std::span<const MemberContext> members) const {
  if (!shape_.hold_digests) return nullptr;
  DigestHolder::Wanted wanted{shape_.tenant, shape_.spec, *shape_.hold_digests, {}};
  // Only keys stay, not the views: the session does not hold pages in memory.
  for (const MemberContext& member : members) wanted.chains.push_back(member.context.view()->keys);
  return DigestHolder::Start({shared_.recall.residency, shared_.held_digests, shared_.executor},
                             std::move(wanted));
}

StatusOr<uint32_t> Session::AddSequence(std::vector<MemberContext> members,
                                        uint32_t slots_per_head) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t slots, shape_.SequenceSlots(slots_per_head));
  {
    MutexLock lock(mutex_);
    QUIRE_RETURN_IF_ERROR(CheckRoom(slots));
  }
  // Starts to read; the call ends the reading if it fails.
  std::shared_ptr<const DigestHolder> held = HoldDigests(members);
  MutexLock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(CheckRoom(slots));
  const auto free = std::find(sequences_.begin(), sequences_.end(), nullptr);
  const auto number = static_cast<uint32_t>(free - sequences_.begin());
  if (free == sequences_.end()) sequences_.emplace_back();
  sequences_[number] = std::make_shared<SessionSequence>(
      std::move(members), std::move(held), shape_.num_managed(), shape_.spec.num_kv_heads, slots);
  return number;
}

Status Session::CheckRoom(uint32_t slots) const {
  uint32_t open = 0;
  uint64_t map_bytes = shape_.sequence_map_bytes(slots);
  for (const SessionSequencePtr& sequence : sequences_) {
    if (sequence == nullptr) continue;
    ++open;
    map_bytes += shape_.sequence_map_bytes(sequence->slots_per_head());
  }
  if (open >= SessionShape::kMaxSequences) {
    return ResourceExhausted("the session has ", open,
                             " sequences, which is the limit: remove one or open another session");
  }
  if (map_bytes > limits_.max_map_bytes) {
    return ResourceExhausted("the resident maps of ", open + 1, " sequences would take ", map_bytes,
                             " bytes, more than the session's ", limits_.max_map_bytes,
                             ": ask for fewer slots, layers or sequences");
  }
  return OkStatus();
}

Status Session::RemoveSequence(uint32_t sequence, TimePoint deadline) {
  const Status missing = NotFound("the session has no sequence ", sequence);
  if (sequence >= SessionShape::kMaxSequences) return missing;
  std::vector<uint32_t> lanes(shape_.num_managed());
  std::iota(lanes.begin(), lanes.end(), sequence * shape_.num_managed());
  QUIRE_ASSIGN_OR_RETURN(const LaneClaims::Claim claim, claims_.Take(std::move(lanes), deadline));
  SessionSequencePtr removed;  // Released after the lock.
  MutexLock lock(mutex_);
  if (sequence < sequences_.size()) removed.swap(sequences_[sequence]);
  return removed != nullptr ? OkStatus() : missing;
}

StatusOr<SessionSequencePtr> Session::Find(uint32_t sequence) const {
  if (sequence < sequences_.size() && sequences_[sequence] != nullptr) return sequences_[sequence];
  return InvalidArgument("the session has no sequence ", sequence);
}

Status Session::CheckEpoch(uint64_t epoch) const {
  if (epoch == epoch_) return OkStatus();
  return FailedPrecondition("epoch ", epoch, ": the session is at ", epoch_,
                            "; resynchronise with a higher epoch");
}

Status Session::AppendNumbers(const AppliedLanes& lanes, std::vector<uint32_t>* numbers) const {
  if (lanes.sequence >= SessionShape::kMaxSequences) {
    return InvalidArgument("the session has no sequence ", lanes.sequence);
  }
  if (lanes.num_layers() > max_lanes() - numbers->size()) {
    return InvalidArgument("more lanes than the session has: name each once");
  }
  for (uint32_t i = 0; i < lanes.num_layers(); ++i) {
    const uint64_t layer = uint64_t{lanes.first_layer} + i;
    if (layer >= layer_index_.size() || layer_index_[layer] < 0) {
      return InvalidArgument("layer ", layer, " is not managed by the session");
    }
    numbers->push_back(lanes.sequence * shape_.num_managed() +
                       static_cast<uint32_t>(layer_index_[layer]));
  }
  return OkStatus();
}

// --- Recalls.

Status Session::Recall(const RecallArgs& args, const ReplyShape& reply, RecallSink& sink) {
  std::vector<uint32_t> numbers;
  for (const WantedLayers& want : args.wants) {
    QUIRE_RETURN_IF_ERROR(AppendNumbers(want.lanes, &numbers));
  }
  QUIRE_RETURN_IF_ERROR(CheckDistinct(numbers, shape_.num_managed()));
  QUIRE_ASSIGN_OR_RETURN(LaneClaims::Claim claim, TakeLanes(args, reply, sink, std::move(numbers)));
  const RecallScratchPool::Lease scratch = shared_.scratch.Take();
  QUIRE_RETURN_IF_ERROR(FindTargets(args, *scratch));
  for (const RecallTarget& target : (*scratch).targets) {
    QUIRE_RETURN_IF_ERROR(Annotate(CheckWant(target, *scratch), "sequence ",
                                   target.want->lanes.sequence, " layer ",
                                   target.want->lanes.first_layer));
  }
  if (!args.mismatched.empty()) QUIRE_RETURN_IF_ERROR(RecheckMismatched(args));
  QUIRE_RETURN_IF_ERROR(TakeRecall(args, *scratch));
  for (const RecallTarget& target : (*scratch).targets) {
    for (const MemberContext& member : target.sequence->members()) member.context.NoteRead();
  }
  return RecallRun(shared_.recall, shape_, unit_cut_, args, reply, sink, claim, *scratch).Run();
}

StatusOr<LaneClaims::Claim> Session::TakeLanes(const RecallArgs& args, const ReplyShape& reply,
                                               RecallSink& sink, std::vector<uint32_t> numbers) {
  const WaitTimer waiting(args.waits, WaitedFor::kQueue);
  return claims_.Take(std::move(numbers), reply.deadline, [&sink] { return sink.CheckWanted(); });
}

StatusOr<SessionSequencePtr> Session::FindMismatched(const MismatchedUnit& unit) const {
  MutexLock lock(mutex_);
  return Find(unit.sequence);
}

Status Session::RecheckMismatched(const RecallArgs& args) const {
  const auto is_wanted = [&](const MismatchedUnit& unit) {
    return std::ranges::any_of(args.wants, [&](const WantedLayers& want) {
      const AppliedLanes& lanes = want.lanes;
      return lanes.sequence == unit.sequence && unit.layer >= lanes.first_layer &&
             unit.layer - lanes.first_layer < lanes.num_layers();
    });
  };
  /// Mismatched units of one layer of one context.
  struct Named {
    MismatchedUnit first;
    ContextViewPtr view;
    std::vector<ReportedRef> units;
  };
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Named> named;
  for (const MismatchedUnit& unit : args.mismatched) {
    QUIRE_ASSIGN_OR_RETURN(const SessionSequencePtr sequence, FindMismatched(unit));
    const std::vector<uint32_t> member_pages = PagesOf(*sequence);
    if (!IsPage(unit.page, member_pages)) return NoSuchPage(unit.page, member_pages);
    if (unit.layer >= shape_.spec.num_layers || unit.head >= shape_.spec.num_kv_heads) {
      return InvalidArgument("mismatched: the model has no layer ", unit.layer, " with KV head ",
                             unit.head);
    }
    const uint32_t member = MemberOf(unit.page);
    Named& of_layer = named[{unit.sequence, member, unit.layer}];
    of_layer.first = unit;
    of_layer.view = sequence->members()[member].context.view();
    of_layer.units.push_back({{unit.layer, PageOf(unit.page), unit.head}, unit.crc32c});
  }
  const Caller caller(shape_.tenant, args.priority, args.waits);
  for (const auto& [where, of_layer] : named) {
    const Status mended = Recheck(*shared_.recall.store, caller, *of_layer.view, of_layer.units);
    if (!mended.ok() && is_wanted(of_layer.first)) return mended;
  }
  return OkStatus();
}

Status Session::FindTargets(const RecallArgs& args, RecallScratch& scratch) const {
  scratch.targets.reserve(args.wants.size());
  {
    MutexLock lock(mutex_);
    QUIRE_RETURN_IF_ERROR(CheckEpoch(args.epoch));
    for (const WantedLayers& want : args.wants) {
      RecallTarget& target = scratch.targets.emplace_back();
      target.want = &want;
      QUIRE_ASSIGN_OR_RETURN(target.sequence, Find(want.lanes.sequence));
    }
  }
  for (RecallTarget& target : scratch.targets) {
    target.first_member = static_cast<uint32_t>(scratch.members.size());
    for (const MemberContext& member : target.sequence->members()) {
      scratch.members.emplace_back(member);
    }
    target.num_members = static_cast<uint32_t>(target.sequence->members().size());
    const AppliedLanes& lanes = target.want->lanes;
    for (uint32_t i = 0; i < lanes.num_layers(); ++i) {
      target.lanes.push_back(static_cast<uint32_t>(layer_index_[lanes.first_layer + i]));
    }
  }
  return OkStatus();
}

Status Session::CheckWant(const RecallTarget& target, RecallScratch& scratch) const {
  std::vector<uint32_t>& member_pages = scratch.member_pages;
  member_pages.clear();
  for (uint32_t i = 0; i < target.num_members; ++i) {
    member_pages.push_back(scratch.members[target.first_member + i].num_pages);
  }
  if (!target.want->query) return CheckUnits(target, member_pages);
  for (const CandidatePages& range : target.want->query->shape.ranges) {
    if (range.member < target.num_members) continue;
    return InvalidArgument("candidates of member ", range.member, ": the sequence has ",
                           target.num_members, " members");
  }
  return CheckQuery(target, scratch);
}

Status Session::CheckUnits(const RecallTarget& target,
                           std::span<const uint32_t> member_pages) const {
  const PageLists& units = target.want->units;
  const uint32_t slots_per_head = target.sequence->slots_per_head();
  if (units.num_heads() != shape_.spec.num_kv_heads) {
    return InvalidArgument("pages of ", units.num_heads(), " heads: the model has ",
                           shape_.spec.num_kv_heads, " KV heads");
  }
  for (uint32_t head = 0; head < units.num_heads(); ++head) {
    const std::span<const uint32_t> pages = units.Head(head);
    if (pages.size() > slots_per_head) {
      return InvalidArgument(pages.size(), " pages for a head: the sequence has ", slots_per_head,
                             " slots per head");
    }
    for (const uint32_t name : pages) {
      if (!IsPage(name, member_pages)) return NoSuchPage(name, member_pages);
    }
  }
  return OkStatus();
}

Status Session::CheckQuery(const RecallTarget& target, RecallScratch& scratch) const {
  const QueryWant& want = *target.want->query;
  const size_t row = size_t{shape_.spec.num_query_heads} * shape_.spec.key_dim();
  if (want.queries.size() != target.lanes.size() * row) {
    return InvalidArgument("queries have ", want.queries.size(), " elements: ", target.lanes.size(),
                           " layers take ", row, " each");
  }
  PageQuery& query = scratch.query;
  query = want.shape;
  query.query.assign(want.queries.begin(), want.queries.begin() + static_cast<std::ptrdiff_t>(row));
  for (CandidatePages& range : query.ranges) {
    range.position_offset = scratch.members[target.first_member + range.member].position_offset;
  }
  QUIRE_RETURN_IF_ERROR(Selector::Check(shape_.spec, query, scratch.member_pages));
  const uint64_t selected = std::min<uint64_t>(query.num_pages, NumCandidates(query));
  const uint32_t slots_per_head = target.sequence->slots_per_head();
  if (selected <= slots_per_head) return OkStatus();
  return InvalidArgument("num_pages is ", query.num_pages, ": the sequence has ", slots_per_head,
                         " slots per head");
}

Status Session::TakeRecall(const RecallArgs& args, const RecallScratch& scratch) {
  for (const RecallTarget& target : scratch.targets) {
    const AppliedLanes& lanes = target.want->lanes;
    for (uint32_t i = 0; i < lanes.num_layers(); ++i) {
      QUIRE_RETURN_IF_ERROR(Annotate(
          target.sequence->lane(target.lanes[i]).CheckRecall(args.exchange, lanes.applied[i]),
          "sequence ", lanes.sequence, " layer ", lanes.first_layer + i));
    }
  }
  for (const RecallTarget& target : scratch.targets) {
    for (uint32_t i = 0; i < target.lanes.size(); ++i) {
      const bool rolled_back = target.sequence->lane(target.lanes[i])
                                   .TakeRecall(args.exchange, target.want->lanes.applied[i]);
      if (rolled_back) shared_.recall.rolled_back.Add();
    }
  }
  return OkStatus();
}

// --- Resynchronisation.

Status Session::Resync(uint64_t epoch, std::span<const LaneMap> lanes, TimePoint deadline) {
  std::vector<uint32_t> numbers;
  for (const LaneMap& map : lanes) {
    QUIRE_RETURN_IF_ERROR(AppendNumbers({map.sequence, map.layer, {map.applied}}, &numbers));
  }
  QUIRE_RETURN_IF_ERROR(CheckDistinct(numbers, shape_.num_managed()));
  QUIRE_ASSIGN_OR_RETURN(const LaneClaims::Claim claim, claims_.TakeAll(deadline));
  std::vector<SessionSequencePtr> sequences;
  {
    MutexLock lock(mutex_);
    if (epoch <= epoch_) {
      return FailedPrecondition("resynchronisation under epoch ", epoch, ": the session is at ",
                                epoch_, "; take a higher one");
    }
    sequences = sequences_;
    for (const LaneMap& map : lanes) QUIRE_RETURN_IF_ERROR(Find(map.sequence).status());
  }
  for (const LaneMap& map : lanes) {
    QUIRE_RETURN_IF_ERROR(Annotate(CheckMap(map, *sequences[map.sequence]), "sequence ",
                                   map.sequence, " layer ", map.layer));
  }
  for (const SessionSequencePtr& sequence : sequences) {
    if (sequence == nullptr) continue;
    for (SessionLane& lane : sequence->lanes()) lane.Reset();
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    sequences[lanes[i].sequence]
        ->lane(numbers[i] % shape_.num_managed())
        .Resync(lanes[i].applied, lanes[i].pages, lanes[i].generations);
  }
  shared_.resyncs.Add();
  MutexLock lock(mutex_);
  epoch_ = epoch;
  return OkStatus();
}

Status Session::CheckMap(const LaneMap& map, const SessionSequence& sequence) const {
  const size_t slots = sequence.slots_per_head();
  if (map.pages.size() != shape_.spec.num_kv_heads * slots ||
      map.generations.size() != map.pages.size()) {
    return InvalidArgument("the map has ", map.pages.size(), " slots: the lane has ",
                           shape_.spec.num_kv_heads, " heads of ", slots);
  }
  const std::vector<uint32_t> member_pages = PagesOf(sequence);
  for (uint32_t head = 0; head < shape_.spec.num_kv_heads; ++head) {
    const auto pages = std::span(map.pages).subspan(head * slots, slots);
    QUIRE_RETURN_IF_ERROR(Annotate(CheckHead(pages, member_pages), "head ", head));
  }
  return OkStatus();
}

Status Session::CheckHead(std::span<const int32_t> pages,
                          std::span<const uint32_t> member_pages) const {
  std::vector<uint32_t> names;
  for (const int32_t page : pages) {
    if (page == -1) continue;
    names.push_back(static_cast<uint32_t>(page));  // Names below -1 belong to no member.
    if (!IsPage(names.back(), member_pages)) return NoSuchPage(names.back(), member_pages);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return OkStatus();
  return InvalidArgument("page ", PageOf(*twice), " of member ", MemberOf(*twice),
                         " is in two slots");
}

// --- Digests.

StatusOr<Payload> Session::Digests(uint32_t sequence, uint32_t member,
                                   std::span<const uint32_t> layers, uint32_t first_page,
                                   uint32_t end_page, DigestKind kind) const {
  SessionSequencePtr found;
  {
    MutexLock lock(mutex_);
    QUIRE_ASSIGN_OR_RETURN(found, Find(sequence));
  }
  if (member >= found->members().size()) {
    return InvalidArgument("member ", member, ": the sequence has ", found->members().size());
  }
  const ContextViewPtr view = found->members()[member].context.view();
  const KvSpec& spec = shape_.spec;
  if (first_page > end_page || end_page > view->num_pages()) {
    return InvalidArgument("pages [", first_page, ", ", end_page, ") are not inside the context's ",
                           view->num_pages(), " pages");
  }
  if (layers.size() > spec.num_layers) {
    return InvalidArgument(layers.size(), " layers: the model has ", spec.num_layers);
  }
  if (!kernels::HasDigest(spec, kind)) {
    return InvalidArgument("digest kind ", static_cast<int>(kind),
                           " is unknown, or not one of keys of this spec");
  }
  const uint64_t bytes = layers.size() * (end_page - first_page) * PageDigestBytes(spec, kind);
  if (bytes > shared_.recall.max_reply_bytes) {
    return ResourceExhausted("the digests take ", bytes, " bytes, more than the ",
                             shared_.recall.max_reply_bytes,
                             " of one reply: ask for fewer layers or pages at a time");
  }
  Payload payload;
  for (const uint32_t layer : layers) {
    if (layer >= spec.num_layers) {
      return InvalidArgument("layer ", layer, ": the model has ", spec.num_layers);
    }
    if (first_page == end_page) continue;
    QUIRE_ASSIGN_OR_RETURN(const DigestBlocks blocks,
                           ReadDigests(*shared_.recall.store, shape_.tenant, *view,
                                       {layer, first_page, end_page, kind}));
    blocks.AppendTo(first_page, end_page, &payload);
  }
  std::vector<MemberView> views;
  for (const MemberContext& each : found->members()) views.emplace_back(each);
  QUIRE_RETURN_IF_ERROR(found->CheckBytes(*shared_.recall.store, views));
  return payload;
}

StatusOr<std::vector<float>> Session::ScorePages(const ContentQuery& query) const {
  SessionSequencePtr found;
  {
    MutexLock lock(mutex_);
    QUIRE_ASSIGN_OR_RETURN(found, Find(query.sequence));
  }
  return ScoreContent(shared_.recall, shape_, *found, query);
}

}  // namespace quire::kvserver
