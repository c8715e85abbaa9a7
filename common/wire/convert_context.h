// SPDX-License-Identifier: Apache-2.0
//
// Conversions of documents, contexts and unit ranges. Client and server have structs of their own
// for these. Each function is a template over any struct with the named fields. Checks and errors
// as in convert.h.
#ifndef QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_
#define QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/page/layout.h"
#include "common/wire/convert.h"
#include "common/wire/limits.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/store.pb.h"
#include "quire/v1/types.pb.h"

namespace quire::wire {

/// Name: collection, name, version.
template <typename Name>
StatusOr<Name> DocumentNameFromProto(const v1::DocumentName& proto) {
  QUIRE_RETURN_IF_ERROR(CheckCollection(proto.collection()));
  QUIRE_RETURN_IF_ERROR(CheckName(proto.name(), "name"));
  Name name;
  name.collection = proto.collection();
  name.name = proto.name();
  name.version = proto.version();
  return name;
}
template <typename Name>
void DocumentNameToProto(const Name& name, v1::DocumentName* proto) {
  proto->set_collection(name.collection);
  proto->set_name(name.name);
  proto->set_version(name.version);
}

/// Document: name, chain_tip, num_tokens, bytes, model, created_unix_micros, content_hash,
/// ttl_seconds (optional), expires_unix_micros.
template <typename Document>
StatusOr<Document> DocumentFromProto(const v1::Document& proto) {
  Document document;
  QUIRE_ASSIGN_OR_RETURN(document.name,
                         DocumentNameFromProto<decltype(document.name)>(proto.name()));
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
  return document;
}
template <typename Document>
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
}

/// The target of a read: a chain's last key, an open context's id, or a document.
template <typename Name>
using ContextRefOf = std::variant<SegmentKey, uint64_t, Name>;

template <typename Name>
StatusOr<ContextRefOf<Name>> ContextRefFromProto(const v1::ContextRef& proto) {
  switch (proto.target_case()) {
    case v1::ContextRef::kChainTip: {
      QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, KeyFromBytes(proto.chain_tip(), "chain_tip"));
      return ContextRefOf<Name>(tip);
    }
    case v1::ContextRef::kOpenContext:
      return ContextRefOf<Name>(proto.open_context());
    case v1::ContextRef::kDocument: {
      QUIRE_ASSIGN_OR_RETURN(Name name, DocumentNameFromProto<Name>(proto.document()));
      return ContextRefOf<Name>(std::move(name));
    }
    case v1::ContextRef::TARGET_NOT_SET:
      break;
  }
  return InvalidArgument("context: name a chain tip, an open context or a document");
}
template <typename Name>
void ContextRefToProto(const ContextRefOf<Name>& ref, v1::ContextRef* proto) {
  if (const auto* tip = std::get_if<SegmentKey>(&ref)) {
    proto->set_chain_tip(KeyToBytes(*tip));
  } else if (const auto* id = std::get_if<uint64_t>(&ref)) {
    proto->set_open_context(*id);
  } else {
    DocumentNameToProto(std::get<Name>(ref), proto->mutable_document());
  }
}

/// Context: spec, num_tokens, num_pages, segment_keys, chain_tip (kRootKey for an open context).
template <typename Context>
StatusOr<Context> ContextInfoFromProto(const v1::ContextInfo& proto) {
  Context context;
  QUIRE_ASSIGN_OR_RETURN(context.spec, KvSpecFromProto(proto.spec()));
  if (proto.num_tokens() > kMaxContextTokens) {
    return InvalidArgument("num_tokens is ", proto.num_tokens(), "; at most ", kMaxContextTokens);
  }
  if (proto.num_pages() != PageCount(context.spec, proto.num_tokens())) {
    return InvalidArgument("num_pages is ", proto.num_pages(), ", but ", proto.num_tokens(),
                           " tokens take ", PageCount(context.spec, proto.num_tokens()), " pages");
  }
  context.num_tokens = proto.num_tokens();
  context.num_pages = proto.num_pages();
  QUIRE_ASSIGN_OR_RETURN(context.chain_tip, KeyOrRootFromBytes(proto.chain_tip(), "chain_tip"));
  QUIRE_ASSIGN_OR_RETURN(
      context.segment_keys,
      KeysFromProto(proto.segment_keys(), SegmentCount(context.spec, proto.num_tokens()),
                    "segment_keys"));
  return context;
}
template <typename Context>
void ContextInfoToProto(const Context& context, v1::ContextInfo* proto) {
  KvSpecToProto(context.spec, proto->mutable_spec());
  proto->set_num_tokens(context.num_tokens);
  proto->set_num_pages(context.num_pages);
  if (context.chain_tip != kRootKey) proto->set_chain_tip(KeyToBytes(context.chain_tip));
  KeysToProto(context.segment_keys, proto->mutable_segment_keys());
}

/// Range: layer, pages, heads. Numbers are checked against `spec` and `num_pages`. Pages and heads
/// may be unordered and repeated.
template <typename Range>
StatusOr<Range> UnitRangeFromProto(const v1::UnitRange& proto, const KvSpec& spec,
                                   uint32_t num_pages) {
  if (proto.layer() >= spec.num_layers) {
    return InvalidArgument("layer ", proto.layer(), ": the model has ", spec.num_layers);
  }
  for (const uint32_t page : proto.pages()) {
    if (page >= num_pages) return InvalidArgument("page ", page, ": the context has ", num_pages);
  }
  for (const uint32_t head : proto.heads()) {
    if (head >= spec.num_kv_heads) {
      return InvalidArgument("head ", head, ": the model has ", spec.num_kv_heads, " KV heads");
    }
  }
  Range range;
  range.layer = proto.layer();
  range.pages.assign(proto.pages().begin(), proto.pages().end());
  range.heads.assign(proto.heads().begin(), proto.heads().end());
  return range;
}
template <typename Range>
void UnitRangeToProto(const Range& range, v1::UnitRange* proto) {
  proto->set_layer(range.layer);
  proto->mutable_pages()->Assign(range.pages.begin(), range.pages.end());
  proto->mutable_heads()->Assign(range.heads.begin(), range.heads.end());
}

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_
