// SPDX-License-Identifier: Apache-2.0
//
// Client's methods of the Registry and Admin services.
#include <algorithm>
#include <iterator>
#include <utility>

#include "client/caller.h"
#include "client/document_reply.h"
#include "client/slices.h"
#include "client/validate.h"
#include "common/documents/document_rules.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/registry.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kGet = {"quire.v1.Registry/Get", Repeat::kSafe};
constexpr CallSpec kList = {"quire.v1.Registry/List", Repeat::kSafe};
constexpr CallSpec kDeleteDocument = {"quire.v1.Registry/Delete", Repeat::kOnlyIfRefused};
constexpr CallSpec kPin = {"quire.v1.Registry/PinDocument", Repeat::kSafe};
constexpr CallSpec kUnpin = {"quire.v1.Registry/UnpinDocument", Repeat::kSafe};
constexpr CallSpec kUpdate = {"quire.v1.Registry/UpdateDocument", Repeat::kSafe};
constexpr CallSpec kSetLatest = {"quire.v1.Registry/SetLatest", Repeat::kSafe};
constexpr CallSpec kWarm = {"quire.v1.Registry/Warm", Repeat::kSafe};
constexpr CallSpec kInvalidate = {"quire.v1.Registry/Invalidate", Repeat::kOnlyIfRefused};
constexpr CallSpec kSetCollection = {"quire.v1.Registry/SetCollection", Repeat::kSafe};
constexpr CallSpec kGetCollection = {"quire.v1.Registry/GetCollection", Repeat::kSafe};
constexpr CallSpec kListCollections = {"quire.v1.Registry/ListCollections", Repeat::kSafe};
constexpr CallSpec kStats = {"quire.v1.Admin/Stats", Repeat::kSafe};
constexpr CallSpec kSlowCalls = {"quire.v1.Admin/SlowCalls", Repeat::kSafe};

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

StatusOr<DocumentPage> ListPage(Caller& caller, const ListOptions& options, TimePoint deadline) {
  if (!options.collection.empty()) {
    QUIRE_RETURN_IF_ERROR(wire::CheckCollection(options.collection));
  }
  v1::ListDocumentsRequest request;
  request.set_collection(options.collection);
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  request.set_filter(options.filter);
  request.set_order(options.order == DocumentOrder::kNewest ? v1::DOCUMENT_ORDER_NEWEST
                                                            : v1::DOCUMENT_ORDER_NAME);
  v1::ListDocumentsReply reply;
  QUIRE_RETURN_IF_ERROR(caller.Call(kList, request, {}, deadline, &reply, nullptr));
  DocumentPage page;
  for (const v1::Document& proto : reply.documents()) {
    QUIRE_ASSIGN_OR_RETURN(page.documents.emplace_back(), DocumentFromReply(kList.method, proto));
  }
  page.next_page_token = reply.next_page_token();
  if (!page.next_page_token.empty() && page.next_page_token == options.page_token) {
    return BadReply(kList.method, "its next page is this one");  // It would never end.
  }
  return page;
}

StatusOr<RemovedDocuments> Invalidate(Caller& caller, const v1::InvalidateRequest& request) {
  v1::InvalidateReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller.Call(kInvalidate, request, {}, caller.NewDeadline(), &reply, nullptr));
  return RemovedDocuments{.documents = reply.num_documents(), .segments = reply.num_segments()};
}

}  // namespace

StatusOr<Document> Client::GetDocument(const DocumentName& name, TimePoint limit) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::GetDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::GetDocumentReply reply;
  const TimePoint deadline = std::min(caller_->NewDeadline(), limit);
  QUIRE_RETURN_IF_ERROR(caller_->Call(kGet, request, {}, deadline, &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kGet.method, name, reply.document()));
  return document;
}

StatusOr<DocumentPage> Client::ListDocuments(const ListOptions& options) {
  return ListPage(*caller_, options, caller_->NewDeadline());
}

StatusOr<std::vector<Document>> Client::ListDocuments(std::string_view collection) {
  const TimePoint deadline = caller_->NewDeadline();
  ListOptions options{.collection = std::string(collection), .page_size = wire::kMaxListPageSize};
  std::vector<Document> documents;
  do {
    QUIRE_ASSIGN_OR_RETURN(DocumentPage page, ListPage(*caller_, options, deadline));
    documents.insert(documents.end(), std::make_move_iterator(page.documents.begin()),
                     std::make_move_iterator(page.documents.end()));
    options.page_token = std::move(page.next_page_token);
  } while (!options.page_token.empty());
  return documents;
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
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(kPin.method, name, reply.document()));
  return PinnedDocument{.document = std::move(document), .was_pinned = reply.was_pinned()};
}

StatusOr<Client::PinnedDocument> Client::UnpinDocument(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::UnpinDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::UnpinDocumentReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kUnpin, request, {}, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document,
                         DocumentFromReply(kUnpin.method, name, reply.document()));
  return PinnedDocument{.document = std::move(document), .was_pinned = reply.was_pinned()};
}

StatusOr<Document> Client::UpdateDocument(const DocumentName& name, const DocumentChange& change) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  QUIRE_RETURN_IF_ERROR(CheckTags(change.set_tags));
  QUIRE_RETURN_IF_ERROR(wire::TtlFromProto(change.ttl_seconds.value_or(0)).status());
  v1::UpdateDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  wire::TagsToProto(change.set_tags, request.mutable_set_tags());
  for (const std::string& key : change.remove_tags) request.add_remove_tags(key);
  if (change.ttl_seconds) request.set_ttl_seconds(*change.ttl_seconds);
  v1::UpdateDocumentReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kUpdate, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return DocumentFromReply(kUpdate.method, name, reply.document());
}

StatusOr<Document> Client::SetLatest(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  if (name.version == 0) return InvalidArgument("version 0 is the latest already; name a version");
  v1::SetLatestRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  v1::SetLatestReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kSetLatest, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return DocumentFromReply(kSetLatest.method, name, reply.document());
}

StatusOr<WarmProgress> Client::WarmDocument(const DocumentName& name,
                                            const WarmObserver& observer) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::WarmRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  WarmProgress progress;
  do {
    v1::WarmReply reply;
    QUIRE_RETURN_IF_ERROR(
        caller_->Call(kWarm, request, {}, caller_->NewDeadline(), &reply, nullptr));
    QUIRE_ASSIGN_OR_RETURN(progress.document,
                           DocumentFromReply(kWarm.method, name, reply.document()));
    QUIRE_RETURN_IF_ERROR(internal::TakeSlice(kWarm.method, reply, &request, &progress));
    if (observer && !observer(progress)) {
      return Status(StatusCode::kCancelled, "the caller ended the warming");
    }
    // One version from the first slice on.
    wire::DocumentNameToProto(progress.document.name, request.mutable_name());
  } while (progress.segments_done < progress.num_segments);
  return progress;
}

StatusOr<RemovedDocuments> Client::InvalidateDocument(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  v1::InvalidateRequest request;
  wire::DocumentNameToProto(name, request.mutable_document());
  return Invalidate(*caller_, request);
}

StatusOr<RemovedDocuments> Client::InvalidateSource(std::string_view source) {
  if (source.empty()) return InvalidArgument("the source is empty; name one, or a document");
  QUIRE_RETURN_IF_ERROR(CheckSource(source));
  v1::InvalidateRequest request;
  request.set_source(std::string(source));
  return Invalidate(*caller_, request);
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
  for (const v1::HistogramValue& histogram : reply.histograms()) {
    LatencyCounts counts{.buckets = {}, .sum_nanos = histogram.sum_nanos()};
    const int size = std::min(histogram.bound_nanos_size(), histogram.counts_size());
    for (int i = 0; i < size; ++i) {
      counts.buckets.push_back({histogram.bound_nanos(i), histogram.counts(i)});
    }
    stats.histograms.emplace_back(histogram.name(), std::move(counts));
  }
  for (const v1::Degradation& degradation : reply.degradations()) {
    stats.degradations.push_back(
        {degradation.reason(), degradation.detail(), degradation.since_unix_micros()});
  }
  return stats;
}

StatusOr<std::vector<SlowCall>> Client::SlowCalls(uint32_t limit) {
  v1::SlowCallsRequest request;
  request.set_limit(limit);
  v1::SlowCallsReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kSlowCalls, request, {}, caller_->NewDeadline(), &reply, nullptr));
  std::vector<SlowCall> calls;
  for (const v1::SlowCall& proto : reply.calls()) {
    const v1::CallWaits& waits = proto.waits();
    calls.push_back({.method = proto.method(),
                     .code = static_cast<StatusCode>(proto.code()),
                     .ended_unix_micros = proto.ended_unix_micros(),
                     .time = Duration(proto.nanos()),
                     .queue = Duration(waits.queue_nanos()),
                     .gate = Duration(waits.gate_nanos()),
                     .dram = Duration(waits.dram_nanos()),
                     .ssd = Duration(waits.ssd_nanos()),
                     .selection = Duration(waits.selection_nanos()),
                     .network = Duration(waits.network_nanos()),
                     .request_bytes = proto.request_bytes(),
                     .reply_bytes = proto.reply_bytes()});
  }
  return calls;
}

}  // namespace quire
