// SPDX-License-Identifier: Apache-2.0
//
// TokenObserver: a policy's view of the tokens of its sequence. A policy that selects before the
// model has run has one (RetrievalPolicy::token_observer). It is told of every token once, in
// order: those of a document when the sequence opens, then the tokens of each pass before the pass.
// Nothing is computed in these calls; errors are those of Select.
//
// Thread-safety: none; it belongs to the thread of its policy.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_TOKEN_OBSERVER_H_
#define QUIRE_GPUWORKER_RETRIEVAL_TOKEN_OBSERVER_H_

#include <span>

#include "quire/key.h"

namespace quire::worker {

class TokenObserver {
 public:
  virtual ~TokenObserver() = default;
  /// The tokens of the next pass.
  virtual void OnTokens(std::span<const TokenId> tokens) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_TOKEN_OBSERVER_H_
