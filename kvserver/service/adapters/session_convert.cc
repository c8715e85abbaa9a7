// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/adapters/session_convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_codec.h"
#include "common/wire/convert_context.h"
#include "common/wire/lane_records.h"
#include "common/wire/limits.h"
#include "common/wire/unit_list.h"
#include "kvserver/service/adapters/context_info.h"
#include "quire/dtype.h"

namespace quire::kvserver {
namespace {

/// The wire uses the domain's numbers.
static_assert(static_cast<int>(kernels::Pooling::kMaxQ) == v1::POOLING_MAX_Q);
static_assert(static_cast<int>(kernels::Pooling::kAvgSdM) == v1::POOLING_AVG_SDM);
static_assert(static_cast<int>(DigestKind::kMinMax) == v1::DIGEST_KIND_MIN_MAX);
static_assert(static_cast<int>(DigestKind::kContent) == v1::DIGEST_KIND_CONTENT);
static_assert(wire::kMaxSequences == SessionShape::kMaxSequences);
static_assert(wire::kMaxMembers == SessionShape::kMaxMembers);
static_assert(wire::kMaxSlotsPerHead == SessionShape::kMaxSlotsPerHead);
/// Queries are sent as they are in memory.
static_assert(std::endian::native == std::endian::little);

StatusOr<DType> QueryDType(int dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) return DType::kF32;
  if (dtype > 0 && dtype <= UINT8_MAX && IsKnown(static_cast<DType>(dtype))) {
    return static_cast<DType>(dtype);
  }
  return InvalidArgument("the queries' dtype is ", dtype, ": must be f32, f16 or bf16");
}

/// Converts `count` finite elements of `dtype`.
StatusOr<std::vector<float>> QueriesFromBytes(std::string_view bytes, uint64_t count, DType dtype) {
  if (bytes.size() % ElementBytes(dtype) != 0 || bytes.size() / ElementBytes(dtype) != count) {
    return InvalidArgument("queries have ", bytes.size(), " bytes: ", count, " elements of ",
                           Name(dtype), " take ", ElementBytes(dtype), " each");
  }
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    float element = 0;  // Large enough for every dtype, and aligned.
    std::memcpy(&element, bytes.data() + i * ElementBytes(dtype), ElementBytes(dtype));
    values[i] = LoadElement(&element, 0, dtype);
    if (!std::isfinite(values[i])) {
      return InvalidArgument("element ", i, " of the queries is not finite");
    }
  }
  return values;
}

using CandidateRanges = google::protobuf::RepeatedPtrField<v1::CandidateRange>;

Status RangesFromProto(const CandidateRanges& proto, std::vector<CandidatePages>* ranges) {
  int64_t last = -1;
  for (const v1::CandidateRange& range : proto) {
    if (range.member() >= wire::kMaxMembers || int64_t{range.member()} <= last) {
      return InvalidArgument("candidates of member ", range.member(),
                             ": members ascend and are below ", wire::kMaxMembers);
    }
    last = range.member();
    ranges->push_back(
        {.member = range.member(), .first_page = range.first_page(), .end_page = range.end_page()});
  }
  return OkStatus();
}

StatusOr<QueryWant> QueryFromProto(const v1::QuerySelection& proto, const KvSpec& spec,
                                   uint32_t num_layers) {
  QueryWant want;
  QUIRE_ASSIGN_OR_RETURN(const DType dtype, QueryDType(proto.dtype()));
  const uint64_t row = uint64_t{spec.num_query_heads} * spec.key_dim();
  QUIRE_ASSIGN_OR_RETURN(want.queries, QueriesFromBytes(proto.queries(), num_layers * row, dtype));
  QUIRE_RETURN_IF_ERROR(RangesFromProto(proto.candidates(), &want.shape.ranges));
  want.shape.num_pages = proto.num_pages();
  const int pooling = proto.pooling();
  if (pooling < v1::POOLING_UNSPECIFIED || pooling > v1::POOLING_AVG_SDM) {
    return InvalidArgument("pooling is ", pooling, ": must be 0..", v1::POOLING_AVG_SDM);
  }
  if (pooling != v1::POOLING_UNSPECIFIED) {
    want.shape.pooling = static_cast<kernels::Pooling>(pooling);
  }
  if (proto.scale() != 0) want.shape.scale = proto.scale();
  QUIRE_ASSIGN_OR_RETURN(want.shape.digest, DigestKindFromProto(proto.digest()));
  want.kept_heads.assign(proto.kept_heads().begin(), proto.kept_heads().end());
  const bool ascend = std::ranges::is_sorted(want.kept_heads, std::less_equal<>());
  if (!ascend || (!want.kept_heads.empty() && want.kept_heads.back() >= spec.num_kv_heads)) {
    return InvalidArgument("kept_heads ascend and are below ", spec.num_kv_heads);
  }
  return want;
}

/// Slots per head of a sequence, from those of all sequences by number.
StatusOr<uint32_t> SlotsOf(uint32_t sequence, std::span<const uint32_t> sequence_slots) {
  if (sequence < sequence_slots.size() && sequence_slots[sequence] > 0) {
    return sequence_slots[sequence];
  }
  return InvalidArgument("the session has no sequence ", sequence);
}

/// Number of pages that a recall may still name.
struct PagesLeft {
  uint64_t wanted;
  uint64_t held;
};

/// Converts a unit list of at most `slots` pages per head. Subtracts its pages from `*left`.
Status PagesFromProto(std::string_view units, const KvSpec& spec, uint32_t slots, uint64_t* left,
                      PageLists* pages) {
  QUIRE_RETURN_IF_ERROR(wire::DecodeUnitList(units, spec.num_kv_heads, slots, pages));
  if (pages->num_pages() > *left) {
    return InvalidArgument("more pages than the session has slots: name each lane once");
  }
  *left -= pages->num_pages();
  return OkStatus();
}

StatusOr<WantedLayers> WantFromProto(const v1::LayerWant& proto, const SessionShape& shape,
                                     std::span<const uint32_t> sequence_slots, PagesLeft* left) {
  WantedLayers want;
  const uint32_t num_layers = proto.num_layers() == 0 ? 1 : proto.num_layers();
  if (static_cast<uint32_t>(proto.applied_size()) != num_layers) {
    return InvalidArgument("applied has ", proto.applied_size(), " entries for ", num_layers,
                           " layers");
  }
  want.lanes = {
      proto.sequence(), proto.first_layer(), {proto.applied().begin(), proto.applied().end()}};
  if (proto.has_query()) {
    QUIRE_ASSIGN_OR_RETURN(want.query, QueryFromProto(proto.query(), shape.spec, num_layers));
    return want;
  }
  if (!proto.has_units()) return InvalidArgument("a want has neither units nor a query");
  QUIRE_ASSIGN_OR_RETURN(const uint32_t slots, SlotsOf(proto.sequence(), sequence_slots));
  QUIRE_RETURN_IF_ERROR(
      PagesFromProto(proto.units(), shape.spec, slots, &left->wanted, &want.units));
  if (proto.held().empty()) return want;
  QUIRE_RETURN_IF_ERROR(
      Annotate(PagesFromProto(proto.held(), shape.spec, slots, &left->held, &want.held), "held"));
  return want;
}

StatusOr<UnitPart> UnitPartFromProto(int proto) {
  switch (proto) {
    case v1::UNIT_PART_UNSPECIFIED:
    case v1::UNIT_PART_WHOLE:
      return UnitPart::kWhole;
    case v1::UNIT_PART_VALUES:
      return UnitPart::kValues;
    default:
      return InvalidArgument("unit_part is ", proto, ": must be 0..", v1::UNIT_PART_VALUES);
  }
}

}  // namespace

StatusOr<DigestKind> DigestKindFromProto(int proto) {
  if (proto == v1::DIGEST_KIND_UNSPECIFIED) return DigestKind::kMinMax;
  if (proto >= v1::DIGEST_KIND_MIN_MAX && proto <= v1::DIGEST_KIND_CONTENT) {
    return static_cast<DigestKind>(proto);
  }
  return InvalidArgument("the kind of digests is ", proto, ": must be 0..",
                         v1::DIGEST_KIND_CONTENT);
}

StatusOr<ContentQuery> ContentQueryFromProto(const v1::ScorePagesRequest& proto,
                                             const KvSpec& spec) {
  ContentQuery query{.sequence = proto.sequence(),
                     .layers = {proto.layers().begin(), proto.layers().end()}};
  QUIRE_RETURN_IF_ERROR(RangesFromProto(proto.candidates(), &query.ranges));
  QUIRE_ASSIGN_OR_RETURN(const DType dtype, QueryDType(proto.dtype()));
  const uint64_t row = uint64_t{spec.num_kv_heads} * spec.key_dim();
  QUIRE_ASSIGN_OR_RETURN(
      query.queries,
      QueriesFromBytes(proto.queries(), query.ranges.size() * query.layers.size() * row, dtype));
  return query;
}

StatusOr<SessionManager::OpenArgs> OpenArgsFromProto(const v1::OpenSessionRequest& proto) {
  if (proto.sequences_size() < 1 ||
      static_cast<uint32_t>(proto.sequences_size()) > wire::kMaxSequences) {
    return InvalidArgument(proto.sequences_size(), " sequences: must be 1..", wire::kMaxSequences);
  }
  SessionManager::OpenArgs args;
  for (const v1::SequenceSpec& sequence : proto.sequences()) {
    QUIRE_ASSIGN_OR_RETURN(args.sequences.emplace_back(), SequenceArgsFromProto(sequence));
  }
  QUIRE_ASSIGN_OR_RETURN(args.spec, wire::KvSpecFromProto(proto.spec()));
  args.slots_per_head = proto.slots_per_head();
  args.managed_layers.assign(proto.managed_layers().begin(), proto.managed_layers().end());
  QUIRE_ASSIGN_OR_RETURN(args.part, UnitPartFromProto(proto.unit_part()));
  QUIRE_ASSIGN_OR_RETURN(args.codecs, wire::CodecsFromProto(proto.codecs()));
  if (proto.has_hold_digests()) {
    const v1::HeldDigests& hold = proto.hold_digests();
    HeldDigests& held = args.hold_digests.emplace();
    QUIRE_ASSIGN_OR_RETURN(held.kind, DigestKindFromProto(hold.kind()));
    held.layers.assign(hold.layers().begin(), hold.layers().end());
  }
  return args;
}

StatusOr<SessionManager::SequenceArgs> SequenceArgsFromProto(const v1::SequenceSpec& proto) {
  if (proto.members_size() < 1 || static_cast<uint32_t>(proto.members_size()) > wire::kMaxMembers) {
    return InvalidArgument(proto.members_size(), " members: must be 1..", wire::kMaxMembers);
  }
  SessionManager::SequenceArgs args;
  args.slots_per_head = proto.slots_per_head();
  QUIRE_ASSIGN_OR_RETURN(args.hints, wire::HintsFromProto(proto.hints()));
  for (const v1::SequenceMember& member : proto.members()) {
    SessionManager::MemberArgs& arg = args.members.emplace_back();
    QUIRE_ASSIGN_OR_RETURN(arg.context, wire::ContextRefFromProto(member.context()));
    arg.position_offset = member.position_offset();
  }
  return args;
}

void OpenedToProto(const SessionManager::OpenedSequence& opened, v1::OpenedSequence* proto) {
  for (const SessionManager::OpenedMember& member : opened) {
    v1::OpenedMember* out = proto->add_members();
    wire::ContextInfoToProto(InfoOf(*member.view), out->mutable_context());
    out->mutable_tail_tokens()->Add(member.tail_tokens.begin(), member.tail_tokens.end());
  }
}

StatusOr<RecallArgs> RecallArgsFromProto(const v1::RecallRequest& proto, const SessionShape& shape,
                                         std::span<const uint32_t> sequence_slots) {
  RecallArgs args{proto.epoch(), proto.exchange(), {}, proto.place()};
  const uint64_t slots =
      std::accumulate(sequence_slots.begin(), sequence_slots.end(), uint64_t{0}) *
      shape.spec.num_kv_heads * shape.num_managed();
  PagesLeft left{.wanted = slots, .held = slots};
  args.wants.reserve(static_cast<size_t>(proto.wants_size()));
  for (const v1::LayerWant& want : proto.wants()) {
    auto parsed = WantFromProto(want, shape, sequence_slots, &left);
    if (!parsed.ok()) {
      return Annotate(parsed.status(), "sequence ", want.sequence(), " layer ", want.first_layer());
    }
    args.wants.push_back(*std::move(parsed));
  }
  for (const v1::SequenceMismatch& sequence : proto.mismatched()) {
    for (const v1::MismatchedUnit& unit : sequence.units()) {
      if (args.mismatched.size() == wire::kMaxMismatchedUnits) {
        return InvalidArgument("mismatched: at most ", wire::kMaxMismatchedUnits, " units");
      }
      args.mismatched.push_back(
          {sequence.sequence(), unit.layer(), unit.head(), unit.page(), unit.crc32c()});
    }
  }
  return args;
}

void RecallPartToProto(const RecallArgs& args, const ReplyPart& part, v1::RecallReply* proto) {
  proto->set_exchange(args.exchange);
  proto->set_epoch(args.epoch);
  for (const LanePlacement& lane : part.lanes) {
    const PlacedUnits& placed = lane.placed;
    v1::LanePlacement* out = proto->add_lanes();
    out->set_sequence(lane.sequence);
    out->set_layer(lane.layer);
    out->mutable_counts()->Assign(placed.counts.begin(), placed.counts.end());
    wire::EncodeLaneUnits(wire::LaneUnitsView{placed.slots, placed.generations, placed.pages,
                                              placed.replaced, placed.crc32c},
                          out->mutable_units());
    if (lane.selected.num_heads() > 0) {
      wire::EncodeUnitList(lane.selected, out->mutable_selected());
    }
  }
  for (const CodecRun& run : part.codecs) {
    wire::AddCodecRun(run.codec, run.units, proto->mutable_codecs());
  }
}

StatusOr<std::vector<LaneMap>> LaneMapsFromProto(const v1::ResyncRequest& proto,
                                                 const SessionShape& shape,
                                                 std::span<const uint32_t> sequence_slots) {
  std::vector<LaneMap> maps;
  for (const v1::LaneMap& map : proto.lanes()) {
    QUIRE_ASSIGN_OR_RETURN(const size_t per_head, SlotsOf(map.sequence(), sequence_slots));
    wire::LaneSlots slots;
    if (const Status decoded =
            wire::DecodeLaneSlots(map.slots(), shape.spec.num_kv_heads * per_head, &slots);
        !decoded.ok()) {
      return Annotate(decoded, "sequence ", map.sequence(), " layer ", map.layer());
    }
    maps.push_back({map.sequence(), map.layer(), map.applied(), std::move(slots.pages),
                    std::move(slots.generations)});
  }
  return maps;
}

}  // namespace quire::kvserver
