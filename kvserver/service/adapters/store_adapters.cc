// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "cluster/replica/replicated_put.h"
#include "common/wire/convert.h"
#include "common/wire/convert_codec.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/adapters/context_info.h"
#include "kvserver/service/adapters/payload_check.h"
#include "kvserver/service/adapters/unit_fetch.h"
#include "quire/layout.h"
#include "quire/v1/store.pb.h"

namespace quire::kvserver {
namespace {

/// The methods and the objects that they use.
class StoreAdapters {
 public:
  explicit StoreAdapters(const StoreAdapterDeps& deps) : deps_(deps) {}

  Status PutSegment(const Call& call, const v1::PutSegmentRequest& request,
                    v1::PutSegmentReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const KvSpec spec, wire::KvSpecFromProto(request.spec()));
    PutSegmentArgs args;
    args.spec = &spec;
    QUIRE_ASSIGN_OR_RETURN(args.parent, wire::KeyOrRootFromBytes(request.parent(), "parent"));
    QUIRE_ASSIGN_OR_RETURN(
        args.tokens, wire::TokensFromProto(request.tokens(), 1, spec.segment_tokens(), "tokens"));
    QUIRE_ASSIGN_OR_RETURN(args.expected_key, wire::OptionalKeyFromBytes(request.key(), "key"));
    QUIRE_ASSIGN_OR_RETURN(args.durability, DurabilityFromProto(request.durability()));
    QUIRE_ASSIGN_OR_RETURN(args.codec, CodecOf(call, request.collection()));
    args.strict = request.strict();
    args.waits = call.waits;
    QUIRE_ASSIGN_OR_RETURN(const Hints hints, wire::HintsFromProto(request.hints()));
    QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
    const Slice payload = Contiguous(call.payload);
    args.payload = payload.bytes;
    QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result,
                           deps_.store->PutSegment(call.tenant, args));
    deps_.store->NoteHints(call.tenant, hints, {&result.key, 1});
    reply->set_key(wire::KeyToBytes(result.key));
    reply->set_existed(result.existed);
    reply->set_differs(result.differs);
    reply->mutable_stored_crc32c()->Add(result.stored_crc32c.begin(), result.stored_crc32c.end());
    QUIRE_ASSIGN_OR_RETURN(const uint32_t copies,
                           CopiesMade(call, request.durability(), result.key));
    reply->set_copies(copies);
    return OkStatus();
  }

  Status OpenContext(const Call& call, const v1::OpenContextRequest& request,
                     v1::OpenContextReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const KvSpec spec, wire::KvSpecFromProto(request.spec()));
    ContextViewPtr chain;
    if (request.has_continues()) {
      QUIRE_ASSIGN_OR_RETURN(const ContextRef ref, wire::ContextRefFromProto(request.continues()));
      QUIRE_ASSIGN_OR_RETURN(const ReadableContext continued,
                             deps_.resolver->Open(call.tenant, ref));
      chain = continued.view();
    }
    if (request.has_question_about()) {
      QUIRE_ASSIGN_OR_RETURN(const DocumentName about,
                             wire::DocumentNameFromProto(request.question_about()));
      if (chain != nullptr) deps_.resolver->NoteQuestion(call.tenant, about, *chain);
    }
    QUIRE_ASSIGN_OR_RETURN(const CodecParams codec, CodecOf(call, request.collection()));
    QUIRE_ASSIGN_OR_RETURN(Hints hints, wire::HintsFromProto(request.hints()));
    QUIRE_ASSIGN_OR_RETURN(
        const ContextTable::Opened opened,
        deps_.contexts->Open(call.tenant, spec, chain,
                             {codec, request.private_pages(), request.strict(), std::move(hints)}));
    reply->set_context_id(opened.id);
    reply->set_num_tokens(opened.context->view()->num_tokens);
    reply->set_incarnation(opened.context->continued().incarnation);
    reply->set_lease_seconds(LeaseSeconds(deps_.contexts->lease()));
    return OkStatus();
  }

  Status AppendPages(const Call& call, const v1::AppendPagesRequest& request,
                     v1::AppendPagesReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const auto context,
                           deps_.contexts->Find(call.tenant, request.context_id()));
    QUIRE_ASSIGN_OR_RETURN(
        const auto tokens,
        wire::TokensFromProto(request.tokens(), 1, wire::kMaxContextTokens, "tokens"));
    QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
    const Slice units = Contiguous(call.payload);
    QUIRE_ASSIGN_OR_RETURN(const uint64_t num_tokens,
                           context->Append(request.first_page(), tokens, units.bytes, call.waits));
    reply->set_num_tokens(num_tokens);
    return OkStatus();
  }

  Status AppendLayers(const Call& call, const v1::AppendLayersRequest& request,
                      v1::AppendLayersReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const auto context,
                           deps_.contexts->Find(call.tenant, request.context_id()));
    QUIRE_ASSIGN_OR_RETURN(
        const auto tokens,
        wire::TokensFromProto(request.tokens(), 1, wire::kMaxContextTokens, "tokens"));
    QUIRE_ASSIGN_OR_RETURN(
        const std::vector<uint32_t> layers,
        wire::AscendingFromProto(request.layers(), context->view()->spec->num_layers, "layers"));
    if (layers.empty()) return InvalidArgument("layers is empty: name the layers of the units");
    QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
    const Slice units = Contiguous(call.payload);
    QUIRE_ASSIGN_OR_RETURN(
        const uint64_t num_tokens,
        context->AppendLayers(request.first_page(), tokens, layers, units.bytes, call.waits));
    reply->set_num_tokens(num_tokens);
    return OkStatus();
  }

  Status Seal(const Call& call, const v1::SealRequest& request, v1::SealReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const auto context,
                           deps_.contexts->Find(call.tenant, request.context_id()));
    QUIRE_ASSIGN_OR_RETURN(const auto tail,
                           wire::TokensFromProto(request.tail_tokens(), 0,
                                                 KvSpecLimits::kMaxPageTokens, "tail_tokens"));
    QUIRE_ASSIGN_OR_RETURN(const Durability durability, DurabilityFromProto(request.durability()));
    QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
    const Slice units = Contiguous(call.payload);
    QUIRE_ASSIGN_OR_RETURN(const ContextViewPtr view,
                           context->Seal(tail, units.bytes, durability, call.waits));
    deps_.contexts->Retire(call.tenant, request.context_id());
    wire::ContextInfoToProto(InfoOf(*view), reply->mutable_context());
    reply->set_segments_differing(context->num_differing());
    QUIRE_ASSIGN_OR_RETURN(const uint32_t copies,
                           CopiesMade(call, request.durability(), view->chain_tip()));
    reply->set_copies(copies);
    return OkStatus();
  }

  Status DropContext(const Call& call, const v1::DropContextRequest& request,
                     v1::DropContextReply*) const {
    if (deps_.contexts->Drop(call.tenant, request.context_id())) return OkStatus();
    return NotFound("no open context ", request.context_id(), ": it has ended already");
  }

  Status Lookup(const Call& call, const v1::LookupRequest& request, v1::LookupReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const KvSpec spec, wire::KvSpecFromProto(request.spec()));
    QUIRE_ASSIGN_OR_RETURN(
        const auto tokens,
        wire::TokensFromProto(request.tokens(), 1, wire::kMaxContextTokens, "tokens"));
    QUIRE_ASSIGN_OR_RETURN(const Hints hints, wire::HintsFromProto(request.hints()));
    QUIRE_ASSIGN_OR_RETURN(const auto keys, deps_.store->Lookup(call.tenant, spec, tokens));
    deps_.store->NoteHints(call.tenant, hints, keys);
    wire::KeysToProto(keys, reply->mutable_segment_keys());
    reply->set_num_tokens(
        std::min<uint64_t>(keys.size() * uint64_t{spec.segment_tokens()}, tokens.size()));
    if (!keys.empty()) {
      deps_.registry->NoteReuse(call.tenant, keys.back(), reply->num_tokens());
    }
    return OkStatus();
  }

  Status Fetch(const Call& call, const v1::FetchRequest& request, v1::FetchReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const ReadableContext context, Resolve(call, request.context()));
    const ContextViewPtr view = context.view();
    QUIRE_ASSIGN_OR_RETURN(const std::vector<UnitRange> ranges, RangesFromProto(request, *view));
    const Caller caller(call.tenant, call.context.priority, call.waits);
    QUIRE_RETURN_IF_ERROR(RecheckMismatched(request, caller, *view));
    QUIRE_ASSIGN_OR_RETURN(const CodecSet codecs, wire::CodecsFromProto(request.codecs()));
    const UnitSizes sizes(*view->spec, UnitPart::kWhole, codecs);
    QUIRE_ASSIGN_OR_RETURN(const auto units, FetchRanges(*deps_.store, caller, view, ranges, sizes,
                                                         deps_.max_reply_bytes));
    reply->set_num_units(units.size());
    for (const UnitBytes& unit : units) {
      if (!sizes.only_raw()) wire::AddCodecRun(unit.codec(), 1, reply->mutable_codecs());
    }
    AppendUnits(units, reply->mutable_unit_crc32c(), call.reply_payload);
    context.NoteRead();
    if (context.document()) {
      deps_.registry->NoteServed(call.tenant, *context.document(),
                                 call.reply_payload->size_bytes());
    }
    return OkStatus();
  }

  Status PutRepresentatives(const Call& call, const v1::PutRepresentativesRequest& request,
                            v1::PutRepresentativesReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, wire::KeyFromBytes(request.key(), "key"));
    QUIRE_RETURN_IF_ERROR(CheckPayload(call.payload, request.payload_crc32c()));
    const Slice digests = Contiguous(call.payload);
    QUIRE_ASSIGN_OR_RETURN(const bool existed,
                           deps_.store->PutRepresentatives(call.tenant, key, digests.bytes));
    reply->set_existed(existed);
    return OkStatus();
  }

  Status Stat(const Call& call, const v1::StatRequest& request, v1::StatReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(const ReadableContext context, Resolve(call, request.context()));
    const ContextViewPtr view = context.view();
    QUIRE_ASSIGN_OR_RETURN(const ChainStat stat, StatContext(*deps_.store, call.tenant, *view));
    wire::ContextInfoToProto(InfoOf(*view), reply->mutable_context());
    reply->set_bytes(stat.bytes);
    reply->set_segments_in_dram(stat.segments_in_dram);
    reply->set_segments_on_ssd(stat.segments_on_ssd);
    reply->set_segments_lost(stat.segments_lost);
    if (request.context().has_document()) {
      QUIRE_ASSIGN_OR_RETURN(const auto name,
                             wire::DocumentNameFromProto(request.context().document()));
      QUIRE_ASSIGN_OR_RETURN(const Document document, deps_.registry->Get(call.tenant, name));
      reply->set_expires_unix_micros(document.expires_unix_micros);
    }
    return OkStatus();
  }

  Status ReadTokens(const Call& call, const v1::ReadTokensRequest& request,
                    v1::ReadTokensReply* reply) const {
    if (request.num_tokens() == 0 || request.num_tokens() > wire::kMaxTokensRead) {
      return InvalidArgument("num_tokens is ", request.num_tokens(), ": must be 1..",
                             wire::kMaxTokensRead);
    }
    QUIRE_ASSIGN_OR_RETURN(const ReadableContext context, Resolve(call, request.context()));
    const ContextViewPtr view = context.view();
    const uint64_t stored = NumStoredTokens(*view);
    if (request.first_token() > stored) {
      return InvalidArgument("first_token is ", request.first_token(), ", past the ", stored,
                             " stored tokens of the context");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                           StoredTokens(*deps_.store, call.tenant, *view, request.first_token(),
                                        request.num_tokens()));
    reply->mutable_tokens()->Add(tokens.begin(), tokens.end());
    reply->set_stored_tokens(stored);
    return OkStatus();
  }

  Status Delete(const Call& call, const v1::DeleteRequest& request, v1::DeleteReply* reply) const {
    QUIRE_ASSIGN_OR_RETURN(
        const auto keys,
        wire::KeysFromProto(request.segment_keys(), wire::kMaxDeleteKeys, "segment_keys"));
    if (keys.empty()) return InvalidArgument("segment_keys is empty: name 1..65536 segments");
    QUIRE_ASSIGN_OR_RETURN(const uint32_t deleted,
                           DeleteSegments(*deps_.registry, call.tenant, keys));
    reply->set_num_deleted(deleted);
    return OkStatus();
  }

 private:
  StatusOr<Durability> DurabilityFromProto(v1::Durability durability) const {
    switch (static_cast<int>(durability)) {
      case v1::DURABILITY_UNSPECIFIED:
        return deps_.default_durability;
      case v1::DURABILITY_MEMORY:
        return Durability::kMemory;
      case v1::DURABILITY_REPLICATED:
        if (deps_.place.keeps_replicas()) return deps_.default_durability;
        return Unimplemented(
            "durability replicated: this server has no replicas; ask for memory or persisted");
      case v1::DURABILITY_PERSISTED:
        return Durability::kPersisted;
    }
    return InvalidArgument("durability is ", static_cast<int>(durability), ": must be 0..3");
  }

  /// Has other nodes copy a chain that was put, if that is asked for. Returns the copies, or 0.
  StatusOr<uint32_t> CopiesMade(const Call& call, v1::Durability durability,
                                const SegmentKey& tip) const {
    if (durability != v1::DURABILITY_REPLICATED) return 0;
    QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, deps_.store->ResolveChain(call.tenant, tip));
    return cluster::ReplicatedPut(deps_.place.peers, deps_.place.membership, deps_.place.node)
        .CopyCached(call.tenant, chain->keys.front(), tip, call.context.deadline);
  }

  /// Codec of puts into `collection`; the server's default when it is empty.
  StatusOr<CodecParams> CodecOf(const Call& call, const std::string& collection) const {
    if (!collection.empty()) QUIRE_RETURN_IF_ERROR(wire::CheckCollection(collection));
    return deps_.registry->CodecOf(call.tenant, collection);
  }

  StatusOr<ReadableContext> Resolve(const Call& call, const v1::ContextRef& proto) const {
    QUIRE_ASSIGN_OR_RETURN(const ContextRef ref, wire::ContextRefFromProto(proto));
    return deps_.resolver->Resolve(call.tenant, ref);
  }

  Status RecheckMismatched(const v1::FetchRequest& request, const Caller& caller,
                           const ContextView& view) const {
    if (request.mismatched().empty()) return OkStatus();
    if (static_cast<uint32_t>(request.mismatched_size()) > wire::kMaxMismatchedUnits) {
      return InvalidArgument(request.mismatched_size(), " mismatched units: at most ",
                             wire::kMaxMismatchedUnits);
    }
    std::vector<ReportedRef> units;
    for (const v1::MismatchedUnit& unit : request.mismatched()) {
      if (unit.layer() >= view.spec->num_layers || unit.head() >= view.spec->num_kv_heads ||
          unit.page() >= view.num_pages()) {
        return InvalidArgument("mismatched: the context has no unit of layer ", unit.layer(),
                               " head ", unit.head(), " page ", unit.page());
      }
      units.push_back({{unit.layer(), unit.page(), unit.head()}, unit.crc32c()});
    }
    return Recheck(*deps_.store, caller, view, units);
  }

  static StatusOr<std::vector<UnitRange>> RangesFromProto(const v1::FetchRequest& request,
                                                          const ContextView& view) {
    if (request.ranges().empty() ||
        static_cast<uint32_t>(request.ranges_size()) > wire::kMaxUnitRanges) {
      return InvalidArgument(request.ranges_size(), " ranges: must be 1..", wire::kMaxUnitRanges);
    }
    std::vector<UnitRange> ranges;
    for (const v1::UnitRange& proto : request.ranges()) {
      QUIRE_ASSIGN_OR_RETURN(UnitRange range,
                             wire::UnitRangeFromProto(proto, *view.spec, view.num_pages()));
      ranges.push_back(std::move(range));
    }
    return ranges;
  }

  const StoreAdapterDeps deps_;
};

/// Adds one method of StoreAdapters.
template <typename Request, typename Reply>
void Bind(const std::shared_ptr<const StoreAdapters>& adapters, const std::string& name,
          Status (StoreAdapters::*method)(const Call&, const Request&, Reply*) const,
          Dispatcher* dispatcher) {
  dispatcher->Add<Request, Reply>(
      "quire.v1.Store/" + name,
      [adapters, method](const Call& call, const Request& request, Reply* reply) {
        return (*adapters.*method)(call, request, reply);
      });
}

}  // namespace

void AddStoreMethods(const StoreAdapterDeps& deps, Dispatcher* dispatcher) {
  const auto adapters = std::make_shared<const StoreAdapters>(deps);
  Bind(adapters, "PutSegment", &StoreAdapters::PutSegment, dispatcher);
  Bind(adapters, "OpenContext", &StoreAdapters::OpenContext, dispatcher);
  Bind(adapters, "AppendPages", &StoreAdapters::AppendPages, dispatcher);
  Bind(adapters, "AppendLayers", &StoreAdapters::AppendLayers, dispatcher);
  Bind(adapters, "Seal", &StoreAdapters::Seal, dispatcher);
  Bind(adapters, "DropContext", &StoreAdapters::DropContext, dispatcher);
  Bind(adapters, "Lookup", &StoreAdapters::Lookup, dispatcher);
  Bind(adapters, "Fetch", &StoreAdapters::Fetch, dispatcher);
  Bind(adapters, "PutRepresentatives", &StoreAdapters::PutRepresentatives, dispatcher);
  Bind(adapters, "Stat", &StoreAdapters::Stat, dispatcher);
  Bind(adapters, "ReadTokens", &StoreAdapters::ReadTokens, dispatcher);
  Bind(adapters, "Delete", &StoreAdapters::Delete, dispatcher);
}

}  // namespace quire::kvserver
