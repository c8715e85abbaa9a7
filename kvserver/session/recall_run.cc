// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/recall_run.h"

#include <algorithm>
#include <utility>

#include "quire/page_name.h"

namespace quire::kvserver {
namespace {

/// Approximate bytes of a unit, a selected page and a lane besides payload.
constexpr uint64_t kUnitRecordBytes = 20;
constexpr uint64_t kSelectedPageBytes = 5;
constexpr uint64_t kLaneBytes = 64;
/// Divisor: a part counts as its payload or as this multiple of its description. The message
/// reserves an eighth for the latter.
constexpr uint64_t kDescriptionShare = 8;

/// Adds the time of a scope to a sum.
class AddTime {
 public:
  explicit AddTime(Duration* sum) : sum_(sum), start_(SystemClock().Now()) {}
  ~AddTime() { *sum_ += SystemClock().Now() - start_; }
  AddTime(const AddTime&) = delete;
  AddTime& operator=(const AddTime&) = delete;

 private:
  Duration* const sum_;
  const TimePoint start_;
};

template <typename T>
size_t CapacityBytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace

void RecallScratch::Clear() {
  targets.clear();
  members.clear();
  digests.clear();
  gather.Clear();
}

size_t RecallScratch::capacity_bytes() const {
  size_t units = 0;
  for (const LanePlacement& lane : part) {
    units += lane.placed.slots.capacity() + lane.selected.num_pages();
  }
  return CapacityBytes(targets) + CapacityBytes(members) + CapacityBytes(plan.victims) +
         CapacityBytes(query.query) + CapacityBytes(part) + CapacityBytes(sent_pages) +
         to_place.num_pages() * sizeof(uint32_t) + units * kUnitRecordBytes +
         gather.capacity_bytes();
}

Status RecallRun::Run() {
  Status status = AnswerLanes();
  if (status.ok() && (in_part_ > 0 || parts_written_ == 0)) status = WritePart();
  parts_.plan_times.Record(planning_);
  if (status.ok()) {
    parts_.recalls.Add();
    return status;
  }
  AbandonUnwritten();
  // A retry hint would promise that nothing was done.
  return parts_written_ == 0 ? status : Status(status.code(), status.message());
}

void RecallRun::AbandonUnwritten() {
  size_t position = 0;
  for (const RecallTarget& target : scratch_.targets) {
    for (const uint32_t lane : target.lanes) {
      if (position++ >= lanes_written_) target.sequence->lane(lane).Abandon();
    }
  }
}

Status RecallRun::AnswerLanes() {
  for (const RecallTarget& target : scratch_.targets) {
    for (uint32_t i = 0; i < target.want->lanes.num_layers(); ++i) {
      if (Status wanted = sink_.CheckWanted(); !wanted.ok()) {
        parts_.stopped.Add();
        return wanted;
      }
      QUIRE_RETURN_IF_ERROR(Annotate(AnswerLane(target, i), "sequence ",
                                     target.want->lanes.sequence, " layer ",
                                     target.want->lanes.first_layer + i));
    }
  }
  return OkStatus();
}

Status RecallRun::AnswerLane(const RecallTarget& target, uint32_t index) {
  QUIRE_RETURN_IF_ERROR(PlanLane(target, index));
  const uint64_t cost = CostOf(scratch_.part[in_part_]);
  if (in_part_ > 0 && part_cost_ + cost > parts_.max_reply_bytes && MayCut()) {
    const size_t planned = in_part_;
    QUIRE_RETURN_IF_ERROR(WritePart());
    std::swap(scratch_.part[0], scratch_.part[planned]);
  }
  part_cost_ += cost;
  if (part_cost_ > parts_.max_reply_bytes) {
    return ResourceExhausted("the missing units take ", part_cost_, " bytes, more than the ",
                             parts_.max_reply_bytes,
                             " of one part: ask for fewer layers or pages at a time");
  }
  AddToPart(target, index);
  if (part_bytes_ >= reply_.part_bytes && MayCut()) return WritePart();
  return OkStatus();
}

Status RecallRun::PlanLane(const RecallTarget& target, uint32_t index) {
  if (scratch_.part.size() <= in_part_) scratch_.part.resize(in_part_ + 1);
  LanePlacement& lane = scratch_.part[in_part_];
  const AppliedLanes& lanes = target.want->lanes;
  lane.sequence = lanes.sequence;
  lane.layer = lanes.first_layer + index;
  lane.want = target.want;
  QUIRE_ASSIGN_OR_RETURN(const PageLists* pages, SelectPages(target, index, &lane.selected));
  if (lane.want->query && !lane.want->query->kept_heads.empty()) {
    pages = WithoutKept(*lane.want->query, *pages);
  }
  const AddTime planning(&planning_);
  target.sequence->lane(target.lanes[index]).Plan(*pages, scratch_.plan, &lane.placed);
  lane.first_slot =
      (uint64_t{lanes.sequence} * shape_.num_managed() + target.lanes[index]) * shape_.lane_slots();
  parts_.units_wanted.Add(pages->num_pages());
  parts_.bytes_wanted.Add(pages->num_pages() * shape_.unit_bytes());
  return OkStatus();
}

StatusOr<const PageLists*> RecallRun::SelectPages(const RecallTarget& target, uint32_t index,
                                                  PageLists* selected) {
  selected->Clear();
  if (!target.want->query) return &target.want->units;
  const WaitTimer waiting(args_.waits, WaitedFor::kSelection);
  const QueryWant& want = *target.want->query;
  const std::span<const MemberView> members = MembersOf(target);
  PageQuery& query = scratch_.query;
  const size_t row = want.queries.size() / target.want->lanes.num_layers();
  const auto first = want.queries.begin() + static_cast<std::ptrdiff_t>(index * row);
  query = want.shape;
  query.query.assign(first, first + static_cast<std::ptrdiff_t>(row));
  scratch_.digests.clear();
  for (CandidatePages& range : query.ranges) {
    const MemberView& member = members[range.member];
    range.position_offset = member.position_offset;
    if (Selector::TakesAll(query) || query.num_pages == 0) continue;
    const DigestRange wanted{target.want->lanes.first_layer + index, range.first_page,
                             range.end_page, query.digest};
    QUIRE_ASSIGN_OR_RETURN(
        DigestBlocks blocks,
        DigestsOf(member, wanted,
                  target.sequence->lane(target.lanes[index]).digests(range.member, query.digest)));
    scratch_.digests.push_back(std::move(blocks));
  }
  QUIRE_RETURN_IF_ERROR(parts_.selector->Select(shape_.spec, query, scratch_.digests, selected));
  return selected;
}

const PageLists* RecallRun::WithoutKept(const QueryWant& want, const PageLists& selected) {
  scratch_.to_place.Clear();
  for (uint32_t head = 0; head < selected.num_heads(); ++head) {
    scratch_.to_place.AppendHead(want.Keeps(head) ? std::span<const uint32_t>()
                                                  : selected.Head(head));
  }
  return &scratch_.to_place;
}

StatusOr<DigestBlocks> RecallRun::DigestsOf(const MemberView& member, const DigestRange& range,
                                            SessionLane::MemberDigests& digests) {
  const bool grown = digests.held == nullptr || digests.held->num_pages() < member.tail_first_page;
  const uint64_t frees = parts_.residency->frees();
  if (grown && digests.refused_at != frees) {
    const HoldArgs hold{*member.view->keys, std::span(&range.layer, 1), range.kind};
    QUIRE_ASSIGN_OR_RETURN(digests.held, parts_.residency->Hold(CallerOf(), shape_.spec, hold));
    digests.refused_at.reset();
    if (digests.held == nullptr) digests.refused_at = frees;
  }
  return ReadDigests(*parts_.store, CallerOf(), *member.view, range, digests.held.get());
}

void RecallRun::AddToPart(const RecallTarget& target, uint32_t index) {
  const AddTime planning(&planning_);
  LanePlacement& lane = scratch_.part[in_part_];
  const PlacedUnits& placed = lane.placed;
  const std::span<const MemberView> members = MembersOf(target);
  lane.num_sent = 0;
  size_t first = 0;
  for (uint32_t head = 0; head < placed.counts.size(); ++head) {
    const size_t count = placed.counts[head];
    const std::span<const uint32_t> sent =
        PagesToSend(*target.want, head, std::span(placed.pages).subspan(first, count));
    scratch_.gather.Add(members, target.want->lanes.first_layer + index, head, sent);
    lane.num_sent += sent.size();
    first += count;
  }
  CountUses(members, placed.pages);
  part_bytes_ += lane.num_sent * shape_.unit_bytes();
  ++in_part_;
}

void RecallRun::CountUses(std::span<const MemberView> members, std::span<const uint32_t> pages) {
  if (members.size() == 1) {  // Names of pages are their numbers.
    if (members.front().page_use != nullptr) members.front().page_use->Add(pages);
    return;
  }
  for (const uint32_t name : pages) {
    PageUse* const use = members[MemberOf(name)].page_use;
    if (use != nullptr) use->Add(PageOf(name));
  }
}

std::span<const uint32_t> RecallRun::PagesToSend(const WantedLayers& want, uint32_t head,
                                                 std::span<const uint32_t> placed) {
  if (want.held.num_heads() == 0) return placed;
  scratch_.sent_pages.clear();
  for (const uint32_t page : placed) {
    if (!want.Holds(head, page)) scratch_.sent_pages.push_back(page);
  }
  return scratch_.sent_pages;
}

uint64_t RecallRun::CostOf(const LanePlacement& lane) const {
  const uint64_t units = lane.placed.size();
  const uint64_t description = units * kUnitRecordBytes +
                               lane.selected.num_pages() * kSelectedPageBytes + kLaneBytes +
                               lane.placed.counts.size();
  return std::max(units * shape_.unit_bytes(), kDescriptionShare * description);
}

Status RecallRun::WritePart() {
  QUIRE_RETURN_IF_ERROR(scratch_.gather.Read(*parts_.store, CallerOf(), cut_.sizes().sent()));
  QUIRE_RETURN_IF_ERROR(CheckBytes());
  const std::span<LanePlacement> lanes = std::span(scratch_.part).first(in_part_);
  ReplyPart part{.lanes = lanes, .payload = {}, .codecs = {}, .places = {}};
  std::span<UnitBytes> units = scratch_.gather.units();
  const size_t num_units = units.size();
  part.payload.Reserve(num_units);
  if (args_.place) part.places.reserve(num_units);
  for (LanePlacement& lane : lanes) {
    QUIRE_RETURN_IF_ERROR(AppendUnits(lane, units.first(lane.num_sent), &part));
    units = units.subspan(lane.num_sent);
  }
  scratch_.gather.Clear();
  lanes_written_ += in_part_;
  ++parts_written_;
  in_part_ = 0;
  part_cost_ = 0;
  part_bytes_ = 0;
  const uint64_t bytes = part.payload.size_bytes();
  QUIRE_RETURN_IF_ERROR(sink_.Write(std::move(part)));
  claim_.ReleaseFirst(lanes_written_);
  parts_.units_sent.Add(num_units);
  parts_.bytes_sent.Add(bytes);
  return OkStatus();
}

Status RecallRun::CheckBytes() {
  for (const RecallTarget& target : scratch_.targets) {
    const Status status = target.sequence->CheckBytes(*parts_.store, MembersOf(target));
    if (!status.ok()) {
      parts_.replaced.Add();
      return Annotate(status, "sequence ", target.want->lanes.sequence);
    }
  }
  return OkStatus();
}

Status RecallRun::AppendUnits(LanePlacement& lane, std::span<UnitBytes> units,
                              ReplyPart* part) const {
  PlacedUnits& placed = lane.placed;
  uint64_t first_slot = lane.first_slot;
  const uint64_t unit_bytes = shape_.unit_bytes();
  size_t i = 0;
  auto unit = units.begin();
  for (uint32_t head = 0; head < placed.counts.size(); ++head) {
    for (const size_t end = i + placed.counts[head]; i < end; ++i) {
      placed.crc32c[i] = 0;
      if (lane.want->Holds(head, placed.pages[i])) continue;
      const UnitCodec codec = unit->codec();
      OutboundBytes sent = cut_.Of(std::move(*unit));
      if (sent.slice.bytes.size() != cut_.sizes().Of(codec)) {
        return Internal("page ", placed.pages[i], " of head ", head, " is stored in ",
                        sent.slice.bytes.size(), " bytes, and its codec makes ",
                        cut_.sizes().Of(codec));
      }
      AddCodec(codec, part);
      placed.crc32c[i] = sent.crc32c;
      part->payload.Append(std::move(sent.slice));
      if (args_.place) part->places.push_back((first_slot + placed.slots[i]) * unit_bytes);
      ++unit;
    }
    first_slot += shape_.slots_per_head;
  }
  return OkStatus();
}

void RecallRun::AddCodec(UnitCodec codec, ReplyPart* part) const {
  if (cut_.sizes().only_raw()) return;
  if (part->codecs.empty() || part->codecs.back().codec != codec) part->codecs.push_back({codec});
  ++part->codecs.back().units;
}

}  // namespace quire::kvserver
