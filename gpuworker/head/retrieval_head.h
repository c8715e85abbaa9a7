// SPDX-License-Identifier: Apache-2.0
//
// RetrievalHead: what a model will attend to, before it runs (SpeContext, arXiv 2512.00722, section
// 4.3). It has a draft's embeddings and projections of queries and keys, and keeps its own keys of
// every token. It computes attention weights of a token over all of them:
//
//   x = concat(norm(embedding), norm(fc features))     q, k = rotated projections of x
//   A = softmax(q K^T / sqrt(d)), a row for each query head
//
// Selections from the weights are in head_selection.h. It computes on the processor, in float.
// Ownership: the weights outlive it. Thread-safety: none; one for each sequence.
// Errors: INVALID_ARGUMENT for a token outside the vocabulary, tokens past the context, and
// features of another size than the mode has. Nothing has been appended then.
#ifndef QUIRE_GPUWORKER_HEAD_RETRIEVAL_HEAD_H_
#define QUIRE_GPUWORKER_HEAD_RETRIEVAL_HEAD_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/head/head_weights.h"
#include "gpuworker/model/rope_table.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class RetrievalHead {
 public:
  /// For a sequence of at most `context` tokens, which decides the rotation of all of them.
  /// `kept_queries` queries stay besides those of the last Append.
  RetrievalHead(const HeadWeights* weights, uint64_t context, uint32_t kept_queries = 0);

  /// Tokens appended so far.
  uint64_t num_tokens() const { return tokens_.size(); }
  uint32_t num_query_heads() const { return c_.num_query_heads; }
  uint32_t num_kv_heads() const { return c_.num_kv_heads; }
  /// Values of a token's keys.
  size_t key_values() const { return size_t{c_.num_kv_heads} * c_.head_dim; }

  /// Appends `tokens`. `features`, [tokens][num_features], are those of the token before each, for
  /// HeadMode::kEagle; empty for the other modes. The first token of a sequence has zeros.
  [[nodiscard]] Status Append(std::span<const TokenId> tokens,
                              std::span<const float> features = {});

  /// Appends `tokens` with their `keys`, [tokens][num_kv_heads][d], which Keys gave of the same
  /// tokens under the same weights and context. They have no queries. `features` are
  /// kept_features() of a head that had them last. INVALID_ARGUMENT for another number of keys or
  /// features, and as for Append.
  [[nodiscard]] Status Restore(std::span<const TokenId> tokens, std::span<const float> keys,
                               std::span<const float> features = {});
  /// Keys of the tokens from `first` to `end`, as Restore takes them.
  std::vector<float> Keys(uint64_t first, uint64_t end) const;
  /// Number of queries that RenewQueries computes of so many tokens.
  uint64_t RowsToKeep(uint64_t tokens) const { return std::min<uint64_t>(kept_queries_, tokens); }
  /// Features of these tokens, as Append got them; empty for modes without.
  std::span<const float> kept_features() const { return kept_features_; }

  /// First token that Weights knows; num_tokens() for none.
  uint64_t first_query() const;
  /// Computes the kept queries anew and forgets all others: the same bits however the tokens came.
  [[nodiscard]] Status RenewQueries();
  /// Weights of the appended token `token` over the tokens up to itself, [n_q][token + 1]. It must
  /// be one of the last Append, or of the kept ones before.
  StatusOr<std::vector<float>> Weights(uint64_t token) const;

 private:
  /// INVALID_ARGUMENT for tokens that do not fit, or outside the vocabulary.
  Status CheckTokens(std::span<const TokenId> tokens) const;
  /// Takes tokens with keys as Restore has them.
  void Take(std::span<const TokenId> tokens, std::span<const float> keys);
  /// Keeps those of the last tokens, once these have been taken.
  void KeepFeatures(std::span<const float> features);
  // `first` is the position of the first of `tokens`. Those before it have been taken.
  /// Input of the projections, [tokens][in].
  StatusOr<std::vector<float>> Inputs(uint64_t first, std::span<const TokenId> tokens,
                                      std::span<const float> features) const;
  /// The features of HeadMode::kTrained: embeddings of the tokens before each, the nearest first.
  StatusOr<std::vector<float>> EmbeddingsBefore(uint64_t first,
                                                std::span<const TokenId> tokens) const;
  /// rows [tokens][heads][d], projected by `weight` and rotated.
  StatusOr<std::vector<float>> Project(uint64_t first, const std::vector<float>& inputs,
                                       const std::vector<float>& weight, uint32_t heads) const;

  const HeadWeights* const weights_;
  const DraftConfig& c_;
  const uint64_t context_;
  const uint32_t kept_queries_;
  const RopeTable rope_;
  std::vector<TokenId> tokens_;
  std::vector<std::vector<float>> keys_;  ///< [n_kv], each [tokens][d], rotated.
  std::vector<float> queries_;            ///< [n][n_q][d] of the last tokens, rotated.
  std::vector<float> kept_features_;      ///< [kept][num_features]; for HeadMode::kEagle.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_HEAD_RETRIEVAL_HEAD_H_
