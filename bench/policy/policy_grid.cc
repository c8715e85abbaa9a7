// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/policy_grid.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "bench/kit/published_options.h"
#include "bench/policy/add_fields.h"
#include "bench/policy/oracle_policy.h"
#include "bench/stream/query_stream.h"
#include "bench/stream/stream_context.h"
#include "common/base/random.h"
#include "common/base/threads/executor.h"
#include "common/base/threads/mutex.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr double kCosines[] = {.80, .84, .90, .95, .99};
constexpr double kJumpRates[] = {0, .01, .05};
constexpr uint32_t kTokens[] = {8192, 32768, 131072};
constexpr uint32_t kKvHeads = 2;
constexpr uint32_t kHeadDim = 64;
constexpr uint32_t kBudgetShare = 16;   ///< Length of the context in budgets.
constexpr uint32_t kFixedTokens = 128;  ///< Tokens of the sinks, and of the window.

constexpr double kTurned = 0.8;  ///< The published threshold of freekv.

constexpr const char* kOracle = "oracle";
/// Compared page for page with freekv that always corrects, and therefore blocks.
constexpr const char* kBlocking = "quest_mean_softmax";

/// A trial: a registered policy with a change to its published options.
struct Variant {
  const char* name;
  const char* policy;
  std::optional<float> threshold = {};
  std::optional<kernels::Pooling> pooling = {};
};
constexpr Variant kVariants[] = {{"freekv_tau_0.9", "freekv", 0.9f},
                                 {"speculation", "freekv", -1.01f},
                                 {"correction", "freekv", 1.01f},
                                 {kBlocking, "quest", {}, kernels::Pooling::kAvgSM}};

/// `common` has the budget, and may have a key rank.
StatusOr<worker::RetrievalOptions> OptionsOf(const std::string& name,
                                             const worker::RetrievalOptions& common,
                                             uint32_t page_tokens) {
  if (name == kOracle) return common;
  const auto* const variant = std::ranges::find(kVariants, name, &Variant::name);
  const bool varied = variant != std::end(kVariants);
  QUIRE_ASSIGN_OR_RETURN(
      worker::RetrievalOptions options,
      PublishedWithin(common, varied ? std::string(variant->policy) : name, page_tokens));
  if (common.key_rank > 0) options.key_rank = common.key_rank;
  if (varied && variant->threshold) options.correction_threshold = *variant->threshold;
  if (varied && variant->pooling) options.pooling = *variant->pooling;
  return options;
}

KvSpec SpecOf(uint32_t page_tokens, uint32_t group_size) {
  KvSpec spec;
  spec.model = "bench-policy";
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_kv_heads = kKvHeads;
  spec.num_query_heads = kKvHeads * group_size;
  spec.head_dim = kHeadDim;
  spec.page_tokens = page_tokens;
  return spec;
}

/// The queries of all KV heads of one layer.
class LayerQueries {
 public:
  LayerQueries(const StreamContext& context, const GridCell& cell, uint64_t seed) {
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      streams_.emplace_back(context.pages(0, head), QueryOptions{.group_size = cell.group_size,
                                                                 .cosine = cell.cosine,
                                                                 .jump_rate = cell.jump_rate,
                                                                 .seed = seed * kKvHeads + head});
    }
  }
  std::vector<float> queries() const {
    std::vector<float> all;
    for (const QueryStream& stream : streams_) {
      all.insert(all.end(), stream.queries().begin(), stream.queries().end());
    }
    return all;
  }
  void Step() {
    for (QueryStream& stream : streams_) {
      const uint32_t before = stream.topic();
      stream.Step();
      jumps_ += stream.topic() != before;
    }
  }
  /// Steps of a head that moved to another topic.
  uint64_t jumps() const { return jumps_; }

 private:
  std::vector<QueryStream> streams_;
  uint64_t jumps_ = 0;
};

/// Seed of the queries over a context of one shape; where they jump does not depend on c.
uint64_t SeedOf(const GridCell& cell, uint64_t seed) {
  for (const uint32_t part : {cell.tokens, cell.page_tokens, cell.group_size}) {
    seed = SeededRandom(seed + part).Next();
  }
  return seed;
}

std::vector<std::string> ValuesOf(const GridCell& cell) {
  return {"c=" + cli::FormatRatio(cell.cosine, 2), "rho=" + cli::FormatRatio(cell.jump_rate, 2),
          "N=" + std::to_string(cell.tokens), "G=" + std::to_string(cell.group_size),
          "p=" + std::to_string(cell.page_tokens)};
}

/// Result of one cell.
struct CellResult {
  FiguresByPolicy figures;
  Orderings orderings;
};

StatusOr<CellResult> RunCell(const StreamContext& context, const PagedRows& rows,
                             const GridCell& cell, const GridOptions& options) {
  worker::RetrievalOptions retrieval;
  retrieval.budget_tokens = cell.tokens / kBudgetShare + 2 * kFixedTokens;
  retrieval.sink_tokens = kFixedTokens;
  retrieval.window_tokens = kFixedTokens;
  retrieval.uncompressed_layers = {};
  retrieval.key_rank = options.key_rank;
  QUIRE_ASSIGN_OR_RETURN(const auto set,
                         TrialSet::Make(rows, retrieval, options.trials, cell.tokens));
  LayerQueries queries(context, cell, SeedOf(cell, options.seed));
  for (uint32_t step = 0; step < options.steps; ++step) {
    if (step > 0) queries.Step();
    // The stream's lengths are calibrated for products without a scale.
    QUIRE_RETURN_IF_ERROR(set->Step(cell.tokens, queries.queries(), 1.0f));
  }
  CellResult result;
  for (const auto& [name, trial] : set->trials()) result.figures[name] = trial.figures();
  result.orderings.Add(cell, *set, queries.jumps());
  return result;
}

class GridRun {
 public:
  GridRun(const GridOptions& options, uint64_t cells)
      : options_(options), progress_("synthetic stream", cells) {}

  /// Runs all cells over one context, which differ in queries only.
  Status RunContext(uint32_t tokens, uint32_t page_tokens) {
    const KvSpec spec = SpecOf(page_tokens, 1);
    QUIRE_ASSIGN_OR_RETURN(
        const StreamContext context,
        StreamContext::Make(spec, {.pages = tokens / page_tokens, .seed = options_.seed}));
    for (const uint32_t group_size : options_.group_sizes) {
      QUIRE_ASSIGN_OR_RETURN(const PagedRows rows,
                             PagedRows::Make(SpecOf(page_tokens, group_size), UnitsOf(context)));
      QUIRE_RETURN_IF_ERROR(RunCells(context, rows, CellsOf(tokens, page_tokens, group_size)));
    }
    return OkStatus();
  }
  GridResult Take() { return std::move(result_); }

 private:
  /// Units lie one after the other, page by page.
  static std::span<const float> UnitsOf(const StreamContext& context) {
    const uint64_t bytes = uint64_t{context.num_pages()} * kKvHeads * UnitBytes(context.spec());
    return {reinterpret_cast<const float*>(context.unit(0, 0, 0).data()), bytes / sizeof(float)};
  }
  static std::vector<GridCell> CellsOf(uint32_t tokens, uint32_t page_tokens, uint32_t group_size) {
    std::vector<GridCell> cells;
    for (const double cosine : kCosines) {
      for (const double jump_rate : kJumpRates) {
        cells.push_back({.tokens = tokens,
                         .page_tokens = page_tokens,
                         .group_size = group_size,
                         .cosine = cosine,
                         .jump_rate = jump_rate});
      }
    }
    return cells;
  }

  /// Runs several at a time, and adds them in order, so that sums do not depend on the threads.
  Status RunCells(const StreamContext& context, const PagedRows& rows,
                  const std::vector<GridCell>& cells) {
    std::vector<StatusOr<CellResult>> results(cells.size(), CellResult{});
    {
      ThreadPool pool({.threads = options_.threads, .queue_limit = cells.size()});
      for (size_t i = 0; i < cells.size(); ++i) {
        QUIRE_RETURN_IF_ERROR(pool.Submit([&, i] {
          results[i] = RunCell(context, rows, cells[i], options_);
          const MutexLock lock(mutex_);
          progress_.Advance();
        }));
      }
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(results[i].status());
      Add(cells[i], *results[i]);
    }
    return OkStatus();
  }

  void Add(const GridCell& cell, const CellResult& result) {
    for (const auto& [name, figures] : result.figures) {
      result_.all[name].Add(figures);
      for (const std::string& value : ValuesOf(cell)) result_.by_value[value][name].Add(figures);
    }
    result_.orderings.Add(result.orderings);
  }

  const GridOptions options_;
  GridResult result_;
  Mutex mutex_;
  cli::ProgressBar progress_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<std::string> TrialNames() {
  std::vector<std::string> names = {kOracle};
  for (const std::string_view name : worker::PolicyNames()) names.emplace_back(name);
  for (const Variant& variant : kVariants) names.emplace_back(variant.name);
  return names;
}

std::vector<std::string> OrderedTrials() {
  return {kOracle, "quest", "streaming", "freekv", "speculation", "correction", kBlocking};
}

StatusOr<std::unique_ptr<TrialSet>> TrialSet::Make(const PagedRows& rows,
                                                   const worker::RetrievalOptions& options,
                                                   std::span<const std::string> names,
                                                   uint64_t tokens) {
  auto set = std::unique_ptr<TrialSet>(new TrialSet());
  set->rows_ = &rows;
  for (const std::string& name : names) {
    const uint32_t page_tokens = rows.spec().page_tokens;
    worker::PolicyContext context{.spec = rows.spec(),
                                  .device = &worker::CpuDevice(),
                                  .max_context_tokens = uint64_t{rows.num_pages()} * page_tokens,
                                  .options = {}};
    QUIRE_ASSIGN_OR_RETURN(context.options, OptionsOf(name, options, page_tokens));
    std::unique_ptr<worker::RetrievalPolicy> policy;
    if (name == kOracle) {
      policy = std::make_unique<OraclePolicy>(context, &set->exact_);
    } else {
      QUIRE_ASSIGN_OR_RETURN(policy, worker::MakePolicy(context));
    }
    QUIRE_ASSIGN_OR_RETURN(PolicyTrial trial,
                           PolicyTrial::Make(context, rows, std::move(policy), tokens));
    set->trials_.emplace(name, std::move(trial));
  }
  return set;
}

Status TrialSet::Step(uint64_t tokens, std::span<const float> queries, float scale) {
  QUIRE_RETURN_IF_ERROR(exact_.Compute(*rows_, tokens, queries, scale));
  for (auto& [name, trial] : trials_) {
    QUIRE_RETURN_IF_ERROR(Annotate(trial.Step(exact_, queries, scale), "policy ", name));
  }
  return OkStatus();
}

void JumpOrdering::Add(const JumpOrdering& other) {
  using J = JumpOrdering;
  AddFields(other, this, &J::cells, &J::jumps, &J::corrected, &J::not_improved, &J::freekv_mass,
            &J::speculation_mass);
}

void Orderings::Add(const GridCell& cell, const TrialSet& set, uint64_t jumps) {
  constexpr double kRounding = 1e-6;  // Masses are kept as float.
  const auto mass = [&](const char* name) { return set.trials().at(name).figures().mean_mass(); };
  ++cells;
  oracle_below_quest += mass("oracle") + kRounding < mass("quest");
  quest_below_streaming += mass("quest") + kRounding < mass("streaming");
  const auto& blocking = set.trials().at(kBlocking).history();
  const auto& speculation = set.trials().at("speculation").history();
  correction_differs_from_quest += set.trials().at("correction").history() != blocking;
  const bool a_step_old = speculation.front() == blocking.front() &&
                          std::equal(speculation.begin() + 1, speculation.end(), blocking.begin());
  speculation_is_not_a_step_old += !a_step_old;
  quest_mass += mass("quest");
  streaming_mass += mass("streaming");
  if (cell.jump_rate == 0 || cell.cosine <= kTurned) return;
  const bool corrected = set.trials().at("freekv").history() != speculation;
  by_jump_rate[cell.jump_rate].Add(
      {.cells = 1,
       .jumps = jumps,
       .corrected = corrected ? uint64_t{1} : 0,
       .not_improved = corrected && mass("freekv") <= mass("speculation") ? uint64_t{1} : 0,
       .freekv_mass = mass("freekv"),
       .speculation_mass = mass("speculation")});
}

void Orderings::Add(const Orderings& other) {
  using O = Orderings;
  AddFields(other, this, &O::cells, &O::oracle_below_quest, &O::quest_below_streaming,
            &O::correction_differs_from_quest, &O::speculation_is_not_a_step_old, &O::quest_mass,
            &O::streaming_mass);
  for (const auto& [rate, of_rate] : other.by_jump_rate) by_jump_rate[rate].Add(of_rate);
}

bool Orderings::hold() const {
  return oracle_below_quest + quest_below_streaming + correction_differs_from_quest +
                 speculation_is_not_a_step_old ==
             0 &&
         quest_mass > streaming_mass && !by_jump_rate.empty() &&
         std::ranges::all_of(by_jump_rate, [](const auto& of_rate) {
           return of_rate.second.jumps > 0 && of_rate.second.improves();
         });
}

StatusOr<GridResult> RunGrid(const GridOptions& options) {
  const auto contexts = static_cast<uint64_t>(std::ranges::count_if(
      kTokens, [&](uint32_t tokens) { return tokens <= options.max_tokens; }));
  GridRun run(options, contexts * options.page_tokens.size() * options.group_sizes.size() *
                           std::size(kCosines) * std::size(kJumpRates));
  for (const uint32_t tokens : kTokens) {
    if (tokens > options.max_tokens) continue;
    for (const uint32_t page_tokens : options.page_tokens) {
      QUIRE_RETURN_IF_ERROR(run.RunContext(tokens, page_tokens));
    }
  }
  return run.Take();
}

}  // namespace quire::bench
