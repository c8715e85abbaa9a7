// SPDX-License-Identifier: Apache-2.0
//
// LookUp: what a question needs to know of stored documents before it reads any page. The calls for
// one document follow one another; documents are looked up side by side, so that ten of them take
// about as long as one.
//
// Ownership: what `parts` names outlives the call. Thread-safety: pure function over a thread-safe
// client.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_LOOKUP_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_LOOKUP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuworker/context/samkv/samkv_selection.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/reuse_costs.h"
#include "quire/contexts.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::worker {

/// Which of a document's statistics to read.
enum class WantedStatistics : uint8_t {
  kNone,
  kSelection,        ///< Those of SamKV.
  kRepresentatives,  ///< Those and InfLLM's representative keys.
};

struct FoundDocument {
  DocumentName name;  ///< With its version.
  ContextRef context = {};
  SourceTier tier = SourceTier::kDram;  ///< The slowest tier of its pages.
  std::vector<TokenId> tokens = {};
  /// Empty when none are wanted, or none that fit are stored.
  std::optional<DocumentStatistics> statistics = {};
};

/// "collection/name", and "@version" where there is one.
std::string Label(const DocumentName& name);

/// One entry for each name. NOT_FOUND for a document that is not stored; INVALID_ARGUMENT for one
/// of another model or KvSpec. Errors name the document.
std::vector<StatusOr<FoundDocument>> LookUp(const EngineParts& parts,
                                            std::span<const DocumentName> names,
                                            WantedStatistics statistics);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_LOOKUP_H_
