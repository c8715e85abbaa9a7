// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/service/documents_call.h"

#include <string>

#include "common/wire/convert_context.h"

namespace quire::worker {
namespace {

template <typename Names>
StatusOr<std::vector<DocumentName>> NamesFromProto(const Names& protos) {
  std::vector<DocumentName> names;
  for (const v1::DocumentName& proto : protos) {
    QUIRE_ASSIGN_OR_RETURN(names.emplace_back(), wire::DocumentNameFromProto(proto));
  }
  return names;
}

Status CheckRanges(const v1::DocumentsPrompt& proto) {
  if (proto.names_size() == 0 || proto.names_size() > kMaxDocuments) {
    return InvalidArgument("names has ", proto.names_size(), " documents; it must have 1 to ",
                           kMaxDocuments);
  }
  // A NaN is refused, too.
  if (proto.has_recompute_ratio() &&
      !(proto.recompute_ratio() >= 0 && proto.recompute_ratio() <= 1)) {
    return InvalidArgument("recompute_ratio is ", proto.recompute_ratio(), "; it must be 0 to 1");
  }
  if (proto.epic_tokens() > kMaxEpicTokens) {
    return InvalidArgument("epic_tokens is ", proto.epic_tokens(), "; it must be at most ",
                           kMaxEpicTokens);
  }
  if (proto.infllm_blocks() > kMaxInfLlmBlocks) {
    return InvalidArgument("infllm_blocks is ", proto.infllm_blocks(), "; it must be at most ",
                           kMaxInfLlmBlocks);
  }
  if (proto.variants() > kMaxVariants) {
    return InvalidArgument("variants is ", proto.variants(), "; it must be at most ", kMaxVariants);
  }
  if (proto.has_hops() && (proto.hops() == 0 || proto.hops() > kMaxHops)) {
    return InvalidArgument("hops is ", proto.hops(), "; it must be 1 to ", kMaxHops);
  }
  if (proto.has_hop_pages() && (proto.hop_pages() == 0 || proto.hop_pages() > kMaxHopPages)) {
    return InvalidArgument("hop_pages is ", proto.hop_pages(), "; it must be 1 to ", kMaxHopPages);
  }
  for (const uint32_t layer : proto.hop_layers()) {
    if (layer >= kMaxHopLayers) {
      return InvalidArgument("hop_layers has ", layer, "; it must be below ", kMaxHopLayers);
    }
  }
  if (proto.stable_layers_size() > kMaxStableLayers) {
    return InvalidArgument("stable_layers has ", proto.stable_layers_size(),
                           " layers; it must have at most ", kMaxStableLayers);
  }
  return OkStatus();
}

}  // namespace

StatusOr<DocumentsCall> DocumentsFromProto(const v1::DocumentsPrompt& proto) {
  QUIRE_RETURN_IF_ERROR(Annotate(CheckRanges(proto), "documents"));
  DocumentsCall call;
  QUIRE_ASSIGN_OR_RETURN(call.names, NamesFromProto(proto.names()));
  ReuseOptions& options = call.options;
  if (!proto.method().empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.method, ParseReuseMethod(proto.method()));
  }
  options.skip_missing = proto.skip_missing();
  if (proto.has_recompute_ratio()) options.cacheblend.ratio = proto.recompute_ratio();
  options.cacheblend.gradual = proto.gradual();
  if (proto.has_check_layer()) options.cacheblend.check_layer = proto.check_layer();
  if (proto.has_epic_tokens()) options.epic_tokens = proto.epic_tokens();
  if (proto.overwrite()) options.samkv.update = RowUpdate::kOverwrite;
  options.balances_loading = proto.balances_loading();
  if (proto.has_infllm_blocks()) options.infllm.blocks = proto.infllm_blocks();
  if (proto.attended()) options.samkv.rows = SamKvRows::kAttended;
  if (proto.has_hops()) options.hops.hops = proto.hops();
  if (proto.has_hop_pages()) options.hops.pages = proto.hop_pages();
  options.hops.layers.assign(proto.hop_layers().begin(), proto.hop_layers().end());
  options.selection.stable_layers.assign(proto.stable_layers().begin(),
                                         proto.stable_layers().end());
  if (proto.compact()) options.positions = PromptPositions::kCompact;
  options.variants = proto.variants();
  return call;
}

void DocumentsToProto(std::span<const DocumentName> names, const ReuseOptions& options,
                      v1::DocumentsPrompt* proto) {
  for (const DocumentName& name : names) wire::DocumentNameToProto(name, proto->add_names());
  proto->set_method(std::string(Name(options.method)));
  proto->set_skip_missing(options.skip_missing);
  proto->set_recompute_ratio(options.cacheblend.ratio);
  proto->set_gradual(options.cacheblend.gradual);
  if (options.cacheblend.check_layer) proto->set_check_layer(*options.cacheblend.check_layer);
  proto->set_epic_tokens(static_cast<uint32_t>(options.epic_tokens));
  proto->set_overwrite(options.samkv.update == RowUpdate::kOverwrite);
  proto->set_balances_loading(options.balances_loading);
  proto->set_infllm_blocks(options.infllm.blocks);
  proto->set_attended(options.samkv.rows == SamKvRows::kAttended);
  proto->set_hops(options.hops.hops);
  proto->set_hop_pages(options.hops.pages);
  proto->mutable_hop_layers()->Assign(options.hops.layers.begin(), options.hops.layers.end());
  proto->mutable_stable_layers()->Assign(options.selection.stable_layers.begin(),
                                         options.selection.stable_layers.end());
  proto->set_compact(options.positions == PromptPositions::kCompact);
  proto->set_variants(options.variants);
}

void TotalsToProto(const ReuseStats& stats, ReuseMethod method, v1::DocumentsTotals* proto) {
  proto->set_method(std::string(Name(method)));
  proto->set_prompt_tokens(stats.prompt_tokens);
  proto->set_question_tokens(stats.question_tokens);
  proto->set_recompute_ratio(stats.recompute_ratio);
  proto->set_sequence_ratio(stats.sequence_ratio);
  proto->set_bytes_read(stats.bytes_read);
  proto->set_bytes_whole(stats.bytes_whole);
  proto->set_requests(stats.requests);
  proto->set_statistics_computed(stats.statistics_computed);
  proto->set_statistics_stored(stats.statistics_stored);
  proto->set_seconds_prefill(stats.seconds_prefill);
  proto->set_compact(stats.compact);
  proto->set_chosen_ratio(stats.chosen_ratio);
  proto->set_chose_full_prefill(stats.chose_full_prefill);
  proto->set_variants_used(stats.variants_used);
  proto->set_variants_kept(stats.variants_kept);
  for (const DocumentName& name : stats.missing) {
    wire::DocumentNameToProto(name, proto->add_missing());
  }
}

StatusOr<ReuseStats> TotalsFromProto(const v1::DocumentsTotals& proto) {
  ReuseStats stats{.prompt_tokens = proto.prompt_tokens(),
                   .question_tokens = proto.question_tokens(),
                   .compact = proto.compact(),
                   .recompute_ratio = proto.recompute_ratio(),
                   .sequence_ratio = proto.sequence_ratio(),
                   .chosen_ratio = proto.chosen_ratio(),
                   .chose_full_prefill = proto.chose_full_prefill(),
                   .bytes_read = proto.bytes_read(),
                   .bytes_whole = proto.bytes_whole(),
                   .requests = proto.requests(),
                   .statistics_computed = proto.statistics_computed(),
                   .statistics_stored = proto.statistics_stored(),
                   .variants_used = proto.variants_used(),
                   .variants_kept = proto.variants_kept(),
                   .seconds_prefill = proto.seconds_prefill(),
                   .missing = {}};
  QUIRE_ASSIGN_OR_RETURN(stats.missing, NamesFromProto(proto.missing()));
  return stats;
}

}  // namespace quire::worker
