// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/context_resolver.h"

#include <utility>

namespace quire::kvserver {

std::pair<SegmentKey, uint32_t> ReadableContext::counted_chain() const {
  if (open_ == nullptr) return {sealed_->chain_tip(), sealed_->num_pages()};
  return {open_->continued().tip, open_->continued().num_pages};
}

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
  const auto [tip, num_pages] = context.counted_chain();
  if (page_uses_ != nullptr && tip != kRootKey) {
    context.CountPagesBy(page_uses_->Of(tenant, tip, num_pages));
  }
  if (!context.document()) return context;
  registry_->NoteOpened(tenant, *context.document(), context.view()->num_tokens);
  context.NoteRead();
  return context;
}

void ContextResolver::NoteQuestion(std::string_view tenant, const DocumentName& name,
                                   const ContextView& chain) {
  const StatusOr<Document> document = registry_->Get(tenant, name);
  if (!document.ok() || document->chain_tip != chain.chain_tip()) return;
  registry_->NoteOpened(tenant, document->name, chain.num_tokens);
  if (reads_ != nullptr)
    reads_->Of(tenant, document->name)->fetch_add(1, std::memory_order_relaxed);
}

StatusOr<ContextResolver::UsedPages> ContextResolver::UsesOf(std::string_view tenant,
                                                             const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const ReadableContext context, Resolve(tenant, ContextRef(name)));
  const ContextViewPtr view = context.view();
  UsedPages used{.page_tokens = view->spec->page_tokens, .uses = {}};
  if (page_uses_ != nullptr) used.uses = page_uses_->Counts(tenant, view->chain_tip());
  used.uses.resize(view->num_pages());
  return used;
}

}  // namespace quire::kvserver
