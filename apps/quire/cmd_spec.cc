// SPDX-License-Identifier: Apache-2.0
//
// quire spec: what the KV pages of a model mean, and under which fingerprint they are stored.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/worker/find_model.h"
#include "apps/quire/commands.h"
#include "gpuworker/model/checkpoint/pages_spec.h"
#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire::cli {
namespace {

struct SpecArgs {
  std::string model;
  worker::PageForm form;
};

std::string_view AttentionName(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kMha:
      return "mha";
    case AttentionKind::kGqa:
      return "gqa";
    case AttentionKind::kMqa:
      return "mqa";
    case AttentionKind::kMla:
      return "mla";
  }
  return "unknown";
}

std::string_view ScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kDynamic:
      return "dynamic";
    case RopeScaling::kLongRope:
      return "longrope";
  }
  return "unknown";
}

std::string HexOf(const std::array<uint8_t, 32>& bytes) { return SegmentKey{bytes}.Hex(); }

/// Arguments of RopeSpec in Python.
Json RopeJson(const RopeSpec& rope) {
  Json json;
  json["rotary_dim"] = rope.rotary_dim;
  json["theta"] = rope.theta;
  json["scaling"] = ScalingName(rope.scaling);
  json["state"] = rope.state == RopeState::kPre ? "pre" : "post";
  json["interleaved"] = rope.interleaved;
  json["factor"] = rope.factor;
  json["low_freq_factor"] = rope.low_freq_factor;
  json["high_freq_factor"] = rope.high_freq_factor;
  json["original_context"] = rope.original_context;
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  json["attention_factor"] = rope.attention_factor;
  json["pair_factors"] = rope.pair_factors;
  return json;
}

/// Arguments of KvSpec in Python, and the fingerprint.
Json SpecJson(const KvSpec& spec) {
  Json json;
  json["model"] = spec.model;
  json["weights_hash"] = HexOf(spec.weights_hash);
  json["attention"] = AttentionName(spec.attention);
  json["dtype"] = Name(spec.dtype);
  json["num_layers"] = spec.num_layers;
  json["num_query_heads"] = spec.num_query_heads;
  json["num_kv_heads"] = spec.num_kv_heads;
  json["head_dim"] = spec.head_dim;
  json["latent_dim"] = spec.latent_dim;
  json["latent_rope_dim"] = spec.latent_rope_dim;
  json["page_tokens"] = spec.page_tokens;
  json["segment_pages"] = spec.segment_pages;
  json["rope"] = RopeJson(spec.rope);
  json["fingerprint"] = HexOf(Fingerprint(spec));
  return json;
}

Status RunSpec(const SpecArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  QUIRE_ASSIGN_OR_RETURN(const KvSpec spec, worker::ReadSpecOfPages(model, args.form));
  const Json json = SpecJson(spec);
  if (context.options.json) {
    PrintJsonLine(context.out, json);
    return OkStatus();
  }
  Table table({{"FIELD"}, {"VALUE"}});
  for (const auto& [field, value] : json.items()) {
    table.AddRow({field, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  table.Print(context.out);
  return OkStatus();
}

}  // namespace

void AddSpecCommand(Commands& commands) {
  const auto args = std::make_shared<SpecArgs>();
  CLI::App& command = commands.Add(
      {.name = "spec",
       .summary = "Show what the KV pages of a model mean, and their fingerprint",
       .examples = "  quire spec --model DIR\n"
                   "  quire spec --model DIR --dtype bf16 --json   arguments of quire.KvSpec"},
      args, &RunSpec);
  command.add_option("--model", args->model,
                     "Directory of the model (the bundled one when not given)");
  const std::map<std::string, DType> dtypes = {
      {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
  command.add_option("--dtype", args->form.dtype, "Element type of the pages: f32, f16 or bf16")
      ->transform(CLI::CheckedTransformer(dtypes).description(""))
      ->type_name("TYPE")
      ->default_str("f32");
  command.add_option("--page-tokens", args->form.page_tokens, "Tokens of a page")
      ->check(CLI::Range(uint32_t{1}, KvSpecLimits::kMaxPageTokens))
      ->capture_default_str();
  command.add_option("--segment-pages", args->form.segment_pages, "Pages of a segment")
      ->check(CLI::Range(uint32_t{1}, KvSpecLimits::kMaxSegmentPages))
      ->capture_default_str();
}

}  // namespace quire::cli
