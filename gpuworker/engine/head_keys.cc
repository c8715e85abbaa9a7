// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/head_keys.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
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
/// Version of the bytes beside a chain: none, or the hash of the head and features of the last
/// tokens.
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
  HeadChain(const EngineParts& parts, const DocumentName& document, std::span<const TokenId> tokens,
            const ShownHead& shown)
      : parts_(parts),
        document_(document),
        tokens_(tokens),
        head_(shown.head),
        features_(shown.features),
        spec_(HeadKeySpec(*parts.head, *parts.spec, parts.decoder->config().max_positions)) {}

  /// Gives the head the stored keys: those of a prefix, or for a head that sees hidden states those
  /// of the document or none. Returns the bytes read.
  StatusOr<uint64_t> Load() {
    std::vector<float> features;
    if (features_ != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(features, ReadFeatures());
      if (features.empty()) return uint64_t{0};
    }
    QUIRE_ASSIGN_OR_RETURN(const LookupResult stored, parts_.client->Lookup(spec_, tokens_));
    const bool is_whole = stored.num_tokens == tokens_.size();
    if (stored.segment_keys.empty() || (features_ != nullptr && !is_whole)) return uint64_t{0};
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> keys,
                           Read(ContextRef(stored.segment_keys.back()), stored.num_tokens));
    const std::span<const float> of_last = features;
    const size_t waiting = features_ == nullptr ? 0 : parts_.head->num_features;
    QUIRE_RETURN_IF_ERROR(head_->Restore(tokens_.first(stored.num_tokens), keys,
                                         of_last.first(of_last.size() - waiting)));
    if (features_ != nullptr) features_->Add(of_last.last(waiting));
    segments_ = stored.segment_keys;
    return (keys.size() + features.size()) * sizeof(float);
  }

  /// Puts the segments behind the stored ones, and notes them at the document: whole ones, and for
  /// a head that sees hidden states also the short one at the end.
  Status Store() {
    const uint64_t size = spec_.segment_tokens();
    const size_t stored = segments_.size();
    const uint64_t end =
        features_ == nullptr ? tokens_.size() / size * size : uint64_t{tokens_.size()};
    for (uint64_t at = stored * size; at < end; at += size) {
      QUIRE_RETURN_IF_ERROR(StoreSegment(at, std::min(at + size, end)));
    }
    if (segments_.size() == stored) return OkStatus();
    return parts_.client
        ->PutExtra(document_, kHeadKeysExtra, kRecordVersion, MakeRecord(), segments_)
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

  Status StoreSegment(uint64_t first, uint64_t end) {
    auto keys = std::make_shared<std::vector<float>>(head_->Keys(first, end));
    keys->resize(ExtentBytes(spec_, PageCount(spec_, end - first)) / sizeof(float));
    Payload payload;
    payload.Append(Slice{std::as_bytes(std::span(*keys)), keys});
    QUIRE_ASSIGN_OR_RETURN(
        const SegmentKey key,
        parts_.client->PutSegment(spec_, segments_.empty() ? kRootKey : segments_.back(),
                                  tokens_.subspan(first, end - first), payload));
    segments_.push_back(key);
    return OkStatus();
  }

  /// Features of the tokens that the head keeps queries of, and of the last token.
  Payload MakeRecord() const {
    if (features_ == nullptr) return {};
    auto bytes = std::make_shared<std::vector<std::byte>>();
    const auto append = [&](std::span<const std::byte> more) {
      bytes->insert(bytes->end(), more.begin(), more.end());
    };
    append(std::as_bytes(std::span(parts_.head->hash)));
    append(std::as_bytes(head_->kept_features()));
    const std::vector<float> waiting = features_->First(1);
    append(std::as_bytes(std::span(waiting)));
    Payload record;
    record.Append(Slice{*bytes, bytes});
    return record;
  }
  /// The same, of the record that is stored; empty where it is another head's, or has too few.
  StatusOr<std::vector<float>> ReadFeatures() const {
    const StatusOr<ExtraBytes> stored = parts_.client->GetExtra(document_, kHeadKeysExtra);
    if (stored.status().code() == StatusCode::kNotFound) return std::vector<float>();
    QUIRE_RETURN_IF_ERROR(stored.status());
    const Slice record = stored->payload.Flatten();
    const std::span<const std::byte> hash = std::as_bytes(std::span(parts_.head->hash));
    const uint64_t rows = head_->RowsToKeep(tokens_.size()) + 1;
    const uint64_t wanted = rows * parts_.head->num_features * sizeof(float);
    if (record.bytes.size() < hash.size() + wanted ||
        !std::ranges::equal(record.bytes.first(hash.size()), hash)) {
      return std::vector<float>();
    }
    std::vector<float> features(wanted / sizeof(float));
    std::memcpy(features.data(), record.bytes.last(wanted).data(), wanted);
    return features;
  }

  const EngineParts& parts_;
  const DocumentName& document_;
  const std::span<const TokenId> tokens_;
  RetrievalHead* const head_;
  DraftFeatures* const features_;  ///< Null for a head that sees no hidden states.
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
                                    std::span<const TokenId> tokens, const ShownHead& shown) {
  RetrievalHead* const head = shown.head;
  HeadChain chain(parts, document, tokens, shown);
  const StatusOr<uint64_t> bytes = chain.Load();
  if (shown.features != nullptr && head->num_tokens() == 0) QUIRE_RETURN_IF_ERROR(shown.run());
  for (uint64_t at = head->num_tokens(); at < tokens.size();) {
    const uint64_t count = std::min<uint64_t>(kTokensAtATime, tokens.size() - at);
    QUIRE_RETURN_IF_ERROR(head->Append(tokens.subspan(at, count)));
    at += count;
  }
  QUIRE_RETURN_IF_ERROR(head->RenewQueries());  // Stored keys have none.
  // Without the store the keys are computed each time.
  if (bytes.ok()) (void)chain.Store();
  return bytes.value_or(0);
}

}  // namespace quire::worker
