// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replicated_put.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/adapters.h"
#include "kvserver/service/adapters/registry_parts.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

static_assert(wire::kMaxTtlSeconds == kMaxTtlSeconds);

constexpr uint64_t kWarmSlice = uint64_t{64} << 20;

/// Page size of a listing, checked together with its token.
template <typename ListRequest>
StatusOr<uint32_t> PageSize(const ListRequest& request) {
  const uint32_t page_size =
      request.page_size() == 0 ? wire::kDefaultListPageSize : request.page_size();
  if (page_size <= wire::kMaxListPageSize &&
      request.page_token().size() <= wire::kMaxPageTokenBytes) {
    return page_size;
  }
  return InvalidArgument("page_size is ", page_size, ": must be 1..", wire::kMaxListPageSize,
                         "; page_token is one that a reply gave");
}

StatusOr<DocumentRegistry::Order> OrderFromProto(v1::DocumentOrder order) {
  if (order == v1::DOCUMENT_ORDER_NAME) return DocumentRegistry::Order::kName;
  if (order == v1::DOCUMENT_ORDER_NEWEST) return DocumentRegistry::Order::kNewest;
  return InvalidArgument("order ", static_cast<int>(order), " is unknown");
}

void CollectionToProto(const CollectionState& collection, v1::Collection* proto) {
  proto->set_name(collection.name);
  proto->set_codec(Name(collection.codec));
  proto->set_codec_is_default(collection.codec_is_default);
  proto->set_ttl_seconds(collection.ttl_seconds.value_or(0));
}

StatusOr<SettingsChange> ChangeFromProto(const v1::SetCollectionRequest& request) {
  if (!request.has_codec() && !request.has_ttl_seconds()) {
    return InvalidArgument("nothing is set: give a codec, a ttl_seconds, or both");
  }
  SettingsChange change;
  if (request.has_codec()) change.codec.emplace();
  if (!request.codec().empty()) {
    QUIRE_ASSIGN_OR_RETURN(change.codec, CodecByName(request.codec()));
  }
  if (request.has_ttl_seconds()) {
    QUIRE_ASSIGN_OR_RETURN(change.ttl_seconds, wire::TtlFromProto(request.ttl_seconds()));
  }
  return change;
}

/// True when the owners of the document have copies before it is acknowledged.
StatusOr<bool> WantsReplicas(const ClusterPlace& place, v1::Durability durability) {
  if (durability == v1::DURABILITY_UNSPECIFIED) {
    return place.keeps_replicas() && place.membership->View()->settings.replicas > 1;
  }
  if (durability != v1::DURABILITY_REPLICATED) return false;
  if (place.keeps_replicas()) return true;
  return Unimplemented("durability replicated: this server keeps no replicas; leave it away");
}

StatusOr<DocumentRegistry::RegisterResult> RegisterRows(
    DocumentRegistry& registry, const Call& call, const DocumentName& name,
    const DocumentRegistry::Registration& registration) {
  const WaitTimer waiting(call.waits, WaitedFor::kSsd);
  return registry.Register(call.tenant, name, registration);
}

Status Register(DocumentRegistry& registry, ContextTable& contexts, const ClusterPlace& place,
                const Call& call, const v1::RegisterRequest& request, v1::RegisterReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  // The placement may have changed since an ingest began here.
  if (request.ingest_id() == 0) {
    QUIRE_RETURN_IF_ERROR(CheckMayName(place, registry, call.tenant, name));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto tip, wire::KeyFromBytes(request.chain_tip(), "chain_tip"));
  QUIRE_RETURN_IF_ERROR(wire::CheckContentHash(request.content_hash()));
  DocumentRegistry::Registration registration{.chain_tip = tip,
                                              .content_hash = request.content_hash(),
                                              .source = request.source(),
                                              .keep_latest = request.keep_latest(),
                                              .ingest_id = request.ingest_id()};
  QUIRE_ASSIGN_OR_RETURN(registration.ttl_seconds, wire::TtlFromProto(request.ttl_seconds()));
  QUIRE_ASSIGN_OR_RETURN(registration.tags, wire::TagsFromProto(request.tags()));
  QUIRE_ASSIGN_OR_RETURN(const bool replicated, WantsReplicas(place, request.durability()));
  cluster::ReplicatedPut copies(place.peers, place.membership, place.node);
  std::vector<cluster::Member> copied;
  if (replicated) {
    QUIRE_ASSIGN_OR_RETURN(copied, copies.Prepare(call.tenant, name, tip, call.context.deadline));
    // A version that is agreed now would be one that the client never hears of.
    if (SystemClock().Now() >= call.context.deadline) {
      return DeadlineExceeded("the time is over before the copies of ", name.name, " are made");
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const auto result, RegisterRows(registry, call, name, registration));
  // The document keeps the segments from now on.
  contexts.Named(call.tenant, request.context_id(), tip);
  wire::DocumentToProto(result.document, reply->mutable_document());
  reply->set_existed(result.existed);
  if (!replicated) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const uint32_t num_copies, copies.Adopt(call.tenant, result.document.name,
                                                                 copied, call.context.deadline));
  reply->set_copies(num_copies);
  return OkStatus();
}

Status Get(DocumentRegistry& registry, const Call& call, const v1::GetDocumentRequest& request,
           v1::GetDocumentReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_ASSIGN_OR_RETURN(const Document document, registry.Get(call.tenant, name));
  wire::DocumentToProto(document, reply->mutable_document());
  return OkStatus();
}

Status List(DocumentRegistry& registry, const Call& call, const v1::ListDocumentsRequest& request,
            v1::ListDocumentsReply* reply) {
  if (!request.collection().empty()) {
    QUIRE_RETURN_IF_ERROR(wire::CheckCollection(request.collection()));
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t page_size, PageSize(request));
  QUIRE_ASSIGN_OR_RETURN(const auto order, OrderFromProto(request.order()));
  QUIRE_ASSIGN_OR_RETURN(const auto result,
                         registry.List(call.tenant, {.collection = request.collection(),
                                                     .filter = request.filter(),
                                                     .order = order,
                                                     .page_size = page_size,
                                                     .page_token = request.page_token()}));
  for (const Document& document : result.documents) {
    wire::DocumentToProto(document, reply->add_documents());
  }
  reply->set_next_page_token(result.next_page_token);
  return OkStatus();
}

Status Delete(DocumentRegistry& registry, const Call& call,
              const v1::DeleteDocumentRequest& request, v1::DeleteDocumentReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_ASSIGN_OR_RETURN(const auto result,
                         registry.Delete(call.tenant, name, request.keep_segments()));
  reply->set_num_documents(result.num_documents);
  reply->set_num_segments(result.num_segments);
  return OkStatus();
}

Status PinDocument(DocumentRegistry& registry, const Call& call,
                   const v1::PinDocumentRequest& request, v1::PinDocumentReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_ASSIGN_OR_RETURN(const auto result, registry.Pin(call.tenant, name));
  wire::DocumentToProto(result.document, reply->mutable_document());
  reply->set_was_pinned(result.was_pinned);
  return OkStatus();
}

Status UnpinDocument(DocumentRegistry& registry, const Call& call,
                     const v1::UnpinDocumentRequest& request, v1::UnpinDocumentReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_ASSIGN_OR_RETURN(const auto result, registry.Unpin(call.tenant, name));
  wire::DocumentToProto(result.document, reply->mutable_document());
  reply->set_was_pinned(result.was_pinned);
  return OkStatus();
}

Status SetCollection(DocumentRegistry& registry, const Call& call,
                     const v1::SetCollectionRequest& request, v1::SetCollectionReply* reply) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(request.collection()));
  QUIRE_ASSIGN_OR_RETURN(const SettingsChange change, ChangeFromProto(request));
  QUIRE_ASSIGN_OR_RETURN(const CollectionState collection,
                         registry.SetCollection(call.tenant, request.collection(), change));
  CollectionToProto(collection, reply->mutable_collection());
  return OkStatus();
}

Status GetCollection(DocumentRegistry& registry, const Call& call,
                     const v1::GetCollectionRequest& request, v1::GetCollectionReply* reply) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(request.collection()));
  QUIRE_ASSIGN_OR_RETURN(const CollectionState collection,
                         registry.GetCollection(call.tenant, request.collection()));
  CollectionToProto(collection, reply->mutable_collection());
  return OkStatus();
}

Status ListCollections(DocumentRegistry& registry, const Call& call,
                       const v1::ListCollectionsRequest& request, v1::ListCollectionsReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t page_size, PageSize(request));
  QUIRE_ASSIGN_OR_RETURN(const auto result,
                         registry.ListCollections(call.tenant, page_size, request.page_token()));
  for (const CollectionState& collection : result.collections) {
    CollectionToProto(collection, reply->add_collections());
  }
  reply->set_next_page_token(result.next_page_token);
  return OkStatus();
}

Status UpdateDocument(DocumentRegistry& registry, const Call& call,
                      const v1::UpdateDocumentRequest& request, v1::UpdateDocumentReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  DocumentRegistry::Change change;
  QUIRE_ASSIGN_OR_RETURN(change.set_tags, wire::TagsFromProto(request.set_tags()));
  change.remove_tags.assign(request.remove_tags().begin(), request.remove_tags().end());
  if (request.has_ttl_seconds()) {
    QUIRE_ASSIGN_OR_RETURN(change.ttl_seconds, wire::TtlFromProto(request.ttl_seconds()));
  }
  QUIRE_ASSIGN_OR_RETURN(const Document document, registry.Update(call.tenant, name, change));
  wire::DocumentToProto(document, reply->mutable_document());
  return OkStatus();
}

Status SetLatest(DocumentRegistry& registry, const Call& call, const v1::SetLatestRequest& request,
                 v1::SetLatestReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  if (name.version == 0) return InvalidArgument("version 0 is the latest already; name a version");
  QUIRE_ASSIGN_OR_RETURN(const Document document, registry.SetLatest(call.tenant, name));
  wire::DocumentToProto(document, reply->mutable_document());
  return OkStatus();
}

StatusOr<DocumentRegistry::DeleteResult> Invalidate(DocumentRegistry& registry, const Call& call,
                                                    const v1::InvalidateRequest& request) {
  switch (request.target_case()) {
    case v1::InvalidateRequest::kDocument: {
      QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.document()));
      return registry.Invalidate(call.tenant, name);
    }
    case v1::InvalidateRequest::kSource:
      return registry.InvalidateSource(call.tenant, request.source());
    default:
      return InvalidArgument("nothing is named: give a document or a source");
  }
}

Status Invalidate(DocumentRegistry& registry, const Call& call,
                  const v1::InvalidateRequest& request, v1::InvalidateReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto result, Invalidate(registry, call, request));
  reply->set_num_documents(result.num_documents);
  reply->set_num_segments(result.num_segments);
  return OkStatus();
}

Status Warm(DocumentRegistry& registry, const Call& call, const v1::WarmRequest& request,
            v1::WarmReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  const uint64_t max_bytes = request.max_bytes() == 0 ? kWarmSlice : request.max_bytes();
  QUIRE_ASSIGN_OR_RETURN(const auto result,
                         registry.Warm(call.tenant, name, request.first_segment(), max_bytes));
  wire::DocumentToProto(result.document, reply->mutable_document());
  reply->set_next_segment(result.next_segment);
  reply->set_num_segments(result.num_segments);
  reply->set_bytes(result.bytes);
  reply->set_segments_not_fitting(result.not_fitting);
  reply->set_segments_in_dram(result.in_dram);
  return OkStatus();
}

template <typename Request, typename Reply>
void Bind(DocumentRegistry* registry, const std::string& name,
          Status (*method)(DocumentRegistry&, const Call&, const Request&, Reply*),
          Dispatcher* dispatcher) {
  dispatcher->Add<Request, Reply>(
      "quire.v1.Registry/" + name,
      [registry, method](const Call& call, const Request& request, Reply* reply) {
        const WaitTimer waiting(call.waits, WaitedFor::kSsd);
        return method(*registry, call, request, reply);
      });
}

}  // namespace

Status CheckMayName(const ClusterPlace& place, DocumentRegistry& registry, std::string_view tenant,
                    const DocumentName& name) {
  if (place.membership == nullptr) return OkStatus();
  DocumentName latest = name;
  latest.version = 0;
  const Status held = registry.Get(tenant, latest).status();
  // FAILED_PRECONDITION: other nodes have the latest version.
  if (IsNotFound(held) || IsFailedPrecondition(held)) return CheckTakes(place, tenant, name);
  // A damaged version is held, too, and a put mends it.
  return IsDataLoss(held) ? OkStatus() : held;
}

void AddRegistryMethods(DocumentRegistry* registry, ContextTable* contexts,
                        const ClusterPlace& place, Dispatcher* dispatcher) {
  dispatcher->Add<v1::RegisterRequest, v1::RegisterReply>(
      "quire.v1.Registry/Register",
      [registry, contexts, place](const Call& call, const v1::RegisterRequest& request,
                                  v1::RegisterReply* reply) {
        return Register(*registry, *contexts, place, call, request, reply);
      });
  Bind(registry, "Get", &Get, dispatcher);
  Bind(registry, "List", &List, dispatcher);
  Bind(registry, "Delete", &Delete, dispatcher);
  Bind(registry, "PinDocument", &PinDocument, dispatcher);
  Bind(registry, "UnpinDocument", &UnpinDocument, dispatcher);
  Bind(registry, "UpdateDocument", &UpdateDocument, dispatcher);
  Bind(registry, "SetLatest", &SetLatest, dispatcher);
  Bind<v1::InvalidateRequest, v1::InvalidateReply>(registry, "Invalidate", &Invalidate, dispatcher);
  Bind(registry, "Warm", &Warm, dispatcher);
  Bind(registry, "SetCollection", &SetCollection, dispatcher);
  Bind(registry, "GetCollection", &GetCollection, dispatcher);
  Bind(registry, "ListCollections", &ListCollections, dispatcher);
  AddIngestMethods(registry, place, dispatcher);
  AddWatchMethods(registry, dispatcher);
  AddExtraMethods(registry, place, dispatcher);
}

}  // namespace quire::kvserver
