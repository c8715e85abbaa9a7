// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic/elastic_model.h"

#include <span>
#include <utility>

#include "common/page/layout.h"

namespace quire::bench {
namespace {

constexpr uint32_t kSegmentPages = 8;

/// Assembles the layers of a question, and the questions of a document.
class TraceRecorder {
 public:
  explicit TraceRecorder(const PageBudget& budget) : budget_(budget) {}

  /// Layers come in order, question after question.
  Status Add(const RecordedLayer& layer) {
    if (layer.document != document_) {
      QUIRE_RETURN_IF_ERROR(Finish());
      document_ = layer.document;
    }
    if (layer.layer == 0) {
      questions_.push_back({.first_token = layer.tokens,
                            .question_steps = layer.question_steps,
                            .answer_steps = layer.answer_steps});
      units_.clear();
    }
    questions_.back().queries.push_back(layer.queries);
    AddUnits(layer);
    return OkStatus();
  }
  /// Ends the recording.
  StatusOr<std::vector<ModelTrace>> Take() {
    QUIRE_RETURN_IF_ERROR(Finish());
    return std::move(traces_);
  }

 private:
  struct Question {
    uint64_t first_token = 0;  ///< Position of its first step.
    uint64_t question_steps = 0;
    uint64_t answer_steps = 0;
    std::vector<std::vector<float>> queries = {};  ///< [layers] of [steps][n_q][d]

    StepKind KindOf(uint64_t step) const {
      if (step < question_steps) return StepKind::kQuestion;
      return step < question_steps + answer_steps ? StepKind::kAnswer : StepKind::kRunOn;
    }
  };

  /// Keeps the units of the last question, which include those of all before. No step has the pages
  /// that fill the last segment complete.
  void AddUnits(const RecordedLayer& layer) {
    spec_ = layer.spec;
    spec_.segment_pages = kSegmentPages;
    spec_.num_layers = layer.layer + 1;
    const auto bytes = std::as_bytes(std::span(layer.units));
    units_.insert(units_.end(), bytes.begin(), bytes.end());
    const uint64_t segment = SegmentBytes(layer.spec, kSegmentPages);
    units_.resize(spec_.num_layers * DivideRoundUp(bytes.size(), segment) * segment);
  }

  /// Ends the present document.
  Status Finish() {
    if (questions_.empty()) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(PagedContext context,
                           PagedContext::Make(spec_, std::exchange(units_, {})));
    ModelTrace trace{.document = document_,
                     .context = std::move(context),
                     .steps = {},
                     .kinds = {},
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
    for (uint64_t at = 0; at < queries[0].size() / row; ++at) {
      const auto pages = static_cast<uint32_t>((question.first_token + at + 1) / spec_.page_tokens);
      trace->kinds.push_back(question.KindOf(at));
      StepSelection& step = trace->steps.emplace_back();
      for (uint32_t layer = 0; layer < queries.size(); ++layer) {
        QUIRE_ASSIGN_OR_RETURN(
            auto selected,
            trace->context.Select(layer, std::span(queries[layer]).subspan(at * row, row), budget_,
                                  pages));
        step.push_back(std::move(selected));
      }
    }
    return OkStatus();
  }

  const PageBudget budget_;
  std::vector<ModelTrace> traces_;
  // The present document.
  std::string document_;
  KvSpec spec_;
  std::vector<std::byte> units_;  ///< Units of its last question.
  std::vector<Question> questions_;
};

}  // namespace

StatusOr<std::vector<ModelTrace>> RecordTraces(const std::string& model_directory,
                                               const RecordOptions& options,
                                               const PageBudget& budget) {
  TraceRecorder recorder(budget);
  QUIRE_RETURN_IF_ERROR(RecordModel(
      model_directory, options, [&](const RecordedLayer& layer) { return recorder.Add(layer); }));
  return recorder.Take();
}

}  // namespace quire::bench
