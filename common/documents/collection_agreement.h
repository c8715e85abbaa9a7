// SPDX-License-Identifier: Apache-2.0
//
// CollectionAgreement: the seam by which the servers of a cluster agree on settings of collections.
// A collection that was ever set stays known, also when all its settings are back at the defaults.
//
// Implementation: cluster/directory. Thread-safety: all methods may be called concurrently. Errors:
// as those of DocumentAgreement.
#ifndef QUIRE_COMMON_DOCUMENTS_COLLECTION_AGREEMENT_H_
#define QUIRE_COMMON_DOCUMENTS_COLLECTION_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

/// A collection of a tenant. An empty codec is each server's default.
struct AgreedCollection {
  std::string tenant;
  Collection settings;
};

struct AgreedCollections {
  std::vector<AgreedCollection> changed;
  uint64_t revision = 0;  ///< Argument for the next call.
};

class CollectionAgreement {
 public:
  virtual ~CollectionAgreement() = default;

  /// Reads collections that changed after a revision; 0: all of them.
  virtual StatusOr<AgreedCollections> ChangedSince(uint64_t revision) = 0;
  /// Changes settings. Returns those after the change.
  virtual StatusOr<Collection> Change(std::string_view tenant, const std::string& collection,
                                      const CollectionChange& change) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_COLLECTION_AGREEMENT_H_
