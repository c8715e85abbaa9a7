// SPDX-License-Identifier: Apache-2.0
//
// Client's methods of the Store service: each checks its arguments, calls, and checks the reply.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "client/caller.h"
#include "client/durability.h"
#include "client/slices.h"
#include "client/validate.h"
#include "common/base/memory/unit_checksums.h"
#include "common/page/unit_sizes.h"
#include "common/wire/convert.h"
#include "common/wire/convert_codec.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/layout.h"
#include "quire/v1/conversation.pb.h"
#include "quire/v1/store.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kPutSegment = {"quire.v1.Store/PutSegment", Repeat::kSafe};
constexpr CallSpec kOpenContext = {"quire.v1.Store/OpenContext", Repeat::kOnlyIfRefused};
constexpr CallSpec kAppendPages = {"quire.v1.Store/AppendPages", Repeat::kSafe};
constexpr CallSpec kAppendLayers = {"quire.v1.Store/AppendLayers", Repeat::kSafe};
constexpr CallSpec kSeal = {"quire.v1.Store/Seal", Repeat::kSafe};
constexpr CallSpec kDropContext = {"quire.v1.Store/DropContext", Repeat::kOnlyIfRefused};
constexpr CallSpec kLookup = {"quire.v1.Store/Lookup", Repeat::kSafe};
constexpr CallSpec kFetch = {"quire.v1.Store/Fetch", Repeat::kSafe};
constexpr CallSpec kPutRepresentatives = {"quire.v1.Store/PutRepresentatives", Repeat::kSafe};
constexpr CallSpec kReadTokens = {"quire.v1.Store/ReadTokens", Repeat::kSafe};
constexpr CallSpec kStat = {"quire.v1.Store/Stat", Repeat::kSafe};
constexpr CallSpec kPrefetch = {"quire.v1.Conversations/Prefetch", Repeat::kSafe};
constexpr CallSpec kRelease = {"quire.v1.Conversations/Release", Repeat::kOnlyIfRefused};
constexpr CallSpec kDeleteSegments = {"quire.v1.Store/Delete", Repeat::kOnlyIfRefused};

/// No name, or one that a server takes.
Status CheckCollection(std::string_view collection) {
  return collection.empty() ? OkStatus() : wire::CheckCollection(collection);
}

void SetTokens(std::span<const TokenId> tokens, google::protobuf::RepeatedField<int32_t>* field) {
  field->Add(tokens.begin(), tokens.end());
}

/// Sets the hints of a request that has any.
template <typename Request>
Status SetHints(const Hints& hints, Request* request) {
  if (hints.empty()) return OkStatus();
  wire::HintsToProto(hints, request->mutable_hints());
  return wire::CheckHints(hints);
}

/// True when a reply of `units` units can answer `ranges`. How many heads a range without a head
/// list means is the server's to know, but it is the same for all of them.
bool AnswersRanges(std::span<const UnitRange> ranges, uint64_t units) {
  uint64_t named = 0;
  uint64_t pages_of_all_heads = 0;
  for (const UnitRange& range : ranges) {
    (range.heads.empty() ? pages_of_all_heads : named) +=
        range.pages.size() * std::max<uint64_t>(range.heads.size(), 1);
  }
  if (units < named || pages_of_all_heads == 0) return units == named;
  const uint64_t heads = (units - named) / pages_of_all_heads;
  return (units - named) % pages_of_all_heads == 0 && heads >= 1 &&
         heads <= KvSpecLimits::kMaxHeads;
}

/// Checks a fetched payload, whose unit size only the server knows: it divides the payload evenly.
Status CheckFetched(const v1::FetchReply& reply, std::span<const UnitRange> ranges,
                    const Payload& payload, std::vector<UnitMismatch>* mismatches) {
  const uint64_t units = reply.num_units();
  if (!AnswersRanges(ranges, units)) return DataLoss(units, " units do not answer the ranges");
  const std::span<const uint32_t> checksums(reply.unit_crc32c().data(), reply.unit_crc32c().size());
  if (!reply.codecs().empty()) return DataLoss("codecs, which were not asked for");
  if (units == 0 || payload.size_bytes() < units) return CheckUnits(payload, units, 1, checksums);
  return CheckUnits(payload, units, payload.size_bytes() / units, checksums, mismatches);
}

/// Checks a fetched payload of units of these sizes. Sets `codecs`, which may be empty.
Status CheckFetchedOf(const v1::FetchReply& reply, std::span<const UnitRange> ranges,
                      const UnitSizes& sizes, const Payload& payload,
                      std::vector<UnitCodec>* codecs, std::vector<UnitMismatch>* mismatches) {
  const uint64_t units = reply.num_units();
  const std::span<const uint32_t> checksums(reply.unit_crc32c().data(), reply.unit_crc32c().size());
  if (!AnswersRanges(ranges, units) || checksums.size() != units) {
    return DataLoss(units, " units and ", checksums.size(), " checksums do not answer the ranges");
  }
  auto runs = wire::CodecRunsFromProto(reply.codecs(), units, sizes);
  if (!runs.ok()) return DataLoss(Message(runs.status()));
  *codecs = *std::move(runs);
  if (codecs->empty()) return CheckUnits(payload, units, sizes.raw(), checksums, mismatches);
  std::vector<uint64_t> bytes;
  for (const UnitCodec codec : *codecs) bytes.push_back(sizes.Of(codec));
  const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  if (payload.size_bytes() != total) {
    return DataLoss(payload.size_bytes(), " payload bytes for units of ", total);
  }
  *mismatches = FindMismatches(payload, bytes, checksums);
  if (mismatches->empty()) return OkStatus();
  return DataLoss("unit ", mismatches->front().unit, " does not match its checksum");
}

/// Names the units of a reply that answers `ranges` which did not match.
void MismatchedToProto(std::span<const UnitRange> ranges, uint64_t units,
                       std::span<const UnitMismatch> mismatches, v1::FetchRequest* request) {
  uint64_t named = 0;
  uint64_t pages_of_all_heads = 0;
  for (const UnitRange& range : ranges) {
    (range.heads.empty() ? pages_of_all_heads : named) +=
        range.pages.size() * std::max<uint64_t>(range.heads.size(), 1);
  }
  const uint64_t all_heads = pages_of_all_heads == 0 ? 0 : (units - named) / pages_of_all_heads;
  uint64_t first = 0;
  auto mismatch = mismatches.begin();
  for (const UnitRange& range : ranges) {
    const uint64_t heads = range.heads.empty() ? all_heads : range.heads.size();
    const uint64_t end = first + range.pages.size() * heads;
    for (; mismatch != mismatches.end() && mismatch->unit < end; ++mismatch) {
      if (static_cast<uint32_t>(request->mismatched_size()) == wire::kMaxMismatchedUnits) return;
      const uint64_t at = mismatch->unit - first;
      v1::MismatchedUnit* proto = request->add_mismatched();
      proto->set_layer(range.layer);
      proto->set_page(range.pages[at / heads]);
      proto->set_head(range.heads.empty() ? static_cast<uint32_t>(at % heads)
                                          : range.heads[at % heads]);
      proto->set_crc32c(mismatch->crc32c);
    }
    first = end;
  }
}

}  // namespace

StatusOr<SegmentKey> Client::PutSegment(const KvSpec& spec, const SegmentKey& parent,
                                        std::span<const TokenId> tokens, const Payload& payload,
                                        PutDurability durability, std::string_view collection) {
  QUIRE_ASSIGN_OR_RETURN(
      const PutSegmentReply put,
      PutSegment(spec, parent, tokens, payload,
                 PutOptions{.durability = durability, .collection = collection}));
  return put.key;
}

StatusOr<PutSegmentReply> Client::PutSegment(const KvSpec& spec, const SegmentKey& parent,
                                             std::span<const TokenId> tokens,
                                             const Payload& payload, const PutOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(spec));
  QUIRE_RETURN_IF_ERROR(CheckCollection(options.collection));
  if (tokens.empty() || tokens.size() > spec.segment_tokens()) {
    return InvalidArgument("a segment has 1 to ", spec.segment_tokens(), " tokens, not ",
                           tokens.size());
  }
  const uint64_t bytes = SegmentBytes(spec, PageCount(spec, tokens.size()));
  QUIRE_RETURN_IF_ERROR(CheckPayloadSize("the segment's payload", payload, bytes));
  v1::PutSegmentRequest request;
  wire::KvSpecToProto(spec, request.mutable_spec());
  if (parent != kRootKey) request.set_parent(wire::KeyToBytes(parent));
  SetTokens(tokens, request.mutable_tokens());
  request.set_durability(ToProto(options.durability));
  request.set_collection(std::string(options.collection));
  request.set_strict(options.strict);
  QUIRE_RETURN_IF_ERROR(SetHints(options.hints, &request));
  request.set_payload_crc32c(PayloadCrc32c(payload));
  v1::PutSegmentReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kPutSegment, request, payload, caller_->NewDeadline(), &reply, nullptr));
  const auto key = wire::KeyFromBytes(reply.key(), "key");
  if (!key.ok()) return BadReply(kPutSegment.method, Message(key.status()));
  return PutSegmentReply{.key = *key, .existed = reply.existed(), .differs = reply.differs()};
}

StatusOr<OpenedContext> Client::OpenContext(const KvSpec& spec,
                                            const std::optional<ContextRef>& continues,
                                            const ContextOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(spec));
  QUIRE_RETURN_IF_ERROR(CheckCollection(options.collection));
  v1::OpenContextRequest request;
  request.set_collection(std::string(options.collection));
  request.set_private_pages(options.private_pages);
  request.set_strict(options.strict);
  QUIRE_RETURN_IF_ERROR(SetHints(options.hints, &request));
  wire::KvSpecToProto(spec, request.mutable_spec());
  if (options.question_about) {
    wire::DocumentNameToProto(*options.question_about, request.mutable_question_about());
  }
  if (continues) {
    QUIRE_RETURN_IF_ERROR(CheckRef(*continues));
    wire::ContextRefToProto(*continues, request.mutable_continues());
  }
  v1::OpenContextReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kOpenContext, request, {}, caller_->NewDeadline(), &reply, nullptr));
  if (reply.num_tokens() % spec.page_tokens != 0 || (!continues && reply.num_tokens() != 0)) {
    return BadReply(kOpenContext.method, "the context starts with ", reply.num_tokens(), " tokens");
  }
  return OpenedContext{
      .id = reply.context_id(),
      .num_tokens = reply.num_tokens(),
      .incarnation = reply.incarnation(),
      .lease = caller_->leases().Keep(LeaseKeeper::Kind::kContext, reply.context_id(),
                                      std::chrono::seconds(reply.lease_seconds()))};
}

StatusOr<uint64_t> Client::AppendPages(uint64_t context_id, uint32_t first_page,
                                       std::span<const TokenId> tokens, const Payload& payload) {
  if (tokens.empty()) return InvalidArgument("AppendPages needs the tokens of at least one page");
  v1::AppendPagesRequest request;
  request.set_context_id(context_id);
  request.set_first_page(first_page);
  SetTokens(tokens, request.mutable_tokens());
  request.set_payload_crc32c(PayloadCrc32c(payload));
  v1::AppendPagesReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kAppendPages, request, payload, caller_->NewDeadline(), &reply, nullptr));
  if (reply.num_tokens() < tokens.size()) {
    return BadReply(kAppendPages.method, "the context has ", reply.num_tokens(), " tokens after ",
                    tokens.size(), " were appended");
  }
  return reply.num_tokens();
}

StatusOr<uint64_t> Client::AppendLayers(uint64_t context_id, uint32_t first_page,
                                        std::span<const TokenId> tokens,
                                        std::span<const uint32_t> layers, const Payload& payload) {
  if (tokens.empty()) return InvalidArgument("AppendLayers needs at least one page");
  if (layers.empty()) return InvalidArgument("AppendLayers needs at least one layer");
  if (std::ranges::adjacent_find(layers, std::greater_equal<>()) != layers.end()) {
    return InvalidArgument("the layers of AppendLayers must ascend");
  }
  v1::AppendLayersRequest request;
  request.set_context_id(context_id);
  request.set_first_page(first_page);
  SetTokens(tokens, request.mutable_tokens());
  request.mutable_layers()->Add(layers.begin(), layers.end());
  request.set_payload_crc32c(PayloadCrc32c(payload));
  v1::AppendLayersReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kAppendLayers, request, payload, caller_->NewDeadline(), &reply, nullptr));
  return reply.num_tokens();
}

StatusOr<SealedContext> Client::Seal(uint64_t context_id, std::span<const TokenId> tail_tokens,
                                     const Payload& tail_payload, PutDurability durability) {
  if (tail_tokens.empty() != tail_payload.empty()) {
    return InvalidArgument("Seal needs both the tail's tokens and its payload, or neither");
  }
  v1::SealRequest request;
  request.set_context_id(context_id);
  SetTokens(tail_tokens, request.mutable_tail_tokens());
  request.set_durability(ToProto(durability));
  if (!tail_payload.empty()) request.set_payload_crc32c(PayloadCrc32c(tail_payload));
  v1::SealReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kSeal, request, tail_payload, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(ContextInfo info, ContextFromReply(kSeal.method, reply.context()));
  if (info.chain_tip == kRootKey || info.num_tokens % info.spec.page_tokens != tail_tokens.size()) {
    return BadReply(kSeal.method, "it does not name a sealed chain with this tail");
  }
  caller_->sealed().Add(info.chain_tip, context_id);
  return SealedContext{std::move(info), reply.segments_differing()};
}

Status Client::DropContext(uint64_t context_id) {
  v1::DropContextRequest request;
  request.set_context_id(context_id);
  v1::DropContextReply reply;
  return caller_->Call(kDropContext, request, {}, caller_->NewDeadline(), &reply, nullptr);
}

StatusOr<LookupResult> Client::Lookup(const KvSpec& spec, std::span<const TokenId> tokens,
                                      const Hints& hints) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(spec));
  v1::LookupRequest request;
  wire::KvSpecToProto(spec, request.mutable_spec());
  SetTokens(tokens, request.mutable_tokens());
  QUIRE_RETURN_IF_ERROR(SetHints(hints, &request));
  v1::LookupReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kLookup, request, {}, caller_->NewDeadline(), &reply, nullptr));
  LookupResult result{.segment_keys = {}, .num_tokens = reply.num_tokens()};
  auto keys =
      wire::KeysFromProto(reply.segment_keys(), SegmentCount(spec, tokens.size()), "segment_keys");
  if (!keys.ok()) return BadReply(kLookup.method, Message(keys.status()));
  result.segment_keys = *std::move(keys);
  const uint64_t covered = std::min<uint64_t>(
      tokens.size(), result.segment_keys.size() * uint64_t{spec.segment_tokens()});
  if (result.num_tokens != covered) {
    return BadReply(kLookup.method, result.segment_keys.size(), " segments do not cover ",
                    result.num_tokens, " tokens");
  }
  return result;
}

StatusOr<PrefetchProgress> Client::PrefetchConversation(std::string_view conversation,
                                                        const PrefetchObserver& observer) {
  QUIRE_RETURN_IF_ERROR(wire::CheckConversation(conversation));
  v1::PrefetchRequest request;
  request.set_conversation(std::string(conversation));
  PrefetchProgress progress;
  do {
    v1::PrefetchReply reply;
    QUIRE_RETURN_IF_ERROR(
        caller_->Call(kPrefetch, request, {}, caller_->NewDeadline(), &reply, nullptr));
    QUIRE_RETURN_IF_ERROR(internal::TakeSlice(kPrefetch.method, reply, &request, &progress));
    if (observer && !observer(progress)) {
      return Status(StatusCode::kCancelled, "the caller ended the prefetch");
    }
  } while (progress.segments_done < progress.num_segments);
  return progress;
}

StatusOr<uint64_t> Client::ReleaseConversation(std::string_view conversation) {
  QUIRE_RETURN_IF_ERROR(wire::CheckConversation(conversation));
  v1::ReleaseRequest request;
  request.set_conversation(std::string(conversation));
  v1::ReleaseReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kRelease, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return reply.segments_released();
}

StatusOr<Payload> Client::Fetch(const ContextRef& context, std::span<const UnitRange> ranges) {
  QUIRE_ASSIGN_OR_RETURN(FetchedUnits fetched, FetchOf(context, ranges, nullptr, {}));
  return std::move(fetched.payload);
}

StatusOr<FetchedUnits> Client::FetchUnits(const ContextRef& context,
                                          std::span<const UnitRange> ranges, const KvSpec& spec,
                                          const CodecSet& codecs) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(spec));
  const UnitSizes sizes(spec, UnitPart::kWhole, codecs);
  return FetchOf(context, ranges, &sizes, codecs);
}

StatusOr<FetchedUnits> Client::FetchOf(const ContextRef& context, std::span<const UnitRange> ranges,
                                       const UnitSizes* sizes, const CodecSet& codecs) {
  QUIRE_RETURN_IF_ERROR(CheckRef(context));
  v1::FetchRequest request;
  wire::CodecsToProto(codecs, request.mutable_codecs());
  wire::ContextRefToProto(context, request.mutable_context());
  for (const UnitRange& range : ranges) wire::UnitRangeToProto(range, request.add_ranges());
  const TimePoint deadline = caller_->NewDeadline();
  for (uint32_t rechecks = 0;; ++rechecks) {
    v1::FetchReply reply;
    FetchedUnits fetched;
    Payload& payload = fetched.payload;
    QUIRE_RETURN_IF_ERROR(caller_->Call(kFetch, request, {}, deadline, &reply, &payload));
    std::vector<UnitMismatch> mismatches;
    const Status checked = sizes == nullptr ? CheckFetched(reply, ranges, payload, &mismatches)
                                            : CheckFetchedOf(reply, ranges, *sizes, payload,
                                                             &fetched.codecs, &mismatches);
    if (checked.ok()) return fetched;
    // The server hears of it with the next attempt, and mends what it has.
    if (mismatches.empty() || rechecks == kMaxRechecks) {
      return BadReply(kFetch.method, Message(checked));
    }
    request.clear_mismatched();
    MismatchedToProto(ranges, reply.num_units(), mismatches, &request);
  }
}

StatusOr<bool> Client::PutRepresentatives(const SegmentKey& segment, const Payload& digests) {
  v1::PutRepresentativesRequest request;
  request.set_key(wire::KeyToBytes(segment));
  request.set_payload_crc32c(PayloadCrc32c(digests));
  v1::PutRepresentativesReply reply;
  QUIRE_RETURN_IF_ERROR(caller_->Call(kPutRepresentatives, request, digests, caller_->NewDeadline(),
                                      &reply, nullptr));
  return !reply.existed();
}

StatusOr<ContextStat> Client::Stat(const ContextRef& context) {
  QUIRE_RETURN_IF_ERROR(CheckRef(context));
  v1::StatRequest request;
  wire::ContextRefToProto(context, request.mutable_context());
  v1::StatReply reply;
  QUIRE_RETURN_IF_ERROR(caller_->Call(kStat, request, {}, caller_->NewDeadline(), &reply, nullptr));
  ContextStat stat;
  QUIRE_ASSIGN_OR_RETURN(stat.context, ContextFromReply(kStat.method, reply.context()));
  stat.bytes = reply.bytes();
  stat.segments_in_dram = reply.segments_in_dram();
  stat.segments_on_ssd = reply.segments_on_ssd();
  stat.segments_lost = reply.segments_lost();
  stat.expires_unix_micros = reply.expires_unix_micros();
  return stat;
}

StatusOr<std::vector<TokenId>> Client::ReadTokens(const ContextRef& context) {
  QUIRE_RETURN_IF_ERROR(CheckRef(context));
  const TimePoint deadline = caller_->NewDeadline();
  v1::ReadTokensRequest request;
  wire::ContextRefToProto(context, request.mutable_context());
  request.set_num_tokens(wire::kMaxTokensRead);
  std::vector<TokenId> tokens;
  for (;;) {
    request.set_first_token(tokens.size());
    v1::ReadTokensReply reply;
    QUIRE_RETURN_IF_ERROR(caller_->Call(kReadTokens, request, {}, deadline, &reply, nullptr));
    tokens.insert(tokens.end(), reply.tokens().begin(), reply.tokens().end());
    if (tokens.size() == reply.stored_tokens()) return tokens;
    if (reply.tokens().empty() || tokens.size() > reply.stored_tokens()) {
      return BadReply(kReadTokens.method, tokens.size(), " tokens of ", reply.stored_tokens());
    }
  }
}

StatusOr<uint32_t> Client::DeleteSegments(std::span<const SegmentKey> keys) {
  v1::DeleteRequest request;
  wire::KeysToProto(keys, request.mutable_segment_keys());
  v1::DeleteReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kDeleteSegments, request, {}, caller_->NewDeadline(), &reply, nullptr));
  if (reply.num_deleted() > keys.size()) {
    return BadReply(kDeleteSegments.method, reply.num_deleted(), " segments deleted of ",
                    keys.size());
  }
  return reply.num_deleted();
}

}  // namespace quire
