// SPDX-License-Identifier: Apache-2.0
//
// Conversions of documents, their tags, events and extras. Checks and errors as in convert.h.
#ifndef QUIRE_COMMON_WIRE_CONVERT_DOCUMENT_H_
#define QUIRE_COMMON_WIRE_CONVERT_DOCUMENT_H_

#include <string>
#include <string_view>

#include "google/protobuf/map.h"
#include "quire/document_events.h"
#include "quire/documents.h"
#include "quire/status.h"
#include "quire/v1/registry.pb.h"

namespace quire::wire {

using ProtoTags = google::protobuf::Map<std::string, v1::TagValue>;

[[nodiscard]] StatusOr<Tags> TagsFromProto(const ProtoTags& proto);
void TagsToProto(const Tags& tags, ProtoTags* proto);

[[nodiscard]] StatusOr<Document> DocumentFromProto(const v1::Document& proto);
void DocumentToProto(const Document& document, v1::Document* proto);

[[nodiscard]] StatusOr<DocumentEvent> EventFromProto(const v1::DocumentEvent& proto);
void EventToProto(const DocumentEvent& event, v1::DocumentEvent* proto);

[[nodiscard]] StatusOr<Extra> ExtraFromProto(const v1::Extra& proto);
void ExtraToProto(const Extra& extra, v1::Extra* proto);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_DOCUMENT_H_
