// SPDX-License-Identifier: Apache-2.0
//
// Client's methods that make documents: registration and ingests.
#include <chrono>
#include <utility>

#include "client/caller.h"
#include "client/document_reply.h"
#include "client/validate.h"
#include "common/documents/document_rules.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "quire/client.h"
#include "quire/v1/registry.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kRegister = {"quire.v1.Registry/Register", Repeat::kOnlyIfRefused};
/// The end of an ingest finds the version that an earlier attempt registered.
constexpr CallSpec kRegisterIngest = {"quire.v1.Registry/Register", Repeat::kSafe};
constexpr CallSpec kBeginIngest = {"quire.v1.Registry/BeginIngest", Repeat::kOnlyIfRefused};
constexpr CallSpec kFailIngest = {"quire.v1.Registry/FailIngest", Repeat::kSafe};

Status CheckOptions(const std::string& content_hash, const std::string& source, const Tags& tags,
                    std::optional<uint64_t> ttl_seconds) {
  QUIRE_RETURN_IF_ERROR(wire::CheckContentHash(content_hash));
  QUIRE_RETURN_IF_ERROR(CheckSource(source));
  QUIRE_RETURN_IF_ERROR(CheckTags(tags));
  if (ttl_seconds == 0) return InvalidArgument("a time to live of 0 seconds; leave it unset");
  return wire::TtlFromProto(ttl_seconds.value_or(0)).status();
}

}  // namespace

StatusOr<Document> Client::RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                            std::string_view content_hash,
                                            std::optional<uint64_t> ttl_seconds) {
  return RegisterDocument(
      name, chain_tip,
      RegisterOptions{.content_hash = std::string(content_hash), .ttl_seconds = ttl_seconds});
}

StatusOr<Document> Client::RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                            const RegisterOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  QUIRE_RETURN_IF_ERROR(
      CheckOptions(options.content_hash, options.source, options.tags, options.ttl_seconds));
  v1::RegisterRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  request.set_chain_tip(wire::KeyToBytes(chain_tip));
  request.set_content_hash(options.content_hash);
  request.set_ttl_seconds(options.ttl_seconds.value_or(0));
  request.set_source(options.source);
  wire::TagsToProto(options.tags, request.mutable_tags());
  request.set_keep_latest(options.keep_latest);
  request.set_ingest_id(options.ingest_id);
  request.set_context_id(caller_->sealed().Take(chain_tip));
  v1::RegisterReply reply;
  const CallSpec& spec = options.ingest_id != 0 ? kRegisterIngest : kRegister;
  QUIRE_RETURN_IF_ERROR(caller_->Call(spec, request, {}, caller_->NewDeadline(), &reply, nullptr));
  QUIRE_ASSIGN_OR_RETURN(Document document, DocumentFromReply(spec.method, name, reply.document()));
  if (document.chain_tip != chain_tip) return BadReply(spec.method, "it names another chain");
  return document;
}

StatusOr<Ingest> Client::BeginIngest(const DocumentName& name, const IngestOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckName(name));
  if (name.version != 0) return InvalidArgument("an ingest takes the next version; name version 0");
  QUIRE_RETURN_IF_ERROR(
      CheckOptions(options.content_hash, options.source, options.tags, options.ttl_seconds));
  v1::BeginIngestRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  request.set_content_hash(options.content_hash);
  request.set_source(options.source);
  wire::TagsToProto(options.tags, request.mutable_tags());
  request.set_ttl_seconds(options.ttl_seconds.value_or(0));
  v1::BeginIngestReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kBeginIngest, request, {}, caller_->NewDeadline(), &reply, nullptr));
  Ingest ingest;
  QUIRE_ASSIGN_OR_RETURN(ingest.document,
                         DocumentFromReply(kBeginIngest.method, name, reply.document()));
  ingest.unchanged = reply.unchanged();
  ingest.id = reply.ingest_id();
  if (ingest.unchanged == (ingest.id != 0)) {
    return BadReply(kBeginIngest.method, "it reserves nothing and says no reason");
  }
  if (ingest.id != 0) {
    ingest.lease = caller_->leases().Keep(LeaseKeeper::Kind::kIngest, ingest.id,
                                          std::chrono::seconds(reply.lease_seconds()));
  }
  return ingest;
}

StatusOr<Document> Client::FailIngest(uint64_t ingest_id, std::string_view reason) {
  v1::FailIngestRequest request;
  request.set_ingest_id(ingest_id);
  request.set_reason(std::string(reason));
  v1::FailIngestReply reply;
  QUIRE_RETURN_IF_ERROR(
      caller_->Call(kFailIngest, request, {}, caller_->NewDeadline(), &reply, nullptr));
  return DocumentFromReply(kFailIngest.method, reply.document());
}

}  // namespace quire
