// SPDX-License-Identifier: Apache-2.0
#include "bench/specontext/head_costs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/decode/decode_lane.h"
#include "bench/kit/median.h"
#include "bench/kit/published_options.h"
#include "common/base/random.h"
#include "gpuworker/model/hidden_tap.h"
#include "gpuworker/retrieval/policies/quest.h"
#include "gpuworker/retrieval/policies/specontext.h"
#include "gpuworker/retrieval/token_observer.h"

namespace quire::bench {
namespace {

constexpr uint32_t kStepsBefore = 4;
constexpr uint32_t kBatchOfCosts = 4;
constexpr uint64_t kCostsSeed = 3;

StatusOr<DecodeWay> WayWithin(std::string_view policy, const worker::RetrievalOptions& budget,
                              uint32_t page_tokens) {
  DecodeWay way{.name = std::string(policy)};
  QUIRE_ASSIGN_OR_RETURN(way.retrieval, PublishedWithin(budget, way.name, page_tokens));
  way.retrieval.selection_memory = budget.selection_memory;
  return way;
}

/// Times `steps` of a lane, after some that are not timed.
StatusOr<std::vector<Duration>> TimesOfSteps(DecodeLane& lane, uint32_t steps) {
  std::vector<Duration> times;
  for (uint32_t i = 0; i < kStepsBefore + steps; ++i) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(lane.Step());
    if (i >= kStepsBefore) times.push_back(SystemClock().Now() - start);
  }
  return times;
}

/// Hidden states of `tokens` tokens, all alike, for a policy that sees them: times do not depend on
/// what they are.
void ShowAnyHidden(worker::RetrievalPolicy& policy, const worker::ModelConfig& model,
                   size_t tokens) {
  worker::HiddenTap* const tap = policy.hidden_tap();
  if (tap == nullptr) return;
  const std::vector<float> rows(tokens * model.hidden_size, 1.0f);
  for (uint32_t layer = 0; layer < model.num_layers; ++layer) {
    if (tap->Wants(layer)) tap->Take(layer, rows);
  }
}

/// Median time of a policy's decode step, as a sequence asks: one token, then every layer.
StatusOr<Duration> TimeHead(const worker::Engine& engine, std::span<const TokenId> tokens,
                            const worker::RetrievalOptions& retrieval, uint32_t steps) {
  worker::PolicyContext context{.spec = engine.spec(),
                                .device = &worker::CpuDevice(),
                                .max_context_tokens = engine.model().max_positions,
                                .options = retrieval};
  context.head = engine.options().head.get();
  QUIRE_ASSIGN_OR_RETURN(const auto policy, worker::MakePolicy(context));
  policy->token_observer()->OnTokens(tokens);
  ShowAnyHidden(*policy, engine.model(), tokens.size());
  const uint32_t p = engine.spec().page_tokens;
  worker::SelectRequest request{
      .candidates = {retrieval.sink_tokens / p,
                     static_cast<uint32_t>(tokens.size() - retrieval.window_tokens) / p},
      .max_pages = (retrieval.budget_tokens - retrieval.sink_tokens - retrieval.window_tokens) / p};
  SeededRandom random(kCostsSeed);
  std::vector<Duration> times;
  for (uint32_t i = 0; i < kStepsBefore + steps; ++i) {
    const auto token = static_cast<TokenId>(random.Below(engine.model().vocab_size));
    request.position = tokens.size() + i + 1;
    const TimePoint start = SystemClock().Now();
    policy->token_observer()->OnTokens({&token, 1});
    for (request.layer = 0; request.layer < engine.spec().num_layers; ++request.layer) {
      QUIRE_RETURN_IF_ERROR(policy->Select(request).status());
    }
    if (i >= kStepsBefore) times.push_back(SystemClock().Now() - start);
    ShowAnyHidden(*policy, engine.model(), 1);
  }
  return Median(std::move(times));
}

}  // namespace

double HeadCosts::head_share() const {
  return static_cast<double>(head.count()) /
         static_cast<double>(std::max<int64_t>(step.count(), 1));
}

StatusOr<HeadCosts> MeasureHeadCosts(const worker::Engine& engine, const DocumentName& document,
                                     std::span<const TokenId> tokens,
                                     const worker::RetrievalOptions& budget, uint32_t steps) {
  HeadCosts costs{.steps = steps, .sequences = kBatchOfCosts};
  const DecodeEngines engines{.units = &engine};
  const auto open = [&](const DecodeWay& way, uint32_t sequences) {
    return DecodeLane::Open(engines, document, way, sequences);
  };
  QUIRE_ASSIGN_OR_RETURN(const DecodeWay specontext, WayWithin(worker::SpeContextPolicy::kName,
                                                               budget, engine.spec().page_tokens));
  QUIRE_ASSIGN_OR_RETURN(const DecodeWay quest,
                         WayWithin(worker::QuestPolicy::kName, budget, engine.spec().page_tokens));
  for (const auto& [way, median] :
       {std::pair(&specontext, &costs.step), std::pair(&quest, &costs.quest_step)}) {
    QUIRE_ASSIGN_OR_RETURN(const auto lane, open(*way, 1));
    QUIRE_ASSIGN_OR_RETURN(std::vector<Duration> times, TimesOfSteps(*lane, steps));
    *median = Median(std::move(times));
  }
  QUIRE_ASSIGN_OR_RETURN(costs.head, TimeHead(engine, tokens, specontext.retrieval, steps));
  QUIRE_ASSIGN_OR_RETURN(const auto batch, open(specontext, kBatchOfCosts));
  QUIRE_RETURN_IF_ERROR(batch->Step());  // It opens its sequences.
  const uint64_t before = batch->Totals().messages;
  for (uint32_t i = 0; i < steps; ++i) QUIRE_RETURN_IF_ERROR(batch->Step());
  costs.messages_per_step = static_cast<double>(batch->Totals().messages - before) / steps;
  return costs;
}

}  // namespace quire::bench
