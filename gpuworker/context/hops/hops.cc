// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/hops/hops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "gpuworker/context/statistics/layer_statistics.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

constexpr DigestKind kKind = DigestKind::kMinMax;

std::vector<uint32_t> LayersOf(const HopOptions& options, uint32_t num_layers) {
  std::vector<uint32_t> layers = options.layers;
  if (layers.empty()) {
    layers.resize(num_layers);
    std::iota(layers.begin(), layers.end(), 0);
  }
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

/// Adds (score - mean) / deviation of each score to `sums`. NaN is left out of both, and stays.
void AddNormalised(std::span<const float> scores, std::vector<double>* sums) {
  double count = 0;
  double sum = 0;
  double squares = 0;
  for (const float score : scores) {
    if (std::isnan(score)) continue;
    count += 1;
    sum += score;
    squares += double{score} * score;
  }
  if (count == 0) return;
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const double scale = deviation > 0 ? 1 / deviation : 0;
  for (size_t i = 0; i < scores.size(); ++i) (*sums)[i] += (scores[i] - mean) * scale;
}

/// Indices of the `count` largest scores; earlier ones first among equal ones, NaN last.
std::vector<size_t> Best(std::vector<double> scores, size_t count) {
  for (double& score : scores) {
    if (std::isnan(score)) score = -std::numeric_limits<double>::infinity();
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

/// Turns logits into shares.
void Softmax(std::vector<double>* logits) {
  const double most = *std::ranges::max_element(*logits);
  double sum = 0;
  for (double& logit : *logits) sum += logit = std::exp(logit - most);
  for (double& share : *logits) share /= sum;
}

}  // namespace

/// Computes all rows in every layer, and tells their queries to the hops.
class Hops::AskingRows final : public RowPlan {
 public:
  AskingRows(Hops* hops, uint32_t rows, std::vector<uint32_t> asking)
      : hops_(*hops), all_(rows, hops->spec_.num_layers), asking_(std::move(asking)) {}

  LayerRows Rows(uint32_t layer) override { return all_.Rows(layer); }
  std::vector<uint32_t> Asks(uint32_t layer) override {
    hops_.asked_[layer].clear();
    return hops_.IndexOf(layer) ? asking_ : std::vector<uint32_t>{};
  }
  void ReadQueries(uint32_t layer, std::span<const uint64_t> positions,
                   std::span<const float> queries) override {
    const size_t row = queries.size() / positions.size();
    for (size_t i = 0; i < positions.size(); ++i) {
      hops_.Ask(layer, positions[i], queries.subspan(i * row, row));
    }
  }

 private:
  Hops& hops_;
  FixedRows all_;
  const std::vector<uint32_t> asking_;
};

Hops::Hops(const PromptLayout& layout, const KvSpec& spec, const HopOptions& options)
    : layout_(layout),
      spec_(spec),
      rotation_(spec.rope),
      options_(options),
      pages_(PagesOf(layout, spec.page_tokens)),
      layers_(LayersOf(options, spec.num_layers)),
      read_(spec.num_layers, std::vector<bool>(pages_.size(), false)),
      followed_(pages_.size(), false),
      asked_(spec.num_layers) {
  ReadEverywhere(0);  // The beginning of the prompt draws attention that means nothing.
  const uint64_t asking = std::min<uint64_t>(options.question_rows, layout.question_tokens);
  AppendRange(layout.tokens() - asking, layout.tokens(), &asking_);
}

std::optional<size_t> Hops::IndexOf(uint32_t layer) const {
  const auto at = std::ranges::lower_bound(layers_, layer);
  if (at == layers_.end() || *at != layer) return std::nullopt;
  return at - layers_.begin();
}

uint64_t Hops::digest_bytes() const {
  uint64_t pages = 0;
  for (const PlacedSource& source : layout_.sources)
    pages += StoredPages(source, spec_.page_tokens);
  return pages * layers_.size() * kernels::PageDigestBytes(spec_, kKind);
}

ReusePlan Hops::Pass() {
  ReusePlan plan{.positions = rows_, .chooser = this};
  AppendRange(layout_.question_first, layout_.tokens(), &plan.positions);
  plan.rows = std::make_unique<AskingRows>(this, static_cast<uint32_t>(plan.positions.size()),
                                           IndicesOf(asking_, plan.positions));
  attended_.clear();
  return plan;
}

ViewCells Hops::Cells(uint32_t layer) const {
  ViewCells cells;
  for (size_t page = 0; page < pages_.size(); ++page) {
    if (read_[layer][page]) AppendRange(pages_[page].first, pages_[page].end, &cells.visible);
  }
  cells.cached.assign(cells.visible.size(), true);
  AppendRange(layout_.question_first, layout_.tokens(), &cells.visible);
  cells.cached.resize(cells.visible.size(), false);
  return cells;
}

void Hops::Ask(uint32_t layer, uint64_t position, std::span<const float> query) {
  asked_[layer].push_back({position, {query.begin(), query.end()}});
  const std::vector<double> scores = Scores(*IndexOf(layer), position, query);
  for (const size_t page : Best(scores, options_.pages)) read_[layer][page] = true;
}

std::vector<double> Hops::Scores(size_t index, uint64_t position,
                                 std::span<const float> query) const {
  const auto behind = std::ranges::upper_bound(pages_, position, {}, &PromptPage::first);
  const auto candidates = static_cast<size_t>(behind - pages_.begin());
  std::vector<std::vector<float>> of_heads(spec_.num_query_heads);
  for (size_t document = 0; document <= pages_[candidates - 1].document; ++document) {
    const std::vector<float> scores = DocumentScores(index, document, query);
    const size_t pages = scores.size() / of_heads.size();
    for (size_t head = 0; head < of_heads.size(); ++head) {
      const auto first = scores.begin() + static_cast<ptrdiff_t>(head * pages);
      of_heads[head].insert(of_heads[head].end(), first, first + static_cast<ptrdiff_t>(pages));
    }
  }
  std::vector<double> sums(candidates, 0);
  for (const std::vector<float>& scores : of_heads) {
    AddNormalised(std::span(scores).first(candidates), &sums);
  }
  return sums;
}

std::vector<float> Hops::DocumentScores(size_t index, size_t document,
                                        std::span<const float> query) const {
  const PlacedSource& source = layout_.sources[document];
  const uint64_t pages = StoredPages(source, spec_.page_tokens);
  std::vector<float> turned(query.begin(), query.end());
  Unrotate(turned.data(), 1, spec_.num_query_heads, spec_.head_dim,
           static_cast<uint64_t>(source.move), spec_.rope.interleaved, rotation_);
  std::vector<float> scores(spec_.num_query_heads * pages);
  kernels::ScoreArgs args = kernels::PageScoreArgs(spec_, kKind);
  args.q = turned.data();
  args.digests = digests_[document].data() + index * pages * kernels::PageDigestBytes(spec_, kKind);
  args.scores = scores.data();
  args.n_pages = static_cast<int64_t>(pages);
  args.n_q = spec_.num_query_heads;
  if (kernels::CpuKernels().score(args) != kernels::OpStatus::kOk) {
    std::ranges::fill(scores, std::numeric_limits<float>::quiet_NaN());
  }
  return scores;
}

void Hops::ReadKeys(uint32_t layer, std::span<const float> keys) {
  const Positions cells = Cells(layer).visible;
  std::vector<double> shares(cells.size(), 0);
  for (const Asking& asking : asked_[layer]) {
    const std::vector<double> of_row = Shares(asking, cells, keys);
    for (size_t i = 0; i < of_row.size(); ++i) shares[i] = std::max(shares[i], of_row[i]);
  }
  std::vector<Attended> attended = AttendedPages(cells, shares);
  attended.resize(std::min<size_t>(attended.size(), options_.attended_pages));
  for (Attended& one : attended) {
    ReadEverywhere(one.page);
    attended_.push_back(std::move(one));
  }
}

std::vector<double> Hops::Shares(const Asking& asking, const Positions& cells,
                                 std::span<const float> keys) const {
  const size_t d = spec_.head_dim;
  const size_t group = spec_.num_query_heads / spec_.num_kv_heads;
  const auto seen =
      static_cast<size_t>(std::ranges::upper_bound(cells, asking.position) - cells.begin());
  std::vector<double> shares(seen, 0);
  std::vector<double> of_head(seen);
  for (size_t head = 0; head < spec_.num_query_heads; ++head) {
    const float* const query = asking.query.data() + head * d;
    for (size_t cell = 0; cell < seen; ++cell) {
      const float* const key = keys.data() + (cell * spec_.num_kv_heads + head / group) * d;
      of_head[cell] = std::inner_product(query, query + d, key, 0.0) / std::sqrt(double(d));
    }
    Softmax(&of_head);
    for (size_t cell = 0; cell < seen; ++cell) shares[cell] += of_head[cell];
  }
  for (double& share : shares) share /= spec_.num_query_heads;
  return shares;
}

std::vector<Hops::Attended> Hops::AttendedPages(const Positions& cells,
                                                std::span<const double> shares) const {
  std::vector<Attended> pages;
  for (size_t i = 0; i < cells.size() && cells[i] < layout_.question_first; ++i) {
    const size_t page = PageOf(cells[i]);
    if (followed_[page] || !(shares[i] >= options_.least_share)) continue;
    if (pages.empty() || pages.back().page != page) pages.push_back({0, page, {}});
    pages.back().share = std::max(pages.back().share, shares[i]);
    pages.back().tokens.push_back(cells[i]);
  }
  std::ranges::stable_sort(pages,
                           [](const Attended& a, const Attended& b) { return a.share > b.share; });
  return pages;
}

bool Hops::EndPass() {
  std::ranges::stable_sort(attended_,
                           [](const Attended& a, const Attended& b) { return a.share > b.share; });
  uint32_t pages = 0;
  for (const Attended& one : attended_) {
    if (followed_[one.page]) continue;  // Several layers attended to it.
    if (pages++ == options_.attended_pages) break;
    followed_[one.page] = true;
    if (pages_[one.page].document == 0) continue;  // Its keys are as full prefill has them.
    asking_ = Union(asking_, one.tokens);
    AddRows(one.page);
    // The first token of a page has its word before it in the page before.
    const bool begins = one.tokens.front() == pages_[one.page].first;
    if (begins && one.page > 0 && pages_[one.page - 1].document > 0) AddRows(one.page - 1);
  }
  return pages > 0;
}

void Hops::AddRows(size_t page) {
  Positions tokens;
  AppendRange(pages_[page].first, pages_[page].end, &tokens);
  rows_ = Union(rows_, tokens);
  ReadEverywhere(page);
}

size_t Hops::PageOf(uint64_t position) const {
  return static_cast<size_t>(std::ranges::upper_bound(pages_, position, {}, &PromptPage::first) -
                             pages_.begin() - 1);
}

void Hops::ReadEverywhere(size_t page) {
  for (std::vector<bool>& layer : read_) layer[page] = true;
}

}  // namespace quire::worker
