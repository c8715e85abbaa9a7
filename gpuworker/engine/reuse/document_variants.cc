// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/document_variants.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gpuworker/context/cachecraft/variants_record.h"
#include "gpuworker/engine/reuse/prompt_chain.h"
#include "gpuworker/engine/reuse/reuse_costs.h"
#include "quire/payload.h"

namespace quire::worker {
namespace {

StatusOr<std::vector<ChunkVariant>> GetVariants(Client* client, const DocumentName& document,
                                                uint64_t tokens) {
  QUIRE_ASSIGN_OR_RETURN(const auto extra, client->GetExtra(document, kVariantsExtra));
  std::string bytes(extra.payload.size_bytes(), '\0');
  extra.payload.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
  return DecodeVariants(bytes, tokens);
}

Status PutVariants(Client* client, const DocumentName& document,
                   std::span<const ChunkVariant> variants) {
  const std::string bytes = EncodeVariants(variants);
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  Payload payload;
  payload.Append(std::vector<std::byte>(begin, begin + bytes.size()));
  std::vector<SegmentKey> segments;
  for (const ChunkVariant& variant : variants) {
    segments.insert(segments.end(), variant.segments.begin(), variant.segments.end());
  }
  return client->PutExtra(document, kVariantsExtra, kVariantsVersion, payload, segments).status();
}

}  // namespace

DocumentVariants::DocumentVariants(const EngineParts& parts, std::span<const DocumentName> names,
                                   std::span<const ContextRef> contexts, const PromptLayout& layout,
                                   std::span<const TokenId> prompt,
                                   std::function<bool()> keep_going)
    : parts_(parts),
      names_(names.begin(), names.end()),
      layout_(layout),
      tokens_(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(layout.question_first)),
      keep_going_(std::move(keep_going)),
      variants_(names.size()) {
  for (const ContextRef& context : contexts) tips_.push_back(std::get<SegmentKey>(context));
}

std::span<const TokenId> DocumentVariants::TokensOf(size_t document) const {
  const PlacedSource& source = layout_.sources[document];
  return std::span(tokens_).subspan(source.first, source.tokens);
}

void DocumentVariants::LoadVariants() {
  for (size_t i = 1; i < names_.size() && IsWanted(); ++i) {
    const PlacedSource& source = layout_.sources[i];
    auto stored = GetVariants(parts_.client, names_[i], source.skipped + source.tokens);
    if (!stored.ok()) continue;
    variants_[i] = *std::move(stored);
    for (const ChunkVariant& variant : variants_[i]) {
      parts_.client->NoteChain(variant.chain_tip, names_[i]);
    }
  }
}

bool DocumentVariants::IsStored(const ChunkVariant& variant) const {
  const auto stat = parts_.client->Stat(ContextRef(variant.chain_tip));
  return stat.ok() && FirstDifference(stat->context.spec, *parts_.spec).empty();
}

std::optional<DocumentVariants::Found> DocumentVariants::Find(size_t document,
                                                              const ChunkVariant& variant) const {
  const PlacedSource& placed = layout_.sources[document];
  const auto stat = parts_.client->Stat(ContextRef(variant.chain_tip));
  if (!stat.ok() || !FirstDifference(stat->context.spec, *parts_.spec).empty()) return {};
  const auto chain = parts_.client->ReadTokens(ContextRef(variant.chain_tip));
  if (!chain.ok() || variant.skipped != placed.skipped || variant.first_token > chain->size() ||
      placed.tokens > chain->size() - variant.first_token) {
    return {};
  }
  const auto before = std::span(*chain).first(variant.first_token);
  const auto own = std::span(*chain).subspan(variant.first_token, placed.tokens);
  if (!std::ranges::equal(own, TokensOf(document))) return {};
  Found found{.chain_tip = variant.chain_tip,
              .read = {.member = static_cast<uint32_t>(document),
                       .placed = placed,
                       .tier = TierOf(*stat, *parts_.spec)},
              .same_prefix = std::ranges::equal(before, std::span(tokens_).first(placed.first))};
  found.read.placed.skipped = variant.first_token;
  found.read.placed.move =
      static_cast<int64_t>(placed.first) - static_cast<int64_t>(variant.first_token);
  return found;
}

DocumentVariants::Chosen DocumentVariants::ChooseFor(size_t document,
                                                     const CacheCraftOptions& options) {
  std::vector<ChunkVariant>& variants = variants_[document];
  const uint64_t count = layout_.sources[document].tokens;
  for (;;) {
    const ChunkChoice best = RankVariants(variants, PrefixOf(document), options).front();
    if (!best.variant || !IsWanted())
      return {.fixed = TokensToFix(nullptr, best.overhead, count), .found = {}};
    const auto found = Find(document, variants[*best.variant]);
    if (found) {
      return {.fixed = TokensToFix(&variants[*best.variant], best.overhead, count), .found = found};
    }
    variants.erase(variants.begin() + static_cast<ptrdiff_t>(*best.variant));
  }
}

ReusePlan DocumentVariants::Choose(const CacheCraftOptions& options,
                                   std::vector<AssembledDocument>* documents,
                                   std::vector<ContextRef>* contexts) {
  LoadVariants();
  std::vector<std::vector<uint64_t>> fixed(names_.size());
  bool exact = true;  // All so far are as full prefill has them.
  for (size_t i = 1; i < names_.size(); ++i) {
    Chosen chosen = ChooseFor(i, options);
    fixed[i] = std::move(chosen.fixed);
    const bool whole = fixed[i].size() == layout_.sources[i].tokens;
    if (exact && whole) to_keep_.push_back(i);
    exact &= whole || (chosen.found && chosen.found->same_prefix);
    if (!chosen.found || whole) continue;
    (*documents)[i] = chosen.found->read;
    (*contexts)[i] = ContextRef(chosen.found->chain_tip);
    ++used_;
  }
  return CacheCraft(layout_, parts_.spec->num_layers, fixed);
}

ReusePlan DocumentVariants::ChooseAlone(const CacheCraftOptions& options) {
  used_ = 0;
  to_keep_.clear();
  std::vector<std::vector<uint64_t>> fixed(names_.size());
  for (size_t i = 1; i < names_.size(); ++i) {
    const double overhead = RankVariants({}, PrefixOf(i), options).front().overhead;
    fixed[i] = TokensToFix(nullptr, overhead, layout_.sources[i].tokens);
  }
  return CacheCraft(layout_, parts_.spec->num_layers, fixed);
}

bool DocumentVariants::HasSame(size_t document) const {
  return std::ranges::any_of(variants_[document], [&](const ChunkVariant& variant) {
    return std::ranges::equal(variant.prefix, PrefixOf(document)) &&
           variant.skipped == layout_.sources[document].skipped && IsStored(variant);
  });
}

void DocumentVariants::ComputeAll() {
  LoadVariants();
  for (size_t i = 1; i < names_.size(); ++i) {
    if (!HasSame(i)) to_keep_.push_back(i);
  }
}

void DocumentVariants::Measure(ReusePlan* plan) {
  if (to_keep_.empty()) return;
  plan->rows = std::make_unique<AttentionCollector>(std::move(plan->rows), layout_, &attention_);
}

uint32_t DocumentVariants::EndMeasuring() {
  if (attention_.empty()) to_keep_.clear();
  AttentionCollector::Finish(&attention_);
  std::erase_if(to_keep_, [&](size_t document) { return attention_[document].layers == 0; });
  return static_cast<uint32_t>(to_keep_.size());
}

uint32_t DocumentVariants::Keep(const AssembledPrompt& prompt, uint32_t most) {
  if (to_keep_.empty() || most == 0) return 0;
  const PlacedSource& last = layout_.sources[to_keep_.back()];
  const auto tokens = std::span(tokens_).first(last.first + last.tokens);
  // Extras name segments of their own node, so each node of the documents stores the prompt.
  std::map<Client*, StatusOr<std::vector<SegmentKey>>> stored;
  uint32_t kept = 0;
  for (const size_t document : to_keep_) {
    EngineParts there = parts_;
    const auto node = parts_.client->ForDocument(names_[document]);
    if (!node.ok()) continue;
    there.client = *node;
    auto segments = stored.find(*node);
    if (segments == stored.end()) {
      const std::string& collection = names_[to_keep_.back()].collection;
      segments = stored.emplace(*node, StorePrompt(there, prompt, tokens, collection)).first;
    }
    if (segments->second.ok() && KeepOne(document, *segments->second, most)) ++kept;
  }
  return kept;
}

bool DocumentVariants::KeepOne(size_t document, std::span<const SegmentKey> segments,
                               uint32_t most) {
  const PlacedSource& source = layout_.sources[document];
  if (source.tokens == 0) return false;
  const uint64_t g = parts_.spec->segment_tokens();
  const size_t first = source.first / g;
  const size_t end = (source.first + source.tokens - 1) / g + 1;
  const auto own = segments.subspan(first, end - first);
  const auto prefix = PrefixOf(document);
  ChunkAttention& attention = attention_[document];
  const double impact = ContextImpact(attention, layout_, document);
  std::vector<ChunkVariant>& variants = variants_[document];
  std::erase_if(variants, [&](const ChunkVariant& variant) {
    return std::ranges::equal(variant.prefix, prefix) || !IsStored(variant);
  });
  variants.push_back({.chain_tip = own.back(),
                      .segments = {own.begin(), own.end()},
                      .first_token = source.first,
                      .skipped = source.skipped,
                      .prefix = {prefix.begin(), prefix.end()},
                      .inter = std::move(attention.inter),
                      .impact = impact,
                      .tokens = std::move(attention.tokens)});
  most = std::min(most, kMostVariants);
  if (variants.size() > most) variants.erase(variants.begin(), variants.end() - most);
  return PutVariants(parts_.client, names_[document], variants).ok();
}

}  // namespace quire::worker
