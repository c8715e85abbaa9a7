// SPDX-License-Identifier: Apache-2.0
//
// DocumentAgreement: the seam by which the servers of a cluster agree on names of documents. It
// holds every READY version of a name, with all that is said of it, and the alias `latest`.
// Versions that are being ingested are known to their own server only. The agreement keeps their
// numbers from being given twice.
//
// Every change is made as a whole or not at all, and reads what is agreed at that moment. Each
// answer is the name after the change.
//
// Implementations: cluster/directory. Thread-safety: all methods may be called concurrently.
// Errors: UNAVAILABLE while the agreement cannot be reached. A change is unknown then: it may have
// been made, or be made a little later. Made again, it changes nothing more; only Reserve takes
// another number. DATA_LOSS naming what cannot be read. RESOURCE_EXHAUSTED when the name's versions
// do not fit.
#ifndef QUIRE_COMMON_DOCUMENTS_DOCUMENT_AGREEMENT_H_
#define QUIRE_COMMON_DOCUMENTS_DOCUMENT_AGREEMENT_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

/// A name at one revision of the agreement. Value type.
struct AgreedName {
  uint64_t latest = 0;   ///< 0: the name has no version.
  uint64_t highest = 0;  ///< Highest version that was published or reserved. 0: no such name.
  /// READY versions in ascending order. Set are: name, chain_tip, num_tokens, bytes, model,
  /// created_unix_micros, content_hash, ttl_seconds, tags, source and is_latest.
  std::vector<Document> versions = {};
  /// Revision at which it is so: the name's last change, or one at which it was not there.
  /// Revisions grow over all names. 0: it was never asked for.
  uint64_t revision = 0;

  bool exists() const { return highest > 0; }
  /// Null when the version is not agreed.
  const Document* Find(uint64_t version) const {
    for (const Document& document : versions) {
      if (document.name.version == version) return &document;
    }
    return nullptr;
  }
};

class DocumentAgreement {
 public:
  virtual ~DocumentAgreement() = default;

  /// True for a revision whose changes the agreement has lost: it was restored from a backup that
  /// is older. Costs nothing, and says what the last answers showed.
  virtual bool HasLost(uint64_t /*revision*/) const { return false; }

  /// Reads a name. `name.version` is ignored.
  virtual StatusOr<AgreedName> Read(std::string_view tenant, const DocumentName& name) = 0;
  /// Takes the next version. It is `highest` of the answer. `name.version` is ignored.
  virtual StatusOr<AgreedName> Reserve(std::string_view tenant, const DocumentName& name) = 0;
  /// Makes a version READY, and the alias when it is the highest. With `keep_latest` the alias
  /// stays where it is, if it is anywhere. Nothing changes when the version names the same chain.
  /// ALREADY_EXISTS when it names another one.
  virtual StatusOr<AgreedName> Publish(std::string_view tenant, const Document& document,
                                       bool keep_latest) = 0;
  /// Takes tags and time to live of a version from `document`. NOT_FOUND when there is no such
  /// version, or it names another chain.
  virtual StatusOr<AgreedName> Amend(std::string_view tenant, const Document& document) = 0;
  /// Moves the alias to `name.version`. NOT_FOUND when there is no such version.
  virtual StatusOr<AgreedName> MoveLatest(std::string_view tenant, const DocumentName& name) = 0;
  /// Removes versions; absent ones are no error. The alias moves to the highest that is left. A
  /// name without versions is gone with its reserved numbers. `name.version` is ignored.
  virtual StatusOr<AgreedName> Remove(std::string_view tenant, const DocumentName& name,
                                      std::span<const uint64_t> versions) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_DOCUMENT_AGREEMENT_H_
