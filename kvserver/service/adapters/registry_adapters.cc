// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/registry.pb.h"

namespace quire::kvserver {
namespace {

static_assert(wire::kMaxTtlSeconds == kMaxTtlSeconds);

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

Status Register(DocumentRegistry& registry, ContextTable& contexts, const Call& call,
                const v1::RegisterRequest& request, v1::RegisterReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
  QUIRE_ASSIGN_OR_RETURN(const auto tip, wire::KeyFromBytes(request.chain_tip(), "chain_tip"));
  QUIRE_RETURN_IF_ERROR(wire::CheckContentHash(request.content_hash()));
  QUIRE_ASSIGN_OR_RETURN(const auto ttl_seconds, wire::TtlFromProto(request.ttl_seconds()));
  QUIRE_ASSIGN_OR_RETURN(const auto result, registry.Register(call.tenant, name, tip,
                                                              request.content_hash(), ttl_seconds));
  // The document keeps the segments from now on.
  contexts.Named(call.tenant, tip);
  wire::DocumentToProto(result.document, reply->mutable_document());
  reply->set_existed(result.existed);
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
  QUIRE_ASSIGN_OR_RETURN(const auto result, registry.List(call.tenant, request.collection(),
                                                          page_size, request.page_token()));
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

template <typename Request, typename Reply>
void Bind(DocumentRegistry* registry, const std::string& name,
          Status (*method)(DocumentRegistry&, const Call&, const Request&, Reply*),
          Dispatcher* dispatcher) {
  dispatcher->Add<Request, Reply>(
      "quire.v1.Registry/" + name,
      [registry, method](const Call& call, const Request& request, Reply* reply) {
        return method(*registry, call, request, reply);
      });
}

}  // namespace

void AddRegistryMethods(DocumentRegistry* registry, ContextTable* contexts,
                        Dispatcher* dispatcher) {
  dispatcher->Add<v1::RegisterRequest, v1::RegisterReply>(
      "quire.v1.Registry/Register",
      [registry, contexts](const Call& call, const v1::RegisterRequest& request,
                           v1::RegisterReply* reply) {
        return Register(*registry, *contexts, call, request, reply);
      });
  Bind(registry, "Get", &Get, dispatcher);
  Bind(registry, "List", &List, dispatcher);
  Bind(registry, "Delete", &Delete, dispatcher);
  Bind(registry, "PinDocument", &PinDocument, dispatcher);
  Bind(registry, "UnpinDocument", &UnpinDocument, dispatcher);
  Bind(registry, "SetCollection", &SetCollection, dispatcher);
  Bind(registry, "GetCollection", &GetCollection, dispatcher);
  Bind(registry, "ListCollections", &ListCollections, dispatcher);
}

}  // namespace quire::kvserver
