// SPDX-License-Identifier: Apache-2.0
//
// quire plan: which layers' caches a device holds at which length.
#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "apps/kit/output/json_output.h"
#include "apps/quire/commands.h"
#include "apps/quire/plan/memory_plan.h"

namespace quire::cli {
namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 30;
constexpr size_t kMostPrompts = 1024;

Status WritePlanPlot(const std::string& path, const MemoryPlan& plan) {
  if (path.empty()) return OkStatus();
  std::ofstream file(path);
  file << ToSvg(PlanPlot(plan));
  file.close();
  return file ? OkStatus()
              : InvalidArgument("cannot write ", path,
                                "; name a file in a directory that exists and can be written to");
}

Status RunPlan(const PlanArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan plan, MakePlan(args));
  QUIRE_RETURN_IF_ERROR(WritePlanPlot(args.plot, plan));
  if (context.options.json) {
    PrintJsonLine(context.out, PlanJson(plan));
  } else {
    PrintPlan(plan, context.out);
  }
  return OkStatus();
}

CLI::Option* AddSize(CLI::App& command, const std::string& name, auto& value,
                     const std::string& what) {
  return command.add_option(name, value, what)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE");
}

void AddModelFlags(CLI::App& command, PlanArgs* args) {
  std::string known;
  for (const std::string_view name : worker::PresetNames()) known += ", " + std::string(name);
  command
      .add_option("--model", args->model,
                  "A config.json, its directory, or one of" + known.substr(1))
      ->capture_default_str();
  const std::map<std::string, DType> types = {
      {"f16", DType::kF16}, {"bf16", DType::kBF16}, {"f32", DType::kF32}};
  command.add_option("--dtype", args->dtype, "Type of keys and values: f16, bf16 or f32")
      ->transform(CLI::CheckedTransformer(types).description(""))
      ->type_name("TYPE")
      ->default_str("f16");
  AddSize(command, "--draft-bytes", args->draft_bytes,
          "Weights of the retrieval head; by default those of the model's");
  AddSize(command, "--runtime-bytes", args->runtime_bytes,
          "Measured memory besides weights and caches; by default 30 % of the weights");
  command.add_flag("--key-only-head", args->key_only_head,
                   "The retrieval head keeps keys and no values");
}

void AddLoadFlags(CLI::App& command, PlanArgs* args) {
  AddSize(command, "--gpu-mem", args->device_bytes, "Memory of the device, as 80GiB")
      ->default_str("80GiB");
  command.add_option("--requests", args->requests, "Requests at a time, of one length")
      ->check(CLI::Range(uint32_t{1}, uint32_t{1} << 20))
      ->capture_default_str();
  command.add_option("--budget", args->budget_tokens, "Tokens of an offloaded layer that stay")
      ->check(CLI::Range(uint64_t{1}, kMostTokens))
      ->capture_default_str();
  command
      .add_option("--context", args->context_tokens,
                  "Length that the requests must reach: fails, and says what would do, if not")
      ->check(CLI::Range(uint64_t{1}, kMostTokens))
      ->capture_default_str();
}

void AddDecodeFlags(CLI::App& command, PlanArgs* args) {
  CLI::Option* generate =
      command.add_option("--generate", args->generate, "Tokens that each request generates")
          ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}));
  CLI::Option* prompts =
      command.add_option("--prompts", args->prompts, "Walk a decode over prompts of these lengths")
          ->delimiter(',')
          ->expected(1, static_cast<int>(kMostPrompts))
          ->check(CLI::Range(uint64_t{1}, kMostTokens))
          ->type_name("TOKENS,...")
          ->needs(generate);
  generate->needs(prompts);
  command
      .add_option("--lead", args->lead_steps, "Steps for which a layer is written before it leaves")
      ->check(CLI::Range(uint32_t{0}, uint32_t{65536}))
      ->needs(prompts)
      ->capture_default_str();
}

}  // namespace

void AddPlanCommand(Commands& commands) {
  const auto args = std::make_shared<PlanArgs>();
  CLI::App& command = commands.Add(
      {.name = "plan",
       .summary = "Plan which layers' caches a device holds at which length",
       .examples =
           "  quire plan --model llama-3.1-8b --gpu-mem 80GiB --requests 16 --budget 2048\n"
           "  quire plan --model DIR/config.json --gpu-mem 24GiB --plot plan.svg\n"
           "  quire plan --requests 32 --context 100000 --json     keys s0 ... sL\n"
           "  quire plan --gpu-mem 40GiB --prompts 16384,16384,65536 --generate 32768\n"
           "Nothing is loaded and no server is called. docs/operations.md says how to read it.",
       .calls_no_server = true},
      args, &RunPlan);
  AddModelFlags(command, args.get());
  AddLoadFlags(command, args.get());
  AddDecodeFlags(command, args.get());
  command.add_option("--plot", args->plot, "Write the plot to this SVG file")->type_name("FILE");
}

}  // namespace quire::cli
