// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cachecraft/variants_record.h"

#include <algorithm>
#include <utility>

#include "quire/v1/extras.pb.h"

namespace quire::worker {
namespace {

template <typename Bytes>
StatusOr<std::vector<SegmentKey>> KeysOf(const Bytes& list) {
  std::vector<SegmentKey> keys;
  for (const std::string& bytes : list) {
    const auto key = SegmentKey::FromBytes(bytes);
    if (!key) return DataLoss("a key has ", bytes.size(), " bytes");
    keys.push_back(*key);
  }
  return keys;
}

/// True when each is attention of `tokens` tokens, but for rounding. False for NaN.
bool AreMasses(const auto& masses, uint64_t tokens) {
  return std::ranges::all_of(
      masses, [&](double mass) { return mass >= 0 && mass <= static_cast<double>(tokens) + 1; });
}

Status Check(const ChunkVariant& variant, uint64_t tokens) {
  if (variant.skipped > tokens || variant.tokens.size() != tokens - variant.skipped) {
    return DataLoss("it has ", variant.tokens.size(), " and ", variant.skipped, " tokens of ",
                    tokens);
  }
  if (variant.prefix.empty() || variant.prefix.size() > kMostPrefix ||
      variant.prefix.size() != variant.inter.size()) {
    return DataLoss("it names ", variant.prefix.size(), " documents before it, and attention to ",
                    variant.inter.size());
  }
  if (!AreMasses(variant.inter, tokens) || !AreMasses(variant.tokens, 1) ||
      !(variant.impact >= 0.5 && variant.impact <= 1)) {
    return DataLoss("its attention is none");
  }
  return OkStatus();
}

StatusOr<ChunkVariant> Decode(const v1::CacheCraftVariant& proto) {
  ChunkVariant variant{.chain_tip = {},
                       .segments = {},
                       .first_token = proto.first_token(),
                       .skipped = proto.skipped(),
                       .prefix = {},
                       .inter = {proto.inter().begin(), proto.inter().end()},
                       .impact = proto.impact(),
                       .tokens = {proto.tokens().begin(), proto.tokens().end()}};
  const auto tip = SegmentKey::FromBytes(proto.chain_tip());
  if (!tip) return DataLoss("it has no chain");
  variant.chain_tip = *tip;
  QUIRE_ASSIGN_OR_RETURN(variant.segments, KeysOf(proto.segments()));
  QUIRE_ASSIGN_OR_RETURN(variant.prefix, KeysOf(proto.prefix()));
  return variant;
}

}  // namespace

std::string EncodeVariants(std::span<const ChunkVariant> variants) {
  v1::CacheCraftVariants proto;
  for (const ChunkVariant& variant : variants) {
    v1::CacheCraftVariant* const one = proto.add_variants();
    one->set_chain_tip(std::string(variant.chain_tip.view()));
    for (const SegmentKey& key : variant.segments) one->add_segments(std::string(key.view()));
    one->set_first_token(variant.first_token);
    one->set_skipped(variant.skipped);
    for (const SegmentKey& key : variant.prefix) one->add_prefix(std::string(key.view()));
    one->mutable_inter()->Assign(variant.inter.begin(), variant.inter.end());
    one->set_impact(variant.impact);
    one->mutable_tokens()->Assign(variant.tokens.begin(), variant.tokens.end());
  }
  return proto.SerializeAsString();
}

StatusOr<std::vector<ChunkVariant>> DecodeVariants(std::string_view bytes, uint64_t tokens) {
  v1::CacheCraftVariants proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("the variants of a document cannot be read");
  }
  if (proto.variants_size() > static_cast<int>(kMostVariants)) {
    return DataLoss(proto.variants_size(), " variants of a document; at most ", kMostVariants,
                    " are kept");
  }
  std::vector<ChunkVariant> variants;
  for (const v1::CacheCraftVariant& one : proto.variants()) {
    QUIRE_ASSIGN_OR_RETURN(ChunkVariant variant, Decode(one));
    QUIRE_RETURN_IF_ERROR(Annotate(Check(variant, tokens), "variant ", variants.size()));
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace quire::worker
