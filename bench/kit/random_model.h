// SPDX-License-Identifier: Apache-2.0
//
// A random model of usual shapes, and a long random document for it, always the same. They serve to
// measure the cost of a decode step; the answers mean nothing. The tokens' embeddings have most of
// their direction in common, and so have the queries of consecutive steps.
#ifndef QUIRE_BENCH_KIT_RANDOM_MODEL_H_
#define QUIRE_BENCH_KIT_RANDOM_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "quire/client.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::bench {

struct RandomModel {
  uint32_t num_layers = 4;
  uint32_t num_query_heads = 8;
  uint32_t num_kv_heads = 4;
  uint32_t head_dim = 128;
  uint32_t intermediate_size = 3584;
  uint32_t vocab_size = 256;
  uint32_t max_positions = 65536;
  /// The part of an embedding that differs between tokens. The larger it is, the more selected
  /// pages change from step to step.
  float own_share = 0.3f;
  /// Makes attention peaked, the larger it is.
  float gain = 1;
  /// Writes a retrieval head of random weights beside the model, of mode embed_only. It has the
  /// model's heads, as a draft.
  bool head = false;

  uint32_t hidden_size() const { return num_query_heads * head_dim; }
};

/// Writes config.json and model.safetensors into `directory`, which it creates, and the head.
/// UNAVAILABLE if they cannot be written.
[[nodiscard]] Status WriteRandomModel(const std::string& directory, const RandomModel& model);

/// Receives the segments of the document below, one after the other; the bytes are valid during the
/// call.
using SegmentVisitor =
    std::function<Status(std::span<const TokenId> tokens, std::span<const std::byte> bytes)>;
[[nodiscard]] Status VisitRandomDocument(const KvSpec& spec, uint32_t pages,
                                         const SegmentVisitor& visit);

/// Puts a document of `pages` pages, a multiple of its segments, and registers it as `name`. Keys
/// and values are random, in the form of `spec`. Reports progress on stderr.
[[nodiscard]] Status PutRandomDocument(Client& client, const KvSpec& spec, uint32_t pages,
                                       const DocumentName& name);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_RANDOM_MODEL_H_
