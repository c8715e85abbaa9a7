// SPDX-License-Identifier: Apache-2.0
//
// Keys of a retrieval head in the store. They are a chain of their own beside a document's: one
// layer, the same tokens, and keys alone. A common prefix of two documents is the same segments
// here, too. A sequence stores what it computed of whole segments. The chain is a cache: evicted
// when room is needed, and gone with the document that they were made from.
#ifndef QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_
#define QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_

#include <cstdint>
#include <span>

#include "gpuworker/engine/parts.h"
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

/// Gives `head`, which has no tokens, those of `document`: stored keys as far as there are any, and
/// computed ones behind them, with the queries that it keeps. Stores the computed ones of whole
/// segments, which costs an error of the store nothing but the next computation. Returns the
/// payload bytes that were read. Errors are those of RetrievalHead.
StatusOr<uint64_t> ShowHeadDocument(const EngineParts& parts, const DocumentName& document,
                                    std::span<const TokenId> tokens, RetrievalHead* head);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_HEAD_KEYS_H_
