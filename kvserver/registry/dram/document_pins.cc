// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: documents pinned in DRAM. An entry of the metadata notes the pin. The store
// has the pins of its segments, which are taken again after a restart.
#include <algorithm>
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {
namespace {

constexpr Duration kPinRetry = std::chrono::minutes(1);

}  // namespace

Status DocumentRegistryImpl::LoadPins() {
  MutexLock lock(write_mutex_);
  return ForEachEntry(*metadata_, AllPinsPrefix(),
                      [&](const MetadataEntry& entry) QUIRE_REQUIRES(write_mutex_) {
                        const auto pinned = ParsePinKey(entry.key);
                        if (!pinned) return;
                        const std::string key = DocumentKey(pinned->tenant, pinned->name);
                        waiting_pins_.emplace(key, TimePoint::min());
                        pinned_names_.Add(key);
                        pinned_.Add();
                        pins_waiting_.Add();
                      });
}

StatusOr<DocumentRegistry::PinResult> DocumentRegistryImpl::Pin(std::string_view tenant,
                                                                const DocumentName& name) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  const std::string key = DocumentKey(tenant, document.name);
  const bool was_pinned = IsPinned(key);
  if (!pins_.contains(key)) QUIRE_RETURN_IF_ERROR(PinInDram(tenant, document));
  if (!was_pinned) {
    pinned_.Add();
    MetadataBatch batch;
    batch.Put(PinKey(tenant, document.name), "");
    const std::vector<NewEvent> events = {
        {std::string(tenant), DocumentEventKind::kPinned, document.name}};
    if (const Status noted = events_.Apply(std::move(batch), events); !noted.ok()) {
      ForgetPin(tenant, key);
      return noted;
    }
    pinned_names_.Add(key);
    document.pinned = true;
  }
  return PinResult{.document = std::move(document), .was_pinned = was_pinned};
}

StatusOr<DocumentRegistry::PinResult> DocumentRegistryImpl::Unpin(std::string_view tenant,
                                                                  const DocumentName& name) {
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  const std::string key = DocumentKey(tenant, document.name);
  const bool was_pinned = IsPinned(key);
  if (was_pinned) {
    MetadataBatch batch;
    batch.Delete(PinKey(tenant, document.name));
    const std::vector<NewEvent> events = {
        {std::string(tenant), DocumentEventKind::kUnpinned, document.name}};
    QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), events));
    ForgetPin(tenant, key);
    document.pinned = false;
  }
  return PinResult{.document = std::move(document), .was_pinned = was_pinned};
}

DocumentRegistry::RestoredPins DocumentRegistryImpl::RestorePins(TimePoint deadline) {
  RestoredPins result;
  do {
    MutexLock lock(write_mutex_);  // Held for one document: other writers get in between.
    const std::optional<std::string> due = DuePin();
    if (!due) return result;
    const Status status = RestorePin(*due);
    if (status.ok()) {
      ++result.restored;
      continue;
    }
    waiting_pins_[*due] = clock_->Now() + kPinRetry;
    ++result.failed;
    result.first_failure.Update(status);
  } while (clock_->Now() < deadline);
  return result;
}

std::optional<std::string> DocumentRegistryImpl::DuePin() {
  const TimePoint now = clock_->Now();
  const auto due = std::ranges::find_if(
      waiting_pins_, [now](const auto& waiting) { return waiting.second <= now; });
  return due == waiting_pins_.end() ? std::nullopt : std::optional(due->first);
}

Status DocumentRegistryImpl::RestorePin(const std::string& document_key) {
  const auto pinned = ParseDocumentKey(document_key);
  if (!pinned) return Internal("a pinned document has a malformed key");
  const auto restore = [&]() QUIRE_REQUIRES(write_mutex_) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Document document, ReadDocument(pinned->tenant, pinned->name));
    return PinInDram(pinned->tenant, document);
  };
  return Annotate(restore(), "pin of ", pinned->tenant, "/", Describe(pinned->name));
}

Status DocumentRegistryImpl::PinInDram(std::string_view tenant, const Document& document) {
  QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, store_->ResolveChain(tenant, document.chain_tip));
  QUIRE_RETURN_IF_ERROR(store_->PinSegments(tenant, chain->keys));
  const std::string key = DocumentKey(tenant, document.name);
  pins_.emplace(key, chain->keys);
  if (waiting_pins_.erase(key) > 0) pins_waiting_.Sub(1);
  return OkStatus();
}

void DocumentRegistryImpl::ForgetPin(std::string_view tenant, const std::string& document_key) {
  if (!IsPinned(document_key)) return;
  pinned_.Sub(1);
  pinned_names_.Remove(document_key);
  if (waiting_pins_.erase(document_key) > 0) pins_waiting_.Sub(1);
  const auto it = pins_.find(document_key);
  if (it == pins_.end()) return;
  // One by one: a segment lost meanwhile has lost its pins, but later ones have not.
  for (const SegmentKey& segment : it->second) (void)store_->UnpinSegments(tenant, {&segment, 1});
  pins_.erase(it);
}

}  // namespace quire::kvserver
