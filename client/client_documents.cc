// SPDX-License-Identifier: Apache-2.0
//
// Client's methods of the Registry and Admin services.
#include <utility>

#include "client/caller.h"
#include "client/validate.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/registry.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kRegister = {"quire.v1.Registry/Register", Repeat::kOnlyIfRefused};
constexpr CallSpec kGet = {"quire.v1.Registry/Get", Repeat::kSafe};
constexpr CallSpec kList = {"quire.v1.Registry/List", Repeat::kSafe};
constexpr CallSpec kDeleteDocument = {"quire.v1.Registry/Delete", Repeat::kOnlyIfRefused};
constexpr CallSpec kPin = {"quire.v1.Registry/PinDocument", Repeat::kSafe};
constexpr CallSpec kUnpin = {"quire.v1.Registry/UnpinDocument", Repeat::kSafe};
constexpr CallSpec kSetCollection = {"quire.v1.Registry/SetCollection", Repeat::kSafe};
constexpr CallSpec kGetCollection = {"quire.v1.Registry/GetCollection", Repeat::kSafe};
constexpr CallSpec kListCollections = {"quire.v1.Registry/ListCollections", Repeat::kSafe};
constexpr CallSpec kStats = {"quire.v1.Admin/Stats", Repeat::kSafe};

StatusOr<Document> DocumentFromReply(std::string_view method, const v1::Document& proto) {
  auto document = wire::DocumentFromProto(proto);
  if (!document.ok()) return BadReply(method, Message(document.status()));
  if (document->name.version == 0) return BadReply(method, "a document without a version");
  return document;
}

/// A reply must be about the document that was asked for, at any version when 0 was asked.
Status CheckSame(std::string_view method, const DocumentName& asked, const DocumentName& got) {
  if (asked.collection == got.collection && asked.name == got.name &&
      (asked.version == 0 || asked.version == got.version)) {
    return OkStatus();
  }
  return BadReply(method, "it is about ", got.collection, "/", got.name, " version ", got.version);
}

StatusOr<Collection> CollectionFromReply(std::string_view method, const v1::Collection& proto) {
  const Status named = wire::CheckCollection(proto.name());
  if (!named.ok()) return BadReply(method, Message(named));
  if (proto.codec().empty()) return BadReply(method, "a collection without a codec");
  const auto ttl_seconds = wire::TtlFromProto(proto.ttl_seconds());
  if (!ttl_seconds.ok()) return BadReply(method, Message(ttl_seconds.status()));
  return Collection{.name = proto.name(),
                    .codec = proto.codec(),
                    .codec_is_default = proto.codec_is_default(),
                    .ttl_seconds = *ttl_seconds};
}

/// The collection in a reply, which must be the one that was asked for.
StatusOr<Collection> CollectionFromReply(std::string_view method, std::string_view asked,
                                         const v1::Collection& proto) {
  QUIRE_ASSIGN_OR_RETURN(Collection collection, CollectionFromReply(method, proto));
  if (collection.name == asked) return collection;
  return BadReply(method, "it is about collection ", collection.name);
}

}  // namespace

StatusOr<Document> Client::RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                            std::string_view content_hash,
                                            std::optional<uint64_t> ttl_seconds) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  QUIRE_RETURN_IF_ERROR(wire::CheckContentHash(content_hash));
  if (ttl_seconds == 0) return InvalidArgument("a time to live of 0 seconds; leave it unset");
  QUIRE_RETURN_IF_ERROR(wire::TtlFromProto(ttl_seconds.value_or(0)).status());
  v1::RegisterRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  request.set_chain_tip(wire::KeyToBytes(chain_tip));
  request.set_content_hash(std::string(content_hash));
  request.set_ttl_seconds(ttl_seconds.value_or(0));
  v1::RegisterReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kRegister, request, {}, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kRegister.method, reply.document()));
  QUIRE_RETURN_IF_ERROR(CheckSame(kRegister.method, name, document.name));
  if (document.chain_tip != chain_tip) return BadReply(kRegister.method, "it names another chain");
  return document;
}

StatusOr<Document> Client::GetDocument(const DocumentName& name, TimePoint limit) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::GetDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::GetDocumentReply reply;
  const TimePoint deadline = std::min(caller_->NewDeadline(), limit);
  QUIRE_RETURN_IF_ERROR(caller_->Call(kGet, request, {}, deadline, &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kGet.method, reply.document()));
  QUIRE_RETURN_IF_ERROR(CheckSame(kGet.method, name, document.name));
  return document;
}

StatusOr<std::vector<Document>> Client::ListDocuments(std::string_view collection) {
  if (!collection.empty()) QUIRE_RETURN_IF_ERROR(wire::CheckCollection(collection));
  const TimePoint deadline = caller_->NewDeadline();
  v1::ListDocumentsRequest request;
  request.set_collection(std::string(collection));
  request.set_page_size(wire::kMaxListPageSize);
  std::vector<Document> documents;
  while (true) {
    v1::ListDocumentsReply reply;
    QUIRE_RETURN_IF_ERROR(caller_->Call(kList, request, {}, deadline, &reply, nullptr));
    for (const v1::Document& proto : reply.documents()) {
      QUIRE_ASSIGN_OR_RETURN(documents.emplace_back(), DocumentFromReply(kList.method, proto));
    }
    if (reply.next_page_token().empty()) return documents;
    if (reply.documents().empty() || reply.next_page_token() == request.page_token()) {
      return BadReply(kList.method, "its next page is this one");  // It would never end.
    }
    request.set_page_token(reply.next_page_token());
  }
}

StatusOr<Client::DeletedDocuments> Client::DeleteDocument(const DocumentName& name,
                                                          bool keep_segments) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::DeleteDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  request.set_keep_segments(keep_segments);
  v1::DeleteDocumentReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kDeleteDocument, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return DeletedDocuments{.documents = reply.num_documents(), .segments = reply.num_segments()};
}

StatusOr<Client::PinnedDocument> Client::PinDocument(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::PinDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::PinDocumentReply reply;
  QUIRE_RETURN_IF_ERROR(caller_->Call(kPin, request, {}, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kPin.method, reply.document()));
  QUIRE_RETURN_IF_ERROR(CheckSame(kPin.method, name, document.name));
  return PinnedDocument{.document = std::move(document), .was_pinned = reply.was_pinned()};
}

StatusOr<Client::PinnedDocument> Client::UnpinDocument(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::UnpinDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::UnpinDocumentReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kUnpin, request, {}, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kUnpin.method, reply.document()));
  QUIRE_RETURN_IF_ERROR(CheckSame(kUnpin.method, name, document.name));
  return PinnedDocument{.document = std::move(document), .was_pinned = reply.was_pinned()};
}

StatusOr<Collection> Client::SetCollection(std::string_view name, const CollectionChange& change) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(name));
  QUIRE_RETURN_IF_ERROR(wire::TtlFromProto(change.ttl_seconds.value_or(0)).status());
  v1::SetCollectionRequest request;
  request.set_collection(std::string(name));
  if (change.codec) request.set_codec(*change.codec);
  if (change.ttl_seconds) request.set_ttl_seconds(*change.ttl_seconds);
  v1::SetCollectionReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kSetCollection, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return CollectionFromReply(kSetCollection.method, name, reply.collection());
}

StatusOr<Collection> Client::GetCollection(std::string_view name) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(name));
  v1::GetCollectionRequest request;
  request.set_collection(std::string(name));
  v1::GetCollectionReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kGetCollection, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return CollectionFromReply(kGetCollection.method, name, reply.collection());
}

StatusOr<std::vector<Collection>> Client::ListCollections() {
  const TimePoint deadline = caller_->NewDeadline();
  v1::ListCollectionsRequest request;
  request.set_page_size(wire::kMaxListPageSize);
  std::vector<Collection> collections;
  while (true) {
    v1::ListCollectionsReply reply;
    QUIRE_RETURN_IF_ERROR(caller_->Call(kListCollections, request, {}, deadline, &reply, nullptr));
    for (const v1::Collection& proto : reply.collections()) {
      QUIRE_ASSIGN_OR_RETURN(collections.emplace_back(),
                             CollectionFromReply(kListCollections.method, proto));
    }
    if (reply.next_page_token().empty()) return collections;
    if (reply.collections().empty() || reply.next_page_token() == request.page_token()) {
      return BadReply(kListCollections.method, "its next page is this one");
    }
    request.set_page_token(reply.next_page_token());
  }
}

StatusOr<ServerStats> Client::Stats() {
  v1::StatsReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kStats, v1::StatsRequest(), {}, caller_->NewDeadline(), &reply, nullptr));
  ServerStats stats{.version = reply.version(),
                    .uptime_seconds = reply.uptime_seconds(),
                    .counters = {},
                    .degradations = {}};
  for (const v1::CounterValue& counter : reply.counters()) {
    stats.counters.emplace_back(counter.name(), counter.value());
  }
  for (const v1::Degradation& degradation : reply.degradations()) {
    stats.degradations.push_back(
        {degradation.reason(), degradation.detail(), degradation.since_unix_micros()});
  }
  return stats;
}

}  // namespace quire
