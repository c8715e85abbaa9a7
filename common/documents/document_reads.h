// SPDX-License-Identifier: Apache-2.0
//
// Reads of documents, as a node counts them. All versions of a name count together, since they are
// placed together. Value types.
#ifndef QUIRE_COMMON_DOCUMENTS_DOCUMENT_READS_H_
#define QUIRE_COMMON_DOCUMENTS_DOCUMENT_READS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quire {

struct ReadName {
  std::string tenant;
  std::string collection;
  std::string document;
  friend auto operator<=>(const ReadName&, const ReadName&) = default;
};

/// Reads of a name since the last look.
struct DocumentReads {
  ReadName name;
  uint64_t reads = 0;
};
/// Takes the counts since its last call. Called by one thread at a time.
using TakeReads = std::function<std::vector<DocumentReads>()>;

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_DOCUMENT_READS_H_
