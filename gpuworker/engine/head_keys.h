// SPDX-License-Identifier: Apache-2.0
//
// Keys of a retrieval head in the store. They are a chain of their own beside a document's: one
// layer, the same tokens, and keys alone. A common prefix of two documents is the same segments
// here, too. A sequence stores what it computed of whole segments. The chain is a cache: evicted
// when room is needed, and gone with the document that they were made from.
//
// A head that sees hidden states needs those of the last tokens, too, before it takes the next one.
// They are stored beside the chain, which then has all of the document, and serves no other one.
#ifndef QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_
#define QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_

#include <cstdint>
#include <functional>
#include <span>

#include "gpuworker/engine/parts.h"
#include "gpuworker/head/draft_features.h"
#include "gpuworker/head/retrieval_head.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

/// Name of the extra that ties the chain to its document.
inline constexpr char kHeadKeysExtra[] = "specontext.keys";

/// Form of the keys that `head` makes of `pages`'s model, for sequences of up to `context` tokens.
/// A page has the tokens of a page of `pages`.
KvSpec HeadKeySpec(const HeadWeights& head, const KvSpec& pages, uint64_t context);

/// A head that has no tokens yet.
struct ShownHead {
  RetrievalHead* head;
  DraftFeatures* features = nullptr;  ///< Null for a head that sees no hidden states.
  /// Runs the model on the document, for a head that sees hidden states. It has the tokens then.
  std::function<Status()> run;
};

/// Gives the head the tokens of `document`: stored keys as far as there are any, and computed ones
/// behind them, with the queries that it keeps. Stores the computed ones, which costs an error of
/// the store nothing but the next computation. Returns the payload bytes that were read. Errors are
/// those of RetrievalHead and of the run.
StatusOr<uint64_t> ShowHeadDocument(const EngineParts& parts, const DocumentName& document,
                                    std::span<const TokenId> tokens, const ShownHead& shown);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_
