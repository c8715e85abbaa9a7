// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: the step from the first layout of rows, which had no order of creation and
// no alias of the latest version. It can be interrupted and begun again. Every row that it adds
// follows from those that are there.
#include <utility>

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"

namespace quire::kvserver {
namespace {

constexpr uint64_t kLayout = 2;
constexpr size_t kUpgradeSlice = 1000;

}  // namespace

Status DocumentRegistryImpl::Upgrade() {
  const StatusOr<std::string> found = metadata_->Get(FormatKey());
  if (found.ok()) {
    const auto layout = NumberOfHex(*found);
    if (layout && *layout <= kLayout) return OkStatus();
    return FailedPrecondition("the registry's rows have another layout than ", kLayout,
                              "; start the server that wrote them, or a newer one");
  }
  if (!IsNotFound(found.status())) return found.status();
  MetadataBatch batch;
  Status applied;
  const auto apply = [&](size_t most) {
    if (!applied.ok() || batch.operations.size() <= most) return;
    applied = metadata_->Apply(batch);
    batch = {};
  };
  QUIRE_RETURN_IF_ERROR(
      ForEachEntry(*metadata_, AllDocumentsPrefix(), [&](const MetadataEntry& entry) {
        const auto key = ParseDocumentKey(entry.key);
        if (!key) return;
        const StatusOr<Document> document = DecodeDocument(key->name, entry.value);
        if (!document.ok()) return;
        batch.Put(CreatedKey(key->tenant, document->created_unix_micros, key->name), "");
        // Versions come in ascending order, so the last row that is put stays.
        batch.Put(LatestKey(key->tenant, key->name),
                  EncodeLatest({.latest = key->name.version, .highest = key->name.version}));
        apply(kUpgradeSlice);
      }));
  QUIRE_RETURN_IF_ERROR(applied);
  batch.Put(FormatKey(), HexOf(kLayout));
  return metadata_->Apply(batch);
}

}  // namespace quire::kvserver
