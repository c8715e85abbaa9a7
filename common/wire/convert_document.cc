// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_document.h"

#include <utility>
#include <variant>

#include "common/documents/document_rules.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"

namespace quire::wire {
namespace {

StatusOr<TagValue> TagFromProto(std::string_view key, const v1::TagValue& proto) {
  switch (proto.value_case()) {
    case v1::TagValue::kText:
      return TagValue(proto.text());
    case v1::TagValue::kInteger:
      return TagValue(int64_t{proto.integer()});
    case v1::TagValue::kNumber:
      return TagValue(proto.number());
    case v1::TagValue::kTruth:
      return TagValue(proto.truth());
    case v1::TagValue::VALUE_NOT_SET:
      break;
  }
  return InvalidArgument("tag '", key, "' has no value");
}

void TagToProto(const TagValue& value, v1::TagValue* proto) {
  if (const auto* text = std::get_if<std::string>(&value)) proto->set_text(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) proto->set_integer(*integer);
  if (const auto* number = std::get_if<double>(&value)) proto->set_number(*number);
  if (const auto* truth = std::get_if<bool>(&value)) proto->set_truth(*truth);
}

StatusOr<DocumentState> StateFromProto(v1::DocumentState state) {
  switch (state) {
    case v1::DOCUMENT_STATE_UNSPECIFIED:
    case v1::DOCUMENT_STATE_READY:
      return DocumentState::kReady;
    case v1::DOCUMENT_STATE_INGESTING:
      return DocumentState::kIngesting;
    case v1::DOCUMENT_STATE_FAILED:
      return DocumentState::kFailed;
    case v1::DOCUMENT_STATE_EXPIRED:
      return DocumentState::kExpired;
    default:
      return InvalidArgument("state ", static_cast<int>(state), " of a document is unknown");
  }
}

v1::DocumentState StateToProto(DocumentState state) {
  switch (state) {
    case DocumentState::kReady:
      return v1::DOCUMENT_STATE_READY;
    case DocumentState::kIngesting:
      return v1::DOCUMENT_STATE_INGESTING;
    case DocumentState::kFailed:
      return v1::DOCUMENT_STATE_FAILED;
    case DocumentState::kExpired:
      return v1::DOCUMENT_STATE_EXPIRED;
  }
  return v1::DOCUMENT_STATE_UNSPECIFIED;
}

void StatisticsToProto(const DocumentStatistics& statistics, v1::DocumentStatistics* proto) {
  proto->set_questions(statistics.questions);
  proto->set_hits(statistics.hits);
  proto->set_tokens_saved(statistics.tokens_saved);
  proto->set_bytes_served(statistics.bytes_served);
  proto->set_last_used_unix_micros(statistics.last_used_unix_micros);
}

DocumentStatistics StatisticsFromProto(const v1::DocumentStatistics& proto) {
  return {.questions = proto.questions(),
          .hits = proto.hits(),
          .tokens_saved = proto.tokens_saved(),
          .bytes_served = proto.bytes_served(),
          .last_used_unix_micros = proto.last_used_unix_micros()};
}

}  // namespace

StatusOr<Tags> TagsFromProto(const ProtoTags& proto) {
  Tags tags;
  for (const auto& [key, value] : proto) {
    QUIRE_ASSIGN_OR_RETURN(tags[key], TagFromProto(key, value));
  }
  QUIRE_RETURN_IF_ERROR(CheckTags(tags));
  return tags;
}

void TagsToProto(const Tags& tags, ProtoTags* proto) {
  for (const auto& [key, value] : tags) TagToProto(value, &(*proto)[key]);
}

StatusOr<Document> DocumentFromProto(const v1::Document& proto) {
  Document document;
  QUIRE_ASSIGN_OR_RETURN(document.name, DocumentNameFromProto(proto.name()));
  QUIRE_ASSIGN_OR_RETURN(document.chain_tip, KeyFromBytes(proto.chain_tip(), "chain_tip"));
  QUIRE_RETURN_IF_ERROR(CheckContentHash(proto.content_hash()));
  document.num_tokens = proto.num_tokens();
  document.bytes = proto.bytes();
  document.model = proto.model();
  document.created_unix_micros = proto.created_unix_micros();
  document.content_hash = proto.content_hash();
  QUIRE_ASSIGN_OR_RETURN(document.ttl_seconds, TtlFromProto(proto.ttl_seconds()));
  if (proto.expires_unix_micros() < 0) {
    return InvalidArgument("expires_unix_micros is ", proto.expires_unix_micros(),
                           ": must not be negative");
  }
  document.expires_unix_micros = proto.expires_unix_micros();
  document.segments_lost = proto.segments_lost();
  QUIRE_ASSIGN_OR_RETURN(document.state, StateFromProto(proto.state()));
  document.failure = proto.failure();
  QUIRE_ASSIGN_OR_RETURN(document.tags, TagsFromProto(proto.tags()));
  QUIRE_RETURN_IF_ERROR(CheckSource(proto.source()));
  document.source = proto.source();
  document.is_latest = proto.is_latest();
  document.pinned = proto.pinned();
  document.statistics = StatisticsFromProto(proto.statistics());
  return document;
}

void DocumentToProto(const Document& document, v1::Document* proto) {
  DocumentNameToProto(document.name, proto->mutable_name());
  proto->set_chain_tip(KeyToBytes(document.chain_tip));
  proto->set_num_tokens(document.num_tokens);
  proto->set_bytes(document.bytes);
  proto->set_model(document.model);
  proto->set_created_unix_micros(document.created_unix_micros);
  proto->set_content_hash(document.content_hash);
  proto->set_ttl_seconds(document.ttl_seconds.value_or(0));
  proto->set_expires_unix_micros(document.expires_unix_micros);
  proto->set_segments_lost(document.segments_lost);
  proto->set_state(StateToProto(document.state));
  proto->set_failure(document.failure);
  TagsToProto(document.tags, proto->mutable_tags());
  proto->set_source(document.source);
  proto->set_is_latest(document.is_latest);
  proto->set_pinned(document.pinned);
  if (document.statistics != DocumentStatistics()) {
    StatisticsToProto(document.statistics, proto->mutable_statistics());
  }
}

StatusOr<DocumentEvent> EventFromProto(const v1::DocumentEvent& proto) {
  DocumentEvent event;
  QUIRE_ASSIGN_OR_RETURN(event.document, DocumentNameFromProto(proto.document()));
  if (proto.position() == 0) return InvalidArgument("an event has no position");
  event.position = proto.position();
  event.time_unix_micros = proto.time_unix_micros();
  event.kind = static_cast<DocumentEventKind>(proto.kind());
  if (Name(event.kind).empty()) {
    return InvalidArgument("kind ", static_cast<int>(proto.kind()), " of an event is unknown");
  }
  event.detail = proto.detail();
  return event;
}

void EventToProto(const DocumentEvent& event, v1::DocumentEvent* proto) {
  DocumentNameToProto(event.document, proto->mutable_document());
  proto->set_position(event.position);
  proto->set_time_unix_micros(event.time_unix_micros);
  proto->set_kind(static_cast<v1::DocumentEventKind>(event.kind));
  proto->set_detail(event.detail);
}

StatusOr<Extra> ExtraFromProto(const v1::Extra& proto) {
  QUIRE_RETURN_IF_ERROR(CheckExtraName(proto.name()));
  if (proto.version() == 0 || proto.size() > kMaxExtraBytes) {
    return InvalidArgument("extra '", proto.name(), "' has version ", proto.version(), " and ",
                           proto.size(), " bytes");
  }
  return Extra{.name = proto.name(),
               .version = proto.version(),
               .size = proto.size(),
               .crc32c = proto.crc32c(),
               .created_unix_micros = proto.created_unix_micros(),
               .num_segments = proto.num_segments()};
}

void ExtraToProto(const Extra& extra, v1::Extra* proto) {
  proto->set_name(extra.name);
  proto->set_version(extra.version);
  proto->set_size(extra.size);
  proto->set_crc32c(extra.crc32c);
  proto->set_created_unix_micros(extra.created_unix_micros);
  proto->set_num_segments(extra.num_segments);
}

}  // namespace quire::wire
