// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_context.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "common/base/utf8.h"
#include "common/wire/convert.h"
#include "common/wire/limits.h"
#include "quire/layout.h"

namespace quire::wire {

StatusOr<DocumentName> DocumentNameFromProto(const v1::DocumentName& proto) {
  QUIRE_RETURN_IF_ERROR(CheckCollection(proto.collection()));
  QUIRE_RETURN_IF_ERROR(CheckName(proto.name(), "name"));
  DocumentName name;
  name.collection = proto.collection();
  name.name = proto.name();
  name.version = proto.version();
  return name;
}
void DocumentNameToProto(const DocumentName& name, v1::DocumentName* proto) {
  proto->set_collection(name.collection);
  proto->set_name(name.name);
  proto->set_version(name.version);
}

StatusOr<ContextRef> ContextRefFromProto(const v1::ContextRef& proto) {
  switch (proto.target_case()) {
    case v1::ContextRef::kChainTip: {
      QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, KeyFromBytes(proto.chain_tip(), "chain_tip"));
      return ContextRef(tip);
    }
    case v1::ContextRef::kOpenContext:
      return ContextRef(proto.open_context());
    case v1::ContextRef::kDocument: {
      QUIRE_ASSIGN_OR_RETURN(DocumentName name, DocumentNameFromProto(proto.document()));
      return ContextRef(std::move(name));
    }
    case v1::ContextRef::TARGET_NOT_SET:
      break;
  }
  return InvalidArgument("context: name a chain tip, an open context or a document");
}
void ContextRefToProto(const ContextRef& ref, v1::ContextRef* proto) {
  if (const auto* tip = std::get_if<SegmentKey>(&ref)) {
    proto->set_chain_tip(KeyToBytes(*tip));
  } else if (const auto* id = std::get_if<uint64_t>(&ref)) {
    proto->set_open_context(*id);
  } else {
    DocumentNameToProto(std::get<DocumentName>(ref), proto->mutable_document());
  }
}

StatusOr<ContextInfo> ContextInfoFromProto(const v1::ContextInfo& proto) {
  ContextInfo context;
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
void ContextInfoToProto(const ContextInfoView& context, v1::ContextInfo* proto) {
  KvSpecToProto(context.spec, proto->mutable_spec());
  proto->set_num_tokens(context.num_tokens);
  proto->set_num_pages(context.num_pages);
  if (context.chain_tip != kRootKey) proto->set_chain_tip(KeyToBytes(context.chain_tip));
  KeysToProto(context.segment_keys, proto->mutable_segment_keys());
}

Status CheckConversation(std::string_view conversation) {
  if (conversation.empty()) return InvalidArgument("conversation is empty: name one");
  if (conversation.size() > kMaxConversationBytes) {
    return InvalidArgument("conversation has ", conversation.size(), " bytes; at most ",
                           kMaxConversationBytes);
  }
  const bool control =
      std::ranges::any_of(conversation, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control || FirstInvalidUtf8(conversation)) {
    return InvalidArgument("conversation must be UTF-8 without control characters");
  }
  return OkStatus();
}

Status CheckHints(const Hints& hints) {
  if (!hints.conversation.empty()) QUIRE_RETURN_IF_ERROR(CheckConversation(hints.conversation));
  if (hints.priority < KeepPriority::kLow || hints.priority > KeepPriority::kHigh) {
    return InvalidArgument("hints: priority is ", static_cast<int>(hints.priority),
                           ": must be low, normal or high");
  }
  if (hints.keep_seconds <= kMaxKeepSeconds) return OkStatus();
  return InvalidArgument("hints: keep_seconds is ", hints.keep_seconds, ": must be 0..",
                         kMaxKeepSeconds);
}

StatusOr<Hints> HintsFromProto(const v1::Hints& proto) {
  Hints hints{.conversation = proto.conversation(), .keep_seconds = proto.keep_seconds()};
  if (proto.priority() != v1::KEEP_PRIORITY_UNSPECIFIED) {
    if (!v1::KeepPriority_IsValid(proto.priority())) {
      return InvalidArgument("hints: priority is ", static_cast<int>(proto.priority()),
                             ": must be 0..3");
    }
    hints.priority = static_cast<KeepPriority>(proto.priority());
  }
  QUIRE_RETURN_IF_ERROR(CheckHints(hints));
  return hints;
}

void HintsToProto(const Hints& hints, v1::Hints* proto) {
  proto->set_conversation(hints.conversation);
  proto->set_priority(static_cast<v1::KeepPriority>(hints.priority));
  proto->set_keep_seconds(hints.keep_seconds);
}

StatusOr<UnitRange> UnitRangeFromProto(const v1::UnitRange& proto, const KvSpec& spec,
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
  UnitRange range;
  range.layer = proto.layer();
  range.pages.assign(proto.pages().begin(), proto.pages().end());
  range.heads.assign(proto.heads().begin(), proto.heads().end());
  return range;
}
void UnitRangeToProto(const UnitRange& range, v1::UnitRange* proto) {
  proto->set_layer(range.layer);
  proto->mutable_pages()->Assign(range.pages.begin(), range.pages.end());
  proto->mutable_heads()->Assign(range.heads.begin(), range.heads.end());
}

}  // namespace quire::wire
