// SPDX-License-Identifier: Apache-2.0
#include "client/recall/recall_codec.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "client/recall/landing_area.h"
#include "common/base/memory/unit_checksums.h"
#include "common/wire/convert.h"
#include "common/wire/convert_codec.h"
#include "common/wire/lane_records.h"
#include "common/wire/limits.h"
#include "common/wire/unit_list.h"
#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::internal {
namespace {

static_assert(static_cast<int>(RecallPooling::kMaxQ) + 1 == v1::POOLING_MAX_Q);
static_assert(static_cast<int>(RecallPooling::kAvgSdM) + 1 == v1::POOLING_AVG_SDM);
static_assert(static_cast<int>(DigestKind::kMinMax) == v1::DIGEST_KIND_MIN_MAX);
static_assert(static_cast<int>(DigestKind::kContent) == v1::DIGEST_KIND_CONTENT);

bool IsAscending(std::span<const uint32_t> pages) {
  return std::adjacent_find(pages.begin(), pages.end(), std::greater_equal<>()) == pages.end();
}

/// "sequence 0, layer 3", for errors.
std::string NameOf(uint32_t sequence, uint32_t layer) {
  return "sequence " + std::to_string(sequence) + ", layer " + std::to_string(layer);
}

size_t QueryFloats(const KvSpec& spec) { return size_t{spec.num_query_heads} * spec.key_dim(); }

/// `slots_per_head`: those of the sequence.
Status CheckPages(const PageLists& lists, const KvSpec& spec, uint32_t slots_per_head) {
  if (lists.num_heads() != spec.num_kv_heads) {
    return InvalidArgument(lists.num_heads(), " page lists for ", spec.num_kv_heads, " KV heads");
  }
  for (uint32_t head = 0; head < lists.num_heads(); ++head) {
    const std::span<const uint32_t> pages = lists.Head(head);
    if (pages.size() > slots_per_head) {
      return InvalidArgument(pages.size(), " pages for ", slots_per_head,
                             " slots per head; select fewer or open the sequence with more slots");
    }
    if (!IsAscending(pages) || (!pages.empty() && pages.back() >= wire::kEndOfUnitPages)) {
      return InvalidArgument("pages must be ascending, distinct and below ", wire::kEndOfUnitPages);
    }
  }
  return OkStatus();
}

Status CheckCandidates(const LayerWant& want) {
  for (size_t i = 0; i < want.candidates.size(); ++i) {
    const CandidateRange& range = want.candidates[i];
    if (range.member >= wire::kMaxMembers ||
        (i > 0 && range.member <= want.candidates[i - 1].member)) {
      return InvalidArgument("candidate range ", i, " is of member ", range.member,
                             "; members must ascend and be below ", wire::kMaxMembers);
    }
    if (range.first_page >= range.end_page || range.end_page > wire::kMaxContextPages) {
      return InvalidArgument("the candidate pages [", range.first_page, ", ", range.end_page,
                             ") must be a range of 1 to ", wire::kMaxContextPages, " pages");
    }
  }
  return want.candidates.empty() ? InvalidArgument("a query without candidates") : OkStatus();
}

Status CheckQuery(const LayerWant& want, const KvSpec& spec, uint32_t slots_per_head) {
  const size_t floats = want.num_layers * QueryFloats(spec);
  if (want.query.size() != floats) {
    return InvalidArgument("a query of ", want.query.size(), " floats; [layers][n_q][d] is ",
                           floats);
  }
  QUIRE_RETURN_IF_ERROR(CheckCandidates(want));
  if (want.num_pages == 0 || want.num_pages > slots_per_head) {
    return InvalidArgument("num_pages is ", want.num_pages, "; it must be 1 to ", slots_per_head,
                           ", the sequence's slots per head");
  }
  const bool ascend = std::ranges::is_sorted(want.kept_heads, std::less_equal<>());
  if (!ascend || (!want.kept_heads.empty() && want.kept_heads.back() >= spec.num_kv_heads)) {
    return InvalidArgument("kept_heads must ascend and be below ", spec.num_kv_heads);
  }
  if (Selects(want.digest) && kernels::HasDigest(spec, want.digest)) return OkStatus();
  return InvalidArgument("digest kind ", static_cast<int>(want.digest),
                         " selects no pages, or pairs channels of keys that have ", spec.key_dim());
}

/// The lanes of `want` exist, and none of them is in `asked`, [sequences][layers], yet.
Status CheckLanes(const LayerWant& want, const KvSpec& spec, const WorkerSlots& map,
                  std::vector<bool>* asked) {
  if (!map.Has(want.sequence)) {
    return InvalidArgument("the session has no such sequence; add it first");
  }
  if (want.num_layers == 0 || want.num_layers > spec.num_layers) {
    return InvalidArgument("num_layers is ", want.num_layers, "; it must be 1 to ",
                           spec.num_layers);
  }
  for (uint64_t layer = want.layer; layer < uint64_t{want.layer} + want.num_layers; ++layer) {
    if (layer >= spec.num_layers || !map.Manages(static_cast<uint32_t>(layer))) {
      return InvalidArgument("layer ", layer,
                             " has no slots in this session; name it in managed_layers");
    }
    const size_t lane = uint64_t{want.sequence} * spec.num_layers + layer;
    if ((*asked)[lane]) return InvalidArgument("layer ", layer, " is asked for twice");
    (*asked)[lane] = true;
  }
  return OkStatus();
}

Status CheckWant(const LayerWant& want, const KvSpec& spec, const WorkerSlots& map,
                 std::vector<bool>* asked) {
  QUIRE_RETURN_IF_ERROR(CheckLanes(want, spec, map, asked));
  if ((want.pages.num_heads() == 0) == want.query.empty()) {
    return InvalidArgument("give either pages or a query");
  }
  const uint32_t slots_per_head = map.slots_per_head(want.sequence);
  if (!want.query.empty()) {
    return want.held.num_heads() == 0 ? CheckQuery(want, spec, slots_per_head)
                                      : InvalidArgument("units are held of pages, not of a query");
  }
  if (!want.kept_heads.empty()) {
    return InvalidArgument("kept_heads go with a query: of pages, leave those heads empty");
  }
  QUIRE_RETURN_IF_ERROR(CheckPages(want.pages, spec, slots_per_head));
  if (want.held.num_heads() == 0) return OkStatus();
  return Annotate(CheckPages(want.held, spec, slots_per_head), "held");
}

/// The selection of `want`'s layers [first, first + num_layers).
void QueryToProto(const LayerWant& want, uint32_t first, uint32_t num_layers,
                  v1::QuerySelection* query) {
  const size_t floats = want.query.size() / want.num_layers;
  query->set_queries(wire::FloatsToBytes(
      std::span(want.query).subspan((first - want.layer) * floats, num_layers * floats)));
  query->set_dtype(v1::DTYPE_F32);
  for (const CandidateRange& range : want.candidates) {
    v1::CandidateRange& candidates = *query->add_candidates();
    candidates.set_member(range.member);
    candidates.set_first_page(range.first_page);
    candidates.set_end_page(range.end_page);
  }
  query->set_num_pages(want.num_pages);
  query->set_pooling(static_cast<v1::Pooling>(static_cast<int>(want.pooling) + 1));
  query->set_scale(want.scale);
  query->set_digest(static_cast<v1::DigestKind>(want.digest));
  query->mutable_kept_heads()->Add(want.kept_heads.begin(), want.kept_heads.end());
}

/// The place of `page` in `pages`, which ascend, or pages.size(). A step compares and does not
/// branch: every slot of every head is looked up, and which way a step goes cannot be foreseen.
size_t PlaceOf(std::span<const uint32_t> pages, uint32_t page) {
  if (pages.empty()) return 0;
  const uint32_t* base = pages.data();
  for (size_t size = pages.size(); size > 1;) {
    const size_t half = size / 2;
    base += base[half] <= page ? half : 0;
    size -= half;
  }
  return *base == page ? static_cast<size_t>(base - pages.data()) : pages.size();
}

/// True when a reply is the one that was asked for.
Status CheckExchange(const v1::RecallReply& reply, const ExpectedPart& expected) {
  if (reply.exchange() == expected.exchange && reply.epoch() == expected.epoch) return OkStatus();
  return DataLoss("it is for exchange ", reply.exchange(), " of epoch ", reply.epoch(),
                  ", not for ", expected.exchange, " of ", expected.epoch);
}

/// Reads the lanes of one part. Members named `scratch` keep their memory between lanes and heads.
class PartReader {
 public:
  /// `bytes` of units came with the part.
  PartReader(const ExpectedPart& expected, uint64_t bytes)
      : map_(*expected.map),
        sizes_(expected.sizes),
        exchange_(expected.exchange),
        mismatched_(expected.mismatched) {
    part_.placements.reserve(bytes / sizes_.raw());
    part_.checksums.reserve(bytes / sizes_.raw());
  }

  Status ReadLane(const v1::LanePlacement& proto, const WantedLane& wanted) {
    if (proto.sequence() != wanted.want->sequence || proto.layer() != wanted.layer) {
      return DataLoss("it is for ", NameOf(proto.sequence(), proto.layer()), " instead");
    }
    RecalledLane& lane = part_.lanes.emplace_back();
    lane = {.sequence = wanted.want->sequence,
            .layer = wanted.layer,
            .exchange = exchange_,
            .first_placement = part_.placements.size()};
    QUIRE_RETURN_IF_ERROR(ReadUnits(proto));
    QUIRE_RETURN_IF_ERROR(ReadSelected(proto, *wanted.want, &lane.selected));
    const PageLists& pages = wanted.want->query.empty() ? wanted.want->pages : lane.selected;
    size_t begin = 0;
    for (uint32_t head = 0; head < map_.num_heads(); ++head) {
      const size_t end = begin + proto.counts(static_cast<int>(head));
      const bool keeps = std::ranges::binary_search(wanted.want->kept_heads, head);
      const std::span<const uint32_t> placed =
          keeps ? std::span<const uint32_t>() : pages.Head(head);
      QUIRE_RETURN_IF_ERROR(Annotate(ReadHead(lane, head, begin, end, placed), "head ", head));
      NoteHeld(wanted.want->held, head, end - begin);
      begin = end;
    }
    lane.end_placement = part_.placements.size();
    part_.checksums.insert(part_.checksums.end(), scratch_units_.crc32c.begin(),
                           scratch_units_.crc32c.end());
    return OkStatus();
  }

  /// Takes the codecs of the units of all lanes.
  Status ReadCodecs(const v1::RecallReply& reply) {
    const uint64_t units = part_.placements.size() - part_.held.size();
    const auto sent = wire::CodecRunsFromProto(reply.codecs(), units, sizes_);
    if (!sent.ok()) return DataLoss(Message(sent.status()));
    if (sent->empty()) return OkStatus();
    part_.codecs.assign(part_.placements.size(), UnitCodec::kRaw);
    auto next = sent->begin();
    VisitSent([&](size_t i) { part_.codecs[i] = *next++; });
    return OkStatus();
  }

  /// Gives the part, whose units arrive with `body`. Checks them, unless the caller does.
  StatusOr<RecallPart> Finish(CallMessage body, const ExpectedPart& expected) {
    const uint64_t bytes = SentBytes();
    if (body.payload.size_bytes() + body.landed_bytes + body.bytes_to_come != bytes ||
        (body.landed_bytes != 0 && (expected.landing == nullptr || !body.payload.empty()))) {
      return DataLoss(body.landed_bytes, " bytes landed, ", body.payload.size_bytes(),
                      " came as payload and ", body.bytes_to_come, " are to come; there are ",
                      bytes, " bytes of units");
    }
    part_.landed_bytes = body.landed_bytes;
    part_.bytes_to_come = body.bytes_to_come;
    if (body.landed_bytes > 0) {
      QUIRE_RETURN_IF_ERROR(CheckPlaces(body.places, *expected.landing));
      body.payload = Staged(*expected.landing);
    }
    if (expected.verify && body.payload.size_bytes() != bytes) {
      return DataLoss(body.payload.size_bytes(), " of ", bytes, " bytes of units have come");
    }
    if (expected.verify) QUIRE_RETURN_IF_ERROR(CheckPayload(body.payload));
    part_.payload = std::move(body.payload);
    return std::move(part_);
  }

 private:
  /// `proto`: of a lane that was asked for.
  Status ReadUnits(const v1::LanePlacement& proto) {
    if (static_cast<uint32_t>(proto.counts_size()) != map_.num_heads()) {
      return DataLoss(proto.counts_size(), " counts for ", map_.num_heads(), " heads");
    }
    const uint32_t slots_per_head = map_.slots_per_head(proto.sequence());
    size_t units = 0;
    for (const uint32_t count : proto.counts()) {
      if (count > slots_per_head) {
        return DataLoss(count, " units for ", slots_per_head, " slots per head");
      }
      units += count;
    }
    const Status status = wire::DecodeLaneUnits(proto.units(), units, &scratch_units_);
    return status.ok() ? status : DataLoss(Message(status));
  }

  Status ReadSelected(const v1::LanePlacement& proto, const LayerWant& want, PageLists* selected) {
    if (want.query.empty()) {
      return proto.selected().empty() ? OkStatus() : DataLoss("a selection nobody asked for");
    }
    const Status status =
        wire::DecodeUnitList(proto.selected(), map_.num_heads(), want.num_pages, selected);
    if (!status.ok()) return DataLoss("the selection: ", Message(status));
    for (uint32_t head = 0; head < map_.num_heads(); ++head) {
      auto range = want.candidates.begin();
      for (const uint32_t page : selected->Head(head)) {
        while (range != want.candidates.end() &&
               page >= PageName(range->member, 0) + range->end_page)
          ++range;
        if (range == want.candidates.end() || page < PageName(range->member, range->first_page))
          return DataLoss("page ", page, " was selected, which is no candidate");
      }
    }
    return OkStatus();
  }

  /// Reads units [begin, end) of the lane, which are those of `head`.
  Status ReadHead(const RecalledLane& lane, uint32_t head, size_t begin, size_t end,
                  std::span<const uint32_t> wanted) {
    const size_t slots = map_.slots_per_head(lane.sequence);
    const auto pages = map_.Pages(lane.sequence, lane.layer).subspan(head * slots, slots);
    const auto generations =
        map_.Generations(lane.sequence, lane.layer).subspan(head * slots, slots);
    scratch_pages_.assign(pages.begin(), pages.end());
    scratch_generations_.assign(generations.begin(), generations.end());
    for (size_t i = begin; i < end; ++i) {
      const Placement placement{.sequence = lane.sequence,
                                .layer = lane.layer,
                                .head = head,
                                .slot = scratch_units_.slots[i],
                                .generation = scratch_units_.generations[i],
                                .page = scratch_units_.pages[i],
                                .replaced = scratch_units_.replaced[i]};
      if (i > begin && placement.page <= scratch_units_.pages[i - 1]) {
        return DataLoss("page ", placement.page, " is out of order");
      }
      QUIRE_RETURN_IF_ERROR(Place(placement, wanted));
      part_.placements.push_back(placement);
    }
    return CheckResident(wanted);
  }

  Status Place(const Placement& placement, std::span<const uint32_t> wanted) {
    if (placement.slot >= scratch_pages_.size()) {
      return DataLoss("slot ", placement.slot, " of ", scratch_pages_.size());
    }
    int32_t& page = scratch_pages_[placement.slot];
    uint32_t& generation = scratch_generations_[placement.slot];
    if (placement.generation != generation + 1 || placement.replaced != page) {
      return DataLoss("slot ", placement.slot, " holds page ", page, " of generation ", generation,
                      "; the placement replaces page ", placement.replaced, " by generation ",
                      placement.generation);
    }
    if (PlaceOf(wanted, placement.page) == wanted.size()) {
      return DataLoss("page ", placement.page, " was not asked for");
    }
    page = static_cast<int32_t>(placement.page);
    generation = placement.generation;
    return OkStatus();
  }

  /// After the placements every wanted page must lie in exactly one slot. No other page can have
  /// come to lie in two: only wanted ones are placed.
  Status CheckResident(std::span<const uint32_t> wanted) {
    scratch_found_.assign(wanted.size(), 0);
    size_t found = 0;
    for (const int32_t page : scratch_pages_) {
      if (page < 0) continue;
      const size_t place = PlaceOf(wanted, static_cast<uint32_t>(page));
      if (place == wanted.size()) continue;
      char& seen = scratch_found_[place];
      if (seen != 0) return DataLoss("page ", page, " would lie in two slots");
      seen = 1;
      ++found;
    }
    if (found == wanted.size()) return OkStatus();
    return DataLoss("a page that was asked for is neither resident nor placed");
  }

  /// Notes which of the last `count` placements, all of `head`, come without bytes (`held`).
  void NoteHeld(const PageLists& held, uint32_t head, size_t count) {
    if (held.num_heads() == 0) return;
    for (size_t i = part_.placements.size() - count; i < part_.placements.size(); ++i) {
      const std::span<const uint32_t> pages = held.Head(head);
      if (PlaceOf(pages, part_.placements[i].page) < pages.size()) part_.held.push_back(i);
    }
  }

  /// Calls `visit` with every placement whose unit was sent.
  template <typename Visit>
  void VisitSent(const Visit& visit) const {
    auto held = part_.held.begin();
    for (size_t i = 0; i < part_.placements.size(); ++i) {
      if (held != part_.held.end() && *held == i) {
        ++held;
      } else {
        visit(i);
      }
    }
  }

  uint64_t BytesOf(size_t placement) const { return sizes_.Of(part_.CodecOf(placement)); }
  uint64_t SentBytes() const {
    if (part_.codecs.empty()) return (part_.placements.size() - part_.held.size()) * sizes_.raw();
    uint64_t bytes = 0;
    VisitSent([&](size_t i) { bytes += BytesOf(i); });
    return bytes;
  }

  /// The place of a placement's unit.
  std::span<std::byte> SlotOf(size_t placement, const LandingArea& landing) const {
    const Placement& at = part_.placements[placement];
    return landing.Unit(at.sequence, at.layer, at.head, at.slot).first(BytesOf(placement));
  }

  Status CheckPayload(const Payload& payload) const {
    std::vector<uint32_t> checksums;
    std::vector<uint64_t> bytes;
    VisitSent([&](size_t i) {
      checksums.push_back(part_.checksums[i]);
      if (!part_.codecs.empty()) bytes.push_back(BytesOf(i));
    });
    const std::vector<UnitMismatch> mismatches =
        bytes.empty() ? FindMismatches(payload, sizes_.raw(), checksums)
                      : FindMismatches(payload, bytes, checksums);
    if (mismatches.empty()) return OkStatus();
    std::vector<size_t> sent;
    VisitSent([&](size_t i) { sent.push_back(i); });
    for (const UnitMismatch& mismatch : mismatches) Note(sent[mismatch.unit], mismatch.crc32c);
    return DataLoss("unit ", mismatches.front().unit, " does not match its checksum");
  }

  /// True when each unit went to its place, and not over another.
  Status CheckPlaces(const std::vector<uint64_t>& places, const LandingArea& landing) const {
    auto place = places.begin();
    bool right = places.size() == part_.placements.size() - part_.held.size();
    VisitSent([&](size_t i) {
      right = right &&
              *place++ == static_cast<uint64_t>(SlotOf(i, landing).data() - landing.bytes().data());
    });
    return right ? OkStatus() : DataLoss("units landed elsewhere than in their slots");
  }

  /// The landed units, in place.
  Payload Staged(const LandingArea& landing) const {
    Payload units;
    units.Reserve(part_.placements.size());
    VisitSent([&](size_t i) { units.Append(Slice{SlotOf(i, landing), landing.owner()}); });
    return units;
  }

  /// The unit of a placement does not match its checksum.
  void Note(size_t placement, uint32_t crc32c) const {
    if (mismatched_ == nullptr) return;
    const Placement& at = part_.placements[placement];
    mismatched_->push_back({at.sequence, at.layer, at.head, at.page, crc32c});
  }

  const WorkerSlots& map_;
  const UnitSizes sizes_;
  const uint64_t exchange_;
  std::vector<MismatchedUnit>* const mismatched_;  ///< May be null.
  RecallPart part_;
  wire::LaneUnits scratch_units_;
  std::vector<int32_t> scratch_pages_;
  std::vector<uint32_t> scratch_generations_;
  std::vector<char> scratch_found_;
};

}  // namespace

Status CheckWants(std::span<const LayerWant> wants, const KvSpec& spec, const WorkerSlots& map) {
  std::vector<bool> asked(size_t{map.end_sequence()} * spec.num_layers);
  for (const LayerWant& want : wants) {
    QUIRE_RETURN_IF_ERROR(
        Annotate(CheckWant(want, spec, map, &asked), NameOf(want.sequence, want.layer)));
  }
  return wants.empty() ? InvalidArgument("a recall asks for at least one layer") : OkStatus();
}

std::vector<WantedLane> LanesOf(std::span<const LayerWant> wants) {
  std::vector<WantedLane> lanes;
  for (const LayerWant& want : wants) {
    for (uint32_t i = 0; i < want.num_layers; ++i) lanes.push_back({&want, want.layer + i});
  }
  return lanes;
}

void MismatchedToProto(std::span<const MismatchedUnit> units, v1::RecallRequest* request) {
  for (const MismatchedUnit& unit : units) {
    const int last = request->mismatched_size() - 1;
    v1::SequenceMismatch* sequence =
        last >= 0 && request->mismatched(last).sequence() == unit.sequence
            ? request->mutable_mismatched(last)
            : request->add_mismatched();
    sequence->set_sequence(unit.sequence);
    v1::MismatchedUnit* proto = sequence->add_units();
    proto->set_layer(unit.layer);
    proto->set_head(unit.head);
    proto->set_page(unit.page);
    proto->set_crc32c(unit.crc32c);
  }
}

void LanesToProto(std::span<const WantedLane> lanes, const WorkerSlots& map,
                  v1::RecallRequest* request) {
  for (size_t begin = 0; begin < lanes.size();) {
    const LayerWant& want = *lanes[begin].want;
    const uint32_t first = lanes[begin].layer;
    v1::LayerWant& proto = *request->add_wants();
    for (; begin < lanes.size() && lanes[begin].want == &want; ++begin) {
      proto.add_applied(map.lane(want.sequence, lanes[begin].layer).applied);
    }
    const auto num_layers = static_cast<uint32_t>(proto.applied_size());
    proto.set_sequence(want.sequence);
    proto.set_first_layer(first);
    proto.set_num_layers(num_layers);
    if (want.query.empty()) {
      wire::EncodeUnitList(want.pages, proto.mutable_units());
      if (want.held.num_pages() > 0) wire::EncodeUnitList(want.held, proto.mutable_held());
    } else {
      QueryToProto(want, first, num_layers, proto.mutable_query());
    }
  }
}

StatusOr<RecallPart> PartFromProto(const v1::RecallReply& reply, CallMessage body,
                                   const ExpectedPart& expected) {
  QUIRE_RETURN_IF_ERROR(CheckExchange(reply, expected));
  const auto lanes = static_cast<size_t>(reply.lanes_size());
  if (lanes == 0 || lanes > expected.lanes.size()) {
    return DataLoss("a part of ", lanes, " lanes where ", expected.lanes.size(), " are left");
  }
  PartReader reader(expected, body.payload.size_bytes() + body.landed_bytes);
  for (size_t i = 0; i < lanes; ++i) {
    const WantedLane& wanted = expected.lanes[i];
    QUIRE_RETURN_IF_ERROR(Annotate(reader.ReadLane(reply.lanes(static_cast<int>(i)), wanted),
                                   NameOf(wanted.want->sequence, wanted.layer)));
  }
  QUIRE_RETURN_IF_ERROR(reader.ReadCodecs(reply));
  return reader.Finish(std::move(body), expected);
}

void MapToProto(const WorkerSlots& map, v1::ResyncRequest* request) {
  for (uint32_t sequence = 0; sequence < map.end_sequence(); ++sequence) {
    if (!map.Has(sequence)) continue;
    for (const uint32_t layer : map.layers().layers()) {
      const WorkerSlots::Lane& state = map.lane(sequence, layer);
      if (state.applied == 0) continue;  // Untouched: empty, as the server takes it to be.
      v1::LaneMap& lane = *request->add_lanes();
      lane.set_sequence(sequence);
      lane.set_layer(layer);
      lane.set_applied(state.applied);
      wire::EncodeLaneSlots(map.Pages(sequence, layer), map.Generations(sequence, layer),
                            lane.mutable_slots());
    }
  }
}

}  // namespace quire::internal
