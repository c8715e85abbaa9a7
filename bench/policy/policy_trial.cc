// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/policy_trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "bench/policy/add_fields.h"
#include "bench/stream/vectors.h"
#include "gpuworker/model/hidden_tap.h"
#include "gpuworker/retrieval/key_source.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/token_observer.h"

namespace quire::bench {
namespace {

constexpr uint64_t kBytesPerElement = 2;

double Ratio(double sum, uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

uint64_t CountCommon(const std::set<uint32_t>& a, const std::set<uint32_t>& b) {
  return static_cast<uint64_t>(
      std::ranges::count_if(a, [&](uint32_t page) { return b.contains(page); }));
}

}  // namespace

void PolicyFigures::Add(const PolicyFigures& other) {
  masses.insert(masses.end(), other.masses.begin(), other.masses.end());
  using F = PolicyFigures;
  AddFields(other, this, &F::page_recall, &F::output_error, &F::overlap, &F::overlaps,
            &F::head_steps, &F::layer_steps, &F::corrected_heads, &F::corrected_layers, &F::bytes);
}

double PolicyFigures::mean_mass() const {
  return Ratio(std::accumulate(masses.begin(), masses.end(), 0.0), masses.size());
}
double PolicyFigures::low_mass() const {
  if (masses.empty()) return 0;
  std::vector<float> sorted = masses;
  const auto at = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 20);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}
double PolicyFigures::mean_recall() const { return Ratio(page_recall, head_steps); }
double PolicyFigures::mean_error() const { return Ratio(output_error, masses.size()); }
double PolicyFigures::mean_overlap() const { return Ratio(overlap, overlaps); }
double PolicyFigures::head_rate() const {
  return Ratio(static_cast<double>(corrected_heads), overlaps);
}
double PolicyFigures::layer_rate() const {
  const uint64_t heads = layer_steps == 0 ? 1 : head_steps / layer_steps;
  return Ratio(static_cast<double>(corrected_layers), overlaps / heads);
}
double PolicyFigures::bytes_per_token() const {
  const uint64_t heads = layer_steps == 0 ? 1 : head_steps / layer_steps;
  return Ratio(static_cast<double>(bytes), overlaps / heads);
}

PolicyTrial::PolicyTrial(const worker::PolicyContext& context, const PagedRows& rows,
                         std::unique_ptr<worker::RetrievalPolicy> policy)
    : context_(context),
      rows_(&rows),
      policy_(std::move(policy)),
      table_(policy_->Layout(0), context.spec.page_tokens, context.spec.num_kv_heads),
      nominal_({.sink_pages = context.options.sink_tokens / context.spec.page_tokens,
                .window_pages = context.options.window_tokens / context.spec.page_tokens,
                .selectable_pages = (context.options.budget_tokens - context.options.sink_tokens -
                                     context.options.window_tokens) /
                                    context.spec.page_tokens},
               context.spec.page_tokens, context.spec.num_kv_heads),
      heads_(context.spec.num_kv_heads),
      held_(context.spec.num_kv_heads, 0) {}

StatusOr<PolicyTrial> PolicyTrial::Make(const worker::PolicyContext& context, const PagedRows& rows,
                                        std::unique_ptr<worker::RetrievalPolicy> policy,
                                        uint64_t tokens, const TokenTrace& trace) {
  PolicyTrial trial(context, rows, std::move(policy));
  trial.trace_ = trace;
  QUIRE_RETURN_IF_ERROR(trial.ShowTokens(0, tokens));
  QUIRE_RETURN_IF_ERROR(trial.ShowHidden(0, tokens));
  trial.table_.StartAt(tokens);
  trial.nominal_.StartAt(tokens);
  trial.complete_pages_ = static_cast<uint32_t>(tokens / context.spec.page_tokens);
  QUIRE_RETURN_IF_ERROR(trial.ShowDocument());
  return trial;
}

Status PolicyTrial::ShowTokens(uint64_t first, uint64_t end) {
  worker::TokenObserver* const observer = policy_->token_observer();
  if (observer == nullptr) return OkStatus();
  if (trace_.ids.size() < end) {
    return InvalidArgument("policy ", policy_->name(), " looks at tokens; ", trace_.ids.size(),
                           " were given of ", end);
  }
  observer->OnTokens(trace_.ids.subspan(first, end - first));
  return OkStatus();
}

Status PolicyTrial::ShowHidden(uint64_t first, uint64_t end) {
  worker::HiddenTap* const tap = policy_->hidden_tap();
  if (tap == nullptr) return OkStatus();
  if (trace_.hidden == nullptr) {
    return InvalidArgument("policy ", policy_->name(), " looks at hidden states; none were given");
  }
  for (const auto& [layer, rows] : *trace_.hidden) {
    if (!tap->Wants(layer)) continue;
    const size_t width = rows.size() / trace_.ids.size();
    tap->Take(layer, std::span(rows).subspan(first * width, (end - first) * width));
  }
  return OkStatus();
}

Status PolicyTrial::ShowDocument() {
  worker::PageObserver* const observer = policy_->page_observer();
  if (observer == nullptr) return OkStatus();
  std::shared_ptr<const worker::StoredDigests> digests;
  if (const auto kind = observer->WantedDigests(0)) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                           rows_->Digests(*kind, complete_pages_));
    QUIRE_ASSIGN_OR_RETURN(
        digests,
        worker::StoredDigests::Make(rows_->spec(), *kind, context_.device, complete_pages_, bytes));
  }
  QUIRE_RETURN_IF_ERROR(observer->OnPrefillLayer(0, complete_pages_, digests));
  for (uint32_t page = 0; page < complete_pages_ && observer->WantsUnits(0); ++page) {
    QUIRE_RETURN_IF_ERROR(observer->OnPageComplete(0, page, rows_->page(page).data()));
  }
  return OkStatus();
}

Status PolicyTrial::Grow(uint64_t tokens) {
  if (table_.num_tokens() < tokens) {
    QUIRE_RETURN_IF_ERROR(ShowTokens(table_.num_tokens(), tokens));
  }
  while (table_.num_tokens() < tokens) {
    table_.AppendToken();
    nominal_.AppendToken();
  }
  // The pipeline reports a page after the step that completes it.
  worker::PageObserver* const observer = policy_->page_observer();
  for (; uint64_t{complete_pages_ + 1} * context_.spec.page_tokens < tokens; ++complete_pages_) {
    if (observer == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(
        observer->OnPageComplete(0, complete_pages_, rows_->page(complete_pages_).data()));
  }
  return OkStatus();
}

Status PolicyTrial::Step(const ExactAttention& exact, std::span<const float> queries, float scale) {
  const uint64_t before = table_.num_tokens();
  QUIRE_RETURN_IF_ERROR(Grow(exact.tokens()));
  if (table_.layout().selectable_pages > 0) QUIRE_RETURN_IF_ERROR(Decide(queries));
  Measure(exact, queries, scale);
  return ShowHidden(before, table_.num_tokens());
}

Status PolicyTrial::Decide(std::span<const float> queries) {
  worker::SelectRequest request{.layer = 0,
                                .q = queries.data(),
                                .candidates = table_.candidates(),
                                .max_pages = table_.layout().selectable_pages,
                                .position = table_.num_tokens(),
                                .held = held_};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<bool> blocking, policy_->NeedsBlocking(request));
  request.held = {};
  QUIRE_ASSIGN_OR_RETURN(const worker::Selection selection, policy_->Select(request));
  bool any = false;
  for (size_t i = 0; i < heads_.size(); ++i) {
    Head& head = heads_[i];
    head.active = head.expected;
    if (blocking[i]) {
      Recall(&head, selection.pages[i]);
      head.active = selection.pages[i];
      any = true;
      if (!history_.empty()) ++figures_.corrected_heads;
    }
  }
  if (any && !history_.empty()) ++figures_.corrected_layers;
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (!blocking[i]) Recall(&heads_[i], selection.pages[i]);
    heads_[i].expected = selection.pages[i];
    held_[i] = request.position;
  }
  return OkStatus();
}

void PolicyTrial::Recall(Head* head, const std::vector<uint32_t>& pages) {
  std::set<uint32_t> next(pages.begin(), pages.end());
  const uint64_t missing = next.size() - CountCommon(next, head->resident);
  if (!history_.empty()) {
    const uint64_t rows = policy_->recalled_part() == UnitPart::kValues ? 1 : 2;
    figures_.bytes +=
        missing * rows * context_.spec.page_tokens * context_.spec.head_dim * kBytesPerElement;
  }
  for (const uint32_t page : head->resident) {
    if (next.size() == table_.layout().selectable_pages) break;
    next.insert(page);
  }
  head->resident = std::move(next);
}

std::set<uint32_t> PolicyTrial::Attended(const Head& head) const {
  std::set<uint32_t> pages(head.active.begin(), head.active.end());
  for (const worker::PageRange& range : {table_.sinks(), table_.window()}) {
    for (uint32_t page = range.first; page < range.end; ++page) pages.insert(page);
  }
  return pages;
}

std::vector<float> PolicyTrial::RewrittenWeights(const ExactAttention::Head& exact,
                                                 uint32_t kv_head, uint32_t page,
                                                 std::span<const float> query, float scale) const {
  const size_t d = query.size(), unit_values = 2 * context_.spec.page_tokens * d;
  const auto stored = rows_->page(page).subspan(kv_head * unit_values, unit_values);
  std::vector<float> unit(stored.begin(), stored.end());
  const auto keys = std::span(unit).first(unit_values / 2);
  policy_->key_source()->FillKeys(0, kv_head, page, std::as_writable_bytes(keys));
  std::vector<float> weights(context_.spec.page_tokens);
  for (size_t t = 0; t < weights.size(); ++t) {
    const double logit = double{scale} * Dot(std::span(unit).subspan(t * d, d), query);
    weights[t] = static_cast<float>(std::exp(std::min(logit - exact.highest, 60.0)) / exact.total);
  }
  return weights;
}

double PolicyTrial::AddRewritten(const ExactAttention::Head& exact, uint32_t kv_head, uint32_t page,
                                 std::span<const float> query, float scale,
                                 std::vector<double>* out) const {
  const size_t p = context_.spec.page_tokens, first = page * p;
  std::vector<float> weights = RewrittenWeights(exact, kv_head, page, query, scale);
  weights.resize(std::min(p, exact.weights.size() - first));
  double total = 0;
  for (size_t t = 0; t < weights.size(); ++t) {
    total += weights[t];
    const std::span<const float> value = rows_->value(kv_head, first + t);
    for (size_t c = 0; c < out->size(); ++c) (*out)[c] += double{weights[t]} * value[c];
  }
  return total;
}

double PolicyTrial::OutputError(const ExactAttention::Head& exact, uint32_t kv_head,
                                const std::set<uint32_t>& pages, std::span<const float> query,
                                float scale) const {
  const std::vector<uint32_t>& active = heads_[kv_head].active;
  const bool rewrites = policy_->key_source() != nullptr;
  std::vector<double> out(query.size());
  double total = 0;
  for (const uint32_t page : pages) {
    if (rewrites && std::ranges::binary_search(active, page)) {
      total += AddRewritten(exact, kv_head, page, query, scale, &out);
      continue;
    }
    total += exact.masses[page];
    const auto part = std::span(exact.parts).subspan(page * out.size(), out.size());
    for (size_t c = 0; c < out.size(); ++c) out[c] += part[c];
  }
  double error = 0, length = 0;
  for (size_t c = 0; c < out.size(); ++c) {
    const double sparse = total > 0 ? out[c] / total : 0;
    error += (sparse - exact.out[c]) * (sparse - exact.out[c]);
    length += exact.out[c] * exact.out[c];
  }
  return std::sqrt(error / std::max(length, 1e-30));
}

void PolicyTrial::Measure(const ExactAttention& exact, std::span<const float> queries,
                          float scale) {
  const uint32_t group = context_.spec.group_size(), d = context_.spec.head_dim;
  std::vector<std::vector<uint32_t>>& active = history_.emplace_back();
  ++figures_.layer_steps;
  for (uint32_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    active.push_back(head.active);
    std::set<uint32_t> attended = Attended(head);
    ++figures_.head_steps;
    const std::vector<uint32_t> best =
        exact.BestPages(h, nominal_.candidates(), nominal_.layout().selectable_pages);
    const auto found =
        std::ranges::count_if(best, [&](uint32_t page) { return attended.contains(page); });
    figures_.page_recall += best.empty() ? 1 : Ratio(static_cast<double>(found), best.size());
    for (uint32_t a = h * group; a < (h + 1) * group; ++a) {
      double mass = 0;
      for (const uint32_t page : attended) mass += exact.head(a).masses[page];
      figures_.masses.push_back(static_cast<float>(mass));
      figures_.output_error +=
          OutputError(exact.head(a), h, attended, queries.subspan(size_t{a} * d, d), scale);
    }
    if (history_.size() > 1) {
      ++figures_.overlaps;
      figures_.overlap +=
          Ratio(static_cast<double>(CountCommon(attended, head.attended)), attended.size());
    }
    head.attended = std::move(attended);
  }
}

}  // namespace quire::bench
