// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic_model.h"

#include <span>
#include <utility>

#include "bench/policy_model.h"
#include "common/page/layout.h"

namespace quire::bench {
namespace {

constexpr uint32_t kSegmentPages = 8;

/// Puts the layers of a question together, and the questions of a document.
class TraceRecorder {
 public:
  explicit TraceRecorder(const PageBudget& budget) : budget_(budget) {}

  /// Layers come in order, question after question.
  Status Add(const RecordedLayer& layer) {
    // Of the units of a document only those of its first question are kept: all have the same.
    if (layer.document != document_) {
      QUIRE_RETURN_IF_ERROR(Finish());
      document_ = layer.document;
      spec_ = layer.spec;
      spec_.segment_pages = kSegmentPages;
      const uint64_t segment_tokens = uint64_t{kSegmentPages} * spec_.page_tokens;
      pages_ = static_cast<uint32_t>(layer.tokens / segment_tokens * kSegmentPages);
    }
    if (layer.layer == 0) questions_.emplace_back();
    if (questions_.size() == 1) {
      const std::span<const float> units = layer.units;
      const auto bytes = std::as_bytes(units).first(SegmentBytes(layer.spec, pages_));
      units_.insert(units_.end(), bytes.begin(), bytes.end());
      spec_.num_layers = layer.layer + 1;
    }
    questions_.back().question_steps = layer.question_steps;
    questions_.back().queries.push_back(layer.queries);
    return OkStatus();
  }
  /// Nothing more comes.
  StatusOr<std::vector<ModelTrace>> Take() {
    QUIRE_RETURN_IF_ERROR(Finish());
    return std::move(traces_);
  }

 private:
  struct Question {
    uint64_t question_steps = 0;
    std::vector<std::vector<float>> queries = {};  ///< [layers] of [steps][n_q][d]
  };

  /// Of the document at hand.
  Status Finish() {
    if (questions_.empty()) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(PagedContext context,
                           PagedContext::Make(spec_, std::exchange(units_, {})));
    ModelTrace trace{.document = document_,
                     .context = std::move(context),
                     .steps = {},
                     .of_answer = {},
                     .questions = static_cast<uint32_t>(questions_.size())};
    for (const Question& question : std::exchange(questions_, {})) {
      QUIRE_RETURN_IF_ERROR(AddSteps(question, &trace));
    }
    traces_.push_back(std::move(trace));
    return OkStatus();
  }

  Status AddSteps(const Question& question, ModelTrace* trace) const {
    const std::vector<std::vector<float>>& queries = question.queries;
    const size_t row = size_t{spec_.num_query_heads} * spec_.head_dim;
    for (size_t at = 0; at < queries[0].size(); at += row) {
      trace->of_answer.push_back(at / row >= question.question_steps);
      StepSelection& step = trace->steps.emplace_back();
      for (uint32_t layer = 0; layer < queries.size(); ++layer) {
        QUIRE_ASSIGN_OR_RETURN(
            auto pages,
            trace->context.Select(layer, std::span(queries[layer]).subspan(at, row), budget_));
        step.push_back(std::move(pages));
      }
    }
    return OkStatus();
  }

  const PageBudget budget_;
  std::vector<ModelTrace> traces_;
  // Of the document at hand.
  std::string document_;
  KvSpec spec_;
  uint32_t pages_ = 0;
  std::vector<std::byte> units_;
  std::vector<Question> questions_;
};

}  // namespace

StatusOr<std::vector<ModelTrace>> RecordTraces(const std::string& model_directory,
                                               uint32_t questions, uint32_t page_tokens,
                                               const PageBudget& budget) {
  TraceRecorder recorder(budget);
  QUIRE_RETURN_IF_ERROR(
      RecordModel(model_directory, questions, page_tokens,
                  [&](const RecordedLayer& layer) { return recorder.Add(layer); }));
  return recorder.Take();
}

}  // namespace quire::bench
