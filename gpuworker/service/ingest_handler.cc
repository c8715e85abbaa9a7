// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/ingest_handler.h"

#include <utility>

#include "common/base/utf8.h"
#include "common/documents/document_rules.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "common/wire/message.h"
#include "gpuworker/ingest/document_hash.h"
#include "gpuworker/service/call_tenant.h"

namespace quire::worker {
namespace {

Status Ended() {
  return MakeStatus(StatusCode::kCancelled, "the caller left, or sent nothing for too long");
}

/// Hashes name the text, so a caller that breaks its word gets no document.
Status CheckText(std::string_view text, const v1::IngestHeader& header) {
  if (text.size() != header.text_bytes()) {
    return InvalidArgument("the text has ", text.size(), " bytes; the header says ",
                           header.text_bytes());
  }
  if (HashText(text) != header.text_hash()) return InvalidArgument("the text has another hash");
  if (const auto wrong = FirstInvalidUtf8(text)) {
    return InvalidArgument("the text is not UTF-8 at byte ", *wrong);
  }
  return OkStatus();
}

v1::IngestReply ProgressReply(const IngestProgress& progress) {
  v1::IngestReply reply;
  reply.mutable_progress()->set_done_tokens(progress.done_tokens);
  reply.mutable_progress()->set_reused_tokens(progress.reused_tokens);
  reply.mutable_progress()->set_total_tokens(progress.total_tokens);
  return reply;
}

v1::IngestReply ResultReply(const std::vector<IngestedDocument>& documents) {
  v1::IngestReply reply;
  for (const IngestedDocument& document : documents) {
    v1::IngestedDocument* const part = reply.mutable_result()->add_documents();
    wire::DocumentToProto(document.document, part->mutable_document());
    part->set_unchanged(document.unchanged);
    part->set_reused_tokens(document.reused_tokens);
    part->set_bytes_sent(document.bytes_sent);
    part->set_warning(document.warning);
  }
  return reply;
}

}  // namespace

StatusOr<DocumentToIngest> ParseIngest(const v1::IngestHeader& header) {
  DocumentToIngest what;
  QUIRE_ASSIGN_OR_RETURN(what.name, wire::DocumentNameFromProto(header.document()));
  if (what.name.version != 0)
    return InvalidArgument("an ingest takes the next version: leave it 0");
  if (header.text_hash().size() != wire::kContentHashBytes) {
    return InvalidArgument("text_hash has ", header.text_hash().size(), " bytes: must be ",
                           wire::kContentHashBytes);
  }
  if (header.text_bytes() == 0 || header.text_bytes() > kMaxIngestTextBytes) {
    return InvalidArgument("text_bytes is ", header.text_bytes(), ": must be 1..",
                           kMaxIngestTextBytes);
  }
  if (header.reader().size() > kMaxReaderBytes) {
    return InvalidArgument("reader has ", header.reader().size(), " bytes: must be at most ",
                           kMaxReaderBytes);
  }
  QUIRE_RETURN_IF_ERROR(CheckSource(header.source()));
  QUIRE_ASSIGN_OR_RETURN(what.tags, wire::TagsFromProto(header.tags()));
  QUIRE_ASSIGN_OR_RETURN(what.ttl_seconds, wire::TtlFromProto(header.ttl_seconds()));
  what.text_hash = header.text_hash();
  what.reader = header.reader();
  what.source = header.source();
  what.split = header.split();
  return what;
}

Status IngestHandler::Read(grpc::ServerContext* context, Stream* stream,
                           v1::IngestRequest* request) const {
  calls_->Answering(context, 0);  // Bounds the wait, as for an answer that is not read.
  if (!stream->Read(request)) return Ended();
  calls_->Taken(context);
  return OkStatus();
}

Status IngestHandler::Write(grpc::ServerContext* context, Stream* stream,
                            const v1::IngestReply& reply) const {
  QUIRE_RETURN_IF_ERROR(wire::CheckText(reply));
  calls_->Answering(context, reply.ByteSizeLong());
  if (!stream->Write(reply)) return Ended();
  calls_->Taken(context);
  return OkStatus();
}

StatusOr<std::string> IngestHandler::ReadText(grpc::ServerContext* context, Stream* stream,
                                              const v1::IngestHeader& header) const {
  v1::IngestReply wanted;
  wanted.mutable_wanted();
  QUIRE_RETURN_IF_ERROR(Write(context, stream, wanted));
  std::string text;
  while (text.size() < header.text_bytes()) {
    v1::IngestRequest request;
    QUIRE_RETURN_IF_ERROR(Read(context, stream, &request));
    if (request.text().empty()) return InvalidArgument("a piece of the text is empty");
    text += request.text();
  }
  QUIRE_RETURN_IF_ERROR(CheckText(text, header));
  return text;
}

StatusOr<std::vector<IngestedDocument>> IngestHandler::Store(grpc::ServerContext* context,
                                                             Stream* stream,
                                                             const v1::IngestHeader& header,
                                                             const DocumentToIngest& what) const {
  QUIRE_ASSIGN_OR_RETURN(auto unchanged, ingest_.FindUnchanged(what));
  if (!unchanged.empty()) return unchanged;
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadText(context, stream, header));
  return ingest_.Store(what, text, [&](const IngestProgress& progress) {
    return !context->IsCancelled() && Write(context, stream, ProgressReply(progress)).ok();
  });
}

Status IngestHandler::Run(grpc::ServerContext* context, Stream* stream) const {
  v1::IngestRequest request;
  QUIRE_RETURN_IF_ERROR(Read(context, stream, &request));
  const v1::IngestHeader& header = request.header();
  QUIRE_RETURN_IF_ERROR(CheckCallTenant(header.tenant(), tenant_));
  QUIRE_ASSIGN_OR_RETURN(const DocumentToIngest what, ParseIngest(header));
  QUIRE_ASSIGN_OR_RETURN(const auto documents, Store(context, stream, header, what));
  return Write(context, stream, ResultReply(documents));
}

}  // namespace quire::worker
