// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/plan/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "apps/kit/output/table.h"
#include "gpuworker/memory/fit_advice.h"
#include "gpuworker/model/checkpoint/config.h"

namespace quire::cli {
namespace {

using worker::DecodeEvent;
using worker::DecodeEventKind;
using worker::DecodeWalk;
using worker::FitAdvice;
using worker::MemoryModel;
using worker::MemoryModelOptions;
using worker::ModelSizes;

constexpr size_t kTextWidth = 72, kTextHeight = 14;
constexpr double kGiB = 0x1p30;

StatusOr<ModelSizes> ReadSizes(const std::string& model) {
  if (std::ranges::count(worker::PresetNames(), model) > 0) return worker::PresetSizes(model);
  std::error_code error;
  const bool directory = std::filesystem::is_directory(model, error);
  const std::string path = directory ? model + "/config.json" : model;
  if (!std::filesystem::exists(path, error)) {
    return Annotate(worker::PresetSizes(model).status(), "there is no file ", path, " either");
  }
  QUIRE_ASSIGN_OR_RETURN(const worker::ModelConfig config, worker::LoadModelConfig(path));
  return worker::SizesOf(config, model);
}

MemoryModelOptions OptionsOf(const PlanArgs& args, const ModelSizes& sizes) {
  MemoryModelOptions options = worker::PlanOptions(sizes, args.dtype);
  options.device_bytes = args.device_bytes;
  options.requests = args.requests;
  options.budget_tokens = args.budget_tokens;
  options.head_has_values = !args.key_only_head;
  options.runtime_bytes = args.runtime_bytes;
  if (args.draft_bytes) options.draft_bytes = *args.draft_bytes;
  return options;
}

Status CheckPositions(const PlanArgs& args, const ModelSizes& sizes) {
  uint64_t longest = args.context_tokens;
  for (const uint64_t prompt : args.prompts) longest = std::max(longest, prompt + args.generate);
  if (longest <= sizes.max_positions) return OkStatus();
  return InvalidArgument(sizes.name, " has ", sizes.max_positions, " positions, and ", longest,
                         " tokens are asked for; ask for fewer");
}

/// Size in GiB, or in MiB for a small one, rounded up so that the flag with it suffices.
std::string SizeFlag(uint64_t bytes) {
  const bool small = static_cast<double>(bytes) < 2 * kGiB;
  const uint64_t unit = small ? uint64_t{1} << 20 : uint64_t{1} << 30;
  return std::to_string((bytes + unit - 1) / unit) + (small ? "MiB" : "GiB");
}

Status DoesNotFit(const MemoryModelOptions& options, uint64_t tokens) {
  const FitAdvice advice = worker::WhatWouldFit(options, tokens);
  std::string what = "--gpu-mem " + SizeFlag(advice.device_bytes);
  if (advice.requests) what += ", or --requests " + std::to_string(*advice.requests);
  if (advice.budget_tokens) what += ", or --budget " + std::to_string(*advice.budget_tokens);
  if (advice.tokens) what += ", or --context " + std::to_string(*advice.tokens);
  return InvalidArgument(options.requests, " requests of ", tokens, " tokens do not fit in ",
                         FormatBytes(options.device_bytes),
                         " even with every layer off the device; what would: ", what);
}

std::string LayersText(uint32_t first, uint32_t end) {
  if (first == end) return "-";
  return std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : "");
}

void PrintThresholds(const MemoryPlan& plan, std::ostream& out) {
  const MemoryModel& model = plan.model;
  const uint32_t layers = model.num_layers();
  Table table({{"OFFLOADED", Table::kRight},
               {"THRESHOLD", Table::kRight},
               {"ON DEVICE"},
               {"LAYERS OFF"},
               {"ON HOST", Table::kRight},
               {"DEVICE USED", Table::kRight}});
  for (uint32_t i = 0; i <= layers; ++i) {
    const uint64_t tokens = model.thresholds()[i];
    const auto host = i * model.LayerBytes(model.LoadOf(model.options().requests, tokens));
    table.AddRow({std::to_string(i), "s" + std::to_string(i) + " = " + FormatCount(tokens),
                  std::to_string(layers - i) + " of " + std::to_string(layers),
                  LayersText(layers - i, layers), FormatBytes(static_cast<uint64_t>(host)),
                  FormatBytes(static_cast<uint64_t>(model.Bytes(i, tokens)))});
  }
  table.Print(out);
}

bool IsOfLayer(DecodeEventKind kind) {
  return kind == DecodeEventKind::kWriteBegins || kind == DecodeEventKind::kLayerLeaves ||
         kind == DecodeEventKind::kLayerReturns;
}

void PrintWalk(const DecodeWalk& walk, std::ostream& out) {
  Table table({{"STEP", Table::kRight}, {"WHAT"}, {"WHICH"}, {"TOKENS", Table::kRight}});
  for (const DecodeEvent& event : walk.events) {
    const std::string which = IsOfLayer(event.kind) ? "layer " + std::to_string(event.subject)
                                                    : "request " + std::to_string(event.subject);
    table.AddRow(
        {FormatCount(event.step), std::string(Name(event.kind)), which, FormatCount(event.tokens)});
  }
  table.Print(out);
  out << FormatCount(walk.steps) << " steps, " << walk.most_running << " requests at a time, "
      << walk.most_offloaded << " layers off at most, " << walk.most_left_in_a_step
      << " in one step at most, " << FormatBytes(static_cast<uint64_t>(walk.most_bytes))
      << " of the device at most\n";
}

Json WalkJson(const DecodeWalk& walk) {
  Json events = Json::array();
  for (const DecodeEvent& event : walk.events) {
    events.push_back({{"step", event.step},
                      {"what", std::string(Name(event.kind))},
                      {IsOfLayer(event.kind) ? "layer" : "request", event.subject},
                      {"tokens", event.tokens}});
  }
  return {{"steps", walk.steps},
          {"most_running", walk.most_running},
          {"most_offloaded", walk.most_offloaded},
          {"most_left_in_a_step", walk.most_left_in_a_step},
          {"most_bytes", std::ceil(walk.most_bytes)},
          {"events", std::move(events)}};
}

}  // namespace

StatusOr<MemoryPlan> MakePlan(const PlanArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(ModelSizes sizes, ReadSizes(args.model));
  QUIRE_RETURN_IF_ERROR(CheckPositions(args, sizes));
  const MemoryModelOptions options = OptionsOf(args, sizes);
  auto model = MemoryModel::Create(options);
  if (!model.ok() || model->thresholds().back() < args.context_tokens) {
    return DoesNotFit(options, args.context_tokens);
  }
  MemoryPlan plan{.sizes = std::move(sizes), .model = *std::move(model), .walk = {}};
  if (!args.prompts.empty()) {
    QUIRE_ASSIGN_OR_RETURN(plan.walk, WalkDecode(plan.model, {.prompts = args.prompts,
                                                              .generated = args.generate,
                                                              .lead_steps = args.lead_steps}));
  }
  return plan;
}

ScatterPlot PlanPlot(const MemoryPlan& plan) {
  const std::vector<uint64_t>& thresholds = plan.model.thresholds();
  const auto end = static_cast<double>(thresholds.back());
  const auto all_at_once = static_cast<double>(thresholds.front());
  const double layers = plan.model.num_layers();
  PlotLine planned{.name = "planned", .points = {{0, layers}}, .marked = false};
  double on_device = layers;
  for (size_t i = 0; i < plan.model.num_layers(); ++i) {
    const auto length = static_cast<double>(thresholds[i]);
    planned.points.push_back({length, on_device});
    planned.points.push_back({length, --on_device});
  }
  planned.points.push_back({end, on_device});
  return {.title = plan.sizes.name + ", " + std::to_string(plan.model.options().requests) +
                   " requests, budget " + std::to_string(plan.model.options().budget_tokens),
          .x_title = "tokens of each request",
          .y_title = "layers on the device",
          .lines = {planned,
                    {.name = "all at once",
                     .points = {{0, layers}, {all_at_once, layers}, {all_at_once, 0}, {end, 0}},
                     .marked = false}}};
}

Json PlanJson(const MemoryPlan& plan) {
  const MemoryModelOptions& options = plan.model.options();
  Json json = {{"model", plan.sizes.name},
               {"device_bytes", options.device_bytes},
               {"model_bytes", options.model_bytes},
               {"draft_bytes", options.draft_bytes},
               {"weight_bytes", std::ceil(plan.model.weight_bytes())},
               {"requests", options.requests},
               {"budget_tokens", options.budget_tokens},
               {"layers", options.num_layers},
               {"max_positions", plan.sizes.max_positions}};
  for (uint32_t i = 0; i <= options.num_layers; ++i) {
    json["s" + std::to_string(i)] = plan.model.thresholds()[i];
  }
  if (plan.walk) json["decode"] = WalkJson(*plan.walk);
  return json;
}

void PrintPlan(const MemoryPlan& plan, std::ostream& out) {
  const MemoryModelOptions& options = plan.model.options();
  out << plan.sizes.name << ": " << FormatBytes(worker::WholeBytes(plan.model.weight_bytes()))
      << " of weights and run-time memory in " << FormatBytes(options.device_bytes) << ", "
      << options.requests << " requests, budget " << FormatCount(options.budget_tokens)
      << " tokens\nA request's length at a threshold, or above it, moves one more layer off.\n\n";
  PrintThresholds(plan, out);
  out << "\n" << ToText(PlanPlot(plan), kTextWidth, kTextHeight);
  if (plan.model.thresholds().back() > plan.sizes.max_positions) {
    out << "The model itself ends at " << FormatCount(plan.sizes.max_positions) << " positions.\n";
  }
  if (!plan.walk) return;
  out << "\n";
  PrintWalk(*plan.walk, out);
}

}  // namespace quire::cli
