// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/head_keys.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "quire/layout.h"
#include "quire/payload.h"

namespace quire::worker {
namespace {

/// Tokens that a head takes at a time: bounds the memory of their queries.
constexpr size_t kTokensAtATime = 512;
constexpr uint32_t kRecordVersion = 1;

std::string Hex(const std::array<uint8_t, 32>& hash) {
  std::string text;
  for (const uint8_t byte : hash) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    text += digits.data();
  }
  return text;
}

/// The stored chain of one document's keys.
class HeadChain {
 public:
  HeadChain(const EngineParts& parts, std::span<const TokenId> tokens, RetrievalHead* head)
      : parts_(parts),
        tokens_(tokens),
        head_(head),
        spec_(HeadKeySpec(*parts.head, *parts.spec, parts.decoder->config().max_positions)) {}

  /// Gives the head the stored keys of a prefix. Returns the bytes read.
  StatusOr<uint64_t> Load() {
    QUIRE_ASSIGN_OR_RETURN(const LookupResult stored, parts_.client->Lookup(spec_, tokens_));
    if (stored.segment_keys.empty()) return uint64_t{0};
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> keys,
                           Read(ContextRef(stored.segment_keys.back()), stored.num_tokens));
    QUIRE_RETURN_IF_ERROR(head_->Restore(tokens_.first(stored.num_tokens), keys));
    segments_ = stored.segment_keys;
    return keys.size() * sizeof(float);
  }

  /// Puts the whole segments behind the stored ones, and notes them at the document.
  Status Store(const DocumentName& document) {
    const uint64_t size = spec_.segment_tokens();
    const size_t stored = segments_.size();
    for (uint64_t at = stored * size; at + size <= tokens_.size(); at += size) {
      auto keys = std::make_shared<const std::vector<float>>(head_->Keys(at, at + size));
      Payload payload;
      payload.Append(Slice{std::as_bytes(std::span(*keys)), keys});
      QUIRE_ASSIGN_OR_RETURN(
          const SegmentKey key,
          parts_.client->PutSegment(spec_, segments_.empty() ? kRootKey : segments_.back(),
                                    tokens_.subspan(at, size), payload));
      segments_.push_back(key);
    }
    if (segments_.size() == stored) return OkStatus();
    return parts_.client->PutExtra(document, kHeadKeysExtra, kRecordVersion, {}, segments_)
        .status();
  }

 private:
  /// Keys of the first `tokens` of a chain, [tokens][n_kv][d].
  StatusOr<std::vector<float>> Read(const ContextRef& chain, uint64_t tokens) const {
    const uint32_t pages = PageCount(spec_, tokens);
    const uint64_t page_bytes = ExtentBytes(spec_, 1);
    const uint32_t batch = PagesPerBatch(parts_, page_bytes);
    std::vector<float> keys(pages * page_bytes / sizeof(float));
    for (uint32_t first = 0; first < pages; first += batch) {
      UnitRange range{.layer = 0, .pages = {}, .heads = {}};
      range.pages.resize(std::min(batch, pages - first));
      std::iota(range.pages.begin(), range.pages.end(), first);
      QUIRE_ASSIGN_OR_RETURN(const Payload payload, parts_.client->Fetch(chain, {&range, 1}));
      if (payload.size_bytes() != range.pages.size() * page_bytes) {
        return DataLoss("keys of the retrieval head have ", payload.size_bytes(), " bytes");
      }
      payload.CopyTo(std::as_writable_bytes(std::span(keys)).data() + first * page_bytes);
    }
    keys.resize(tokens * head_->key_values());
    return keys;
  }

  const EngineParts& parts_;
  const std::span<const TokenId> tokens_;
  RetrievalHead* const head_;
  const KvSpec spec_;
  std::vector<SegmentKey> segments_;  ///< Stored ones.
};

}  // namespace

KvSpec HeadKeySpec(const HeadWeights& head, const KvSpec& pages, uint64_t context) {
  KvSpec spec;
  spec.model = "retrieval-head/" + Hex(pages.weights_hash);
  spec.weights_hash = head.hash;
  // Keys without values are what this kind's units are.
  spec.attention = AttentionKind::kMla;
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = head.config.num_query_heads;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = head.config.num_kv_heads * head.config.head_dim;
  spec.latent_rope_dim = 0;
  spec.page_tokens = pages.page_tokens;
  spec.segment_pages = pages.segment_pages;
  spec.rope = DraftRope(head.config, context);
  spec.rope.rotary_dim = 0;  // The store turns none of them: a head has positions of its own.
  return spec;
}

StatusOr<uint64_t> ShowHeadDocument(const EngineParts& parts, const DocumentName& document,
                                    std::span<const TokenId> tokens, RetrievalHead* head) {
  HeadChain chain(parts, tokens, head);
  const StatusOr<uint64_t> bytes = chain.Load();
  for (uint64_t at = head->num_tokens(); at < tokens.size();) {
    const uint64_t count = std::min<uint64_t>(kTokensAtATime, tokens.size() - at);
    QUIRE_RETURN_IF_ERROR(head->Append(tokens.subspan(at, count)));
    at += count;
  }
  QUIRE_RETURN_IF_ERROR(head->RenewQueries());  // Stored keys have none.
  // Without the store the keys are computed each time.
  if (bytes.ok()) (void)chain.Store(document);
  return bytes.value_or(0);
}

}  // namespace quire::worker
