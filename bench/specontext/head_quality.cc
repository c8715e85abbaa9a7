// SPDX-License-Identifier: Apache-2.0
#include "bench/specontext/head_quality.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/kit/budget_share.h"
#include "bench/kit/published_options.h"
#include "bench/policy/exact_attention.h"
#include "bench/policy/oracle_policy.h"
#include "bench/policy/paged_rows.h"
#include "bench/policy/policy_model.h"
#include "gpuworker/retrieval/policies/quest.h"
#include "gpuworker/retrieval/policies/specontext.h"

namespace quire::bench {
namespace {

constexpr const char* kBestPagesTrial = "oracle";

using History = std::vector<std::vector<std::vector<uint32_t>>>;

/// Units of the steps from `first` on, each against the step before.
SelectedUnits UnitsFrom(const History& history, size_t first) {
  SelectedUnits units;
  for (size_t step = std::max<size_t>(first, 1); step < history.size(); ++step) {
    for (size_t head = 0; head < history[step].size(); ++head) {
      const std::vector<uint32_t>&now = history[step][head], &before = history[step - 1][head];
      units.selected += now.size();
      units.moved += static_cast<uint64_t>(std::ranges::count_if(
          now, [&](uint32_t page) { return !std::ranges::binary_search(before, page); }));
    }
  }
  return units;
}

/// The trials of one recorded layer.
class LayerTrials {
 public:
  LayerTrials(const RecordedLayer& layer, const PagedRows& rows, const QualityOptions& options)
      : layer_(layer),
        rows_(rows),
        memory_(options.memory),
        budget_(BudgetShare(options.percent, layer.tokens, layer.spec.page_tokens)) {}

  Status Run(const HeadsByMode& heads, QualityByName* quality) {
    QUIRE_RETURN_IF_ERROR(MakeAll(heads));
    const size_t row = size_t{layer_.spec.num_query_heads} * layer_.spec.head_dim;
    const float scale = 1 / std::sqrt(static_cast<float>(layer_.spec.head_dim));
    for (uint64_t step = 0; step < layer_.steps; ++step) {
      const auto queries = std::span(layer_.queries).subspan(step * row, row);
      QUIRE_RETURN_IF_ERROR(exact_.Compute(rows_, layer_.tokens + step + 1, queries, scale));
      for (auto& [name, trial] : trials_) {
        QUIRE_RETURN_IF_ERROR(Annotate(trial.Step(exact_, queries, scale), name));
      }
    }
    for (const auto& [name, trial] : trials_) {
      (*quality)[name].Add({.figures = trial.figures(),
                            .decoded = UnitsFrom(trial.history(), layer_.question_steps)});
    }
    return OkStatus();
  }

 private:
  Status MakeAll(const HeadsByMode& heads) {
    worker::PolicyContext context{
        .spec = layer_.spec, .device = &worker::CpuDevice(), .options = budget_};
    context.max_context_tokens = uint64_t{rows_.num_pages()} * layer_.spec.page_tokens;
    QUIRE_RETURN_IF_ERROR(
        Add(kBestPagesTrial, context, std::make_unique<OraclePolicy>(context, &exact_)));
    QUIRE_RETURN_IF_ERROR(AddTrial("quest", worker::QuestPolicy::kName, 1, context));
    for (const auto& [mode, head] : heads) {
      context.head = head.get();
      const std::string name(worker::Name(mode));
      QUIRE_RETURN_IF_ERROR(AddTrial(name, worker::SpeContextPolicy::kName, memory_, context));
      QUIRE_RETURN_IF_ERROR(
          AddTrial(name + kAsPublished, worker::SpeContextPolicy::kName, 1, context));
    }
    return OkStatus();
  }
  Status AddTrial(const std::string& name, std::string_view policy, uint32_t memory,
                  worker::PolicyContext context) {
    QUIRE_ASSIGN_OR_RETURN(context.options,
                           PublishedWithin(budget_, std::string(policy), layer_.spec.page_tokens));
    context.options.selection_memory = memory;
    QUIRE_ASSIGN_OR_RETURN(auto made, worker::MakePolicy(context));
    return Add(name, context, std::move(made));
  }
  Status Add(const std::string& name, const worker::PolicyContext& context,
             std::unique_ptr<worker::RetrievalPolicy> policy) {
    QUIRE_ASSIGN_OR_RETURN(PolicyTrial trial,
                           PolicyTrial::Make(context, rows_, std::move(policy), layer_.tokens,
                                             {.ids = layer_.ids, .hidden = layer_.hidden}));
    trials_.emplace(name, std::move(trial));
    return OkStatus();
  }

  const RecordedLayer& layer_;
  const PagedRows& rows_;
  const uint32_t memory_;
  const worker::RetrievalOptions budget_;
  ExactAttention exact_;
  std::map<std::string, PolicyTrial> trials_;
};

}  // namespace

void SelectedUnits::Add(const SelectedUnits& other) {
  selected += other.selected;
  moved += other.moved;
}

double SelectedUnits::moved_ratio() const {
  return selected == 0 ? 0 : static_cast<double>(moved) / static_cast<double>(selected);
}

void SelectionQuality::Add(const SelectionQuality& other) {
  figures.Add(other.figures);
  decoded.Add(other.decoded);
}

StatusOr<QualityByName> MeasureQuality(const std::string& model_directory, const HeadsByMode& heads,
                                       uint32_t page_tokens, const QualityOptions& options) {
  QualityByName quality;
  const RecordOptions recorded{.questions = options.questions,
                               .page_tokens = page_tokens,
                               .decoded_tokens = options.decoded_tokens};
  QUIRE_RETURN_IF_ERROR(
      RecordModel(model_directory, recorded, [&](const RecordedLayer& layer) -> Status {
        QUIRE_ASSIGN_OR_RETURN(const PagedRows rows, PagedRows::Make(layer.spec, layer.units));
        return LayerTrials(layer, rows, options).Run(heads, &quality);
      }));
  return quality;
}

}  // namespace quire::bench
