// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: changes of what is said of a document. Its content never changes.
#include <utility>

#include "common/documents/document_rules.h"
#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {

namespace {

Status ApplyTo(const DocumentRegistry::Change& change, Document* document) {
  for (const std::string& key : change.remove_tags) document->tags.erase(key);
  for (const auto& [key, value] : change.set_tags) document->tags[key] = value;
  if (change.ttl_seconds) document->ttl_seconds = *change.ttl_seconds;
  return CheckTags(document->tags);
}

}  // namespace

StatusOr<Document> DocumentRegistryImpl::UpdateAgreed(std::string_view tenant,
                                                      const DocumentName& name,
                                                      const Change& change) {
  QUIRE_RETURN_IF_ERROR(Introduce(tenant, name));
  // Another server may have changed it since the rows were aligned.
  QUIRE_RETURN_IF_ERROR(Refresh(tenant, name).status());
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  QUIRE_RETURN_IF_ERROR(ApplyTo(change, &document));
  QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, agreement_->Amend(tenant, document));
  MutexLock lock(write_mutex_);
  QUIRE_RETURN_IF_ERROR(
      AlignRows(
          tenant, document.name, agreed,
          std::vector<NewEvent>{{std::string(tenant), DocumentEventKind::kUpdated, document.name}})
          .status());
  return Get(tenant, document.name);
}

StatusOr<Document> DocumentRegistryImpl::Update(std::string_view tenant, const DocumentName& name,
                                                const Change& change) {
  if (change.set_tags.empty() && change.remove_tags.empty() && !change.ttl_seconds) {
    return InvalidArgument("nothing is set: give tags to set or to remove, or a time to live");
  }
  if (change.ttl_seconds && *change.ttl_seconds) {
    QUIRE_RETURN_IF_ERROR(CheckTtl(**change.ttl_seconds));
  }
  if (agreement_ != nullptr) return UpdateAgreed(tenant, name, change);
  MutexLock lock(write_mutex_);
  QUIRE_ASSIGN_OR_RETURN(Document document, Get(tenant, name));
  const Tags before = document.tags;
  QUIRE_RETURN_IF_ERROR(ApplyTo(change, &document));
  MetadataBatch batch;
  batch.Put(DocumentKey(tenant, document.name), EncodeDocument(document));
  const std::vector<NewEvent> events = {
      {std::string(tenant), DocumentEventKind::kUpdated, document.name}};
  QUIRE_RETURN_IF_ERROR(events_.Apply(std::move(batch), events));
  tags_.Remove(tenant, before);
  tags_.Add(tenant, document.tags);
  expiries_.Add(tenant, document);
  QUIRE_ASSIGN_OR_RETURN(document.expires_unix_micros, ExpiryOfDocument(tenant, document));
  return document;
}

}  // namespace quire::kvserver
