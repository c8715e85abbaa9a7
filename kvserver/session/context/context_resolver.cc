// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/context_resolver.h"

#include <utility>

namespace quire::kvserver {

StatusOr<ReadableContext> ContextResolver::Resolve(std::string_view tenant, const ContextRef& ref) {
  SegmentKey tip;
  std::optional<DocumentName> named;
  if (const auto* id = std::get_if<uint64_t>(&ref)) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<OpenContext> open, contexts_->Find(tenant, *id));
    ReadableContext context(std::move(open));
    if (context.holds()) return context;
    tip = context.view()->chain_tip();
  } else if (const auto* name = std::get_if<DocumentName>(&ref)) {
    QUIRE_ASSIGN_OR_RETURN(const Document document, registry_->Get(tenant, *name));
    tip = document.chain_tip;
    named = document.name;
  } else {
    tip = std::get<SegmentKey>(ref);
  }
  QUIRE_ASSIGN_OR_RETURN(HeldChain held, store_->HoldChain(tenant, tip));
  ReadableContext context(ViewOfChain(held.chain, std::move(held.hold), std::move(held.written_as)),
                          named);
  if (named && reads_ != nullptr) context.CountBy(reads_->Of(tenant, *named));
  return context;
}

StatusOr<ReadableContext> ContextResolver::Open(std::string_view tenant, const ContextRef& ref) {
  QUIRE_ASSIGN_OR_RETURN(ReadableContext context, Resolve(tenant, ref));
  if (!context.document()) return context;
  registry_->NoteOpened(tenant, *context.document(), context.view()->num_tokens);
  context.NoteRead();
  return context;
}

}  // namespace quire::kvserver
