// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: documents whose segments stay in DRAM.
#include <utility>

#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_registry_impl.h"

namespace quire::kvserver {

StatusOr<DocumentRegistry::PinResult> DocumentRegistryImpl::Pin(std::string_view tenant,
                                                                const DocumentName& name) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  std::string key = DocumentKey(tenant, document.name);
  if (pins_.contains(key)) return PinResult{.document = std::move(document), .was_pinned = true};
  QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, store_->ResolveChain(tenant, document.chain_tip));
  QUIRE_RETURN_IF_ERROR(store_->PinSegments(tenant, chain->keys));
  pins_.emplace(std::move(key), chain->keys);
  pinned_.Add();
  return PinResult{.document = std::move(document), .was_pinned = false};
}

StatusOr<DocumentRegistry::PinResult> DocumentRegistryImpl::Unpin(std::string_view tenant,
                                                                  const DocumentName& name) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  const bool was_pinned = ReleasePin(tenant, document.name);
  return PinResult{.document = std::move(document), .was_pinned = was_pinned};
}

bool DocumentRegistryImpl::ReleasePin(std::string_view tenant, const DocumentName& name) {
  const auto it = pins_.find(DocumentKey(tenant, name));
  if (it == pins_.end()) return false;
  // One by one: a segment that was lost meanwhile has lost its pins, too, and those after it have
  // not.
  for (const SegmentKey& segment : it->second) (void)store_->UnpinSegments(tenant, {&segment, 1});
  pins_.erase(it);
  pinned_.Sub(1);
  return true;
}

}  // namespace quire::kvserver
