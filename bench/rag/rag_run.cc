// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/rag_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bench/rag/divergence.h"
#include "gpuworker/engine/parts.h"
#include "quire/clock.h"

namespace quire::bench {
namespace {

using worker::Decoder;
using worker::DenseCache;
using worker::ReuseMethod;

/// The k with which EPIC computes about as much as another method over documents of the suites.
constexpr std::array kEpicEquals = {std::pair{"epic_equal_hops", uint64_t{4}},
                                    std::pair{"epic_equal_samkv", uint64_t{39}}};
/// Variants of a document that the question before those by Cache-Craft leaves.
constexpr uint32_t kVariantsBefore = 1;

TokenId MostLikely(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

DocumentName NameOf(size_t document) {
  return {.collection = "bench", .name = "rag-" + std::to_string(document)};
}

std::vector<DocumentName> NamesOf(const PromptSet& set) {
  std::vector<DocumentName> names;
  for (size_t i = 0; i < set.documents.size(); ++i) names.push_back(NameOf(i));
  return names;
}

/// Places of documents in the prompt. A beginning token stays with the first one only.
class Prompt {
 public:
  Prompt(const PromptSet& set, std::optional<TokenId> bos) {
    for (const std::vector<TokenId>& document : set.documents) {
      const bool skips = !first_.empty() && bos && document.front() == *bos;
      first_.push_back(tokens_.size());
      skipped_.push_back(skips);
      tokens_.insert(tokens_.end(), document.begin() + skips, document.end());
    }
  }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint64_t first(size_t document) const { return first_[document]; }
  uint64_t skipped(size_t document) const { return skipped_[document]; }

 private:
  std::vector<TokenId> tokens_;
  std::vector<uint64_t> first_;
  std::vector<uint64_t> skipped_;
};

}  // namespace

/// Full prefill of a set.
struct RagRun::Reference {
  Prompt prompt;
  std::vector<std::vector<float>> answers;  ///< Logits after each question.
  std::vector<float> documents = {};        ///< [tokens][vocab_size], for some sets.
  std::vector<float> alone = {};            ///< [tokens][vocab_size], of each document alone.
};

void MethodTotals::Count(const RagQuestion& question, bool right) {
  if (question.answer.empty()) return;
  for (Share* const share : {&all, &by_task[question.task]}) {
    share->asked += 1;
    share->right += right;
  }
}

std::vector<RagMethod> RagMethods(const ModelLayers& layers) {
  std::vector<RagMethod> methods;
  for (const std::string_view name : worker::ReuseMethodNames()) {
    worker::ReuseOptions options;
    options.method = *worker::ParseReuseMethod(name);
    if (options.method == ReuseMethod::kFull) continue;
    options.cacheblend.check_layer = layers.check;
    options.selection.stable_layers = layers.stable;
    options.hops.layers = layers.retrieving;
    methods.push_back({.name = std::string(name), .options = options});
    if (options.method == ReuseMethod::kEpic) {
      for (const auto& [equal, tokens] : kEpicEquals) {
        options.epic_tokens = tokens;
        methods.push_back({.name = equal, .options = options});
      }
    }
    if (options.method == ReuseMethod::kCacheBlend) {
      options.cacheblend.gradual = true;
      methods.push_back({.name = "cacheblend_gradual", .options = options});
    }
    if (options.method == ReuseMethod::kSamKv) {
      options.samkv.update = worker::RowUpdate::kOverwrite;
      methods.push_back({.name = "samkv_overwrite", .options = options});
      options.samkv.rows = worker::SamKvRows::kAttended;
      methods.push_back({.name = "samkv_attended", .options = options});
    }
  }
  return methods;
}

StatusOr<RagTotals> RagRun::Run(std::span<const PromptSet> sets) {
  totals_ = {};
  for (size_t number = 0; number < sets.size(); ++number) {
    const PromptSet& set = sets[number];
    for (size_t i = 0; i < set.documents.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(engine_.Ingest(set.documents[i], NameOf(i)).status());
    }
    QUIRE_RETURN_IF_ERROR(RunSet(set, number));
    for (size_t i = 0; i < set.documents.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(engine_.client().DeleteDocument(NameOf(i)).status());
    }
  }
  return std::move(totals_);
}

Status RagRun::CheckGoingOn() const {
  if (!options_.keep_going || options_.keep_going()) return OkStatus();
  return MakeStatus(StatusCode::kCancelled, "the run was stopped");
}

Status RagRun::RunSet(const PromptSet& set, size_t number) {
  QUIRE_ASSIGN_OR_RETURN(const Reference reference, Prefill(set, number));
  if (number < options_.timed_sets) QUIRE_RETURN_IF_ERROR(TimeFull(set, reference));
  for (const RagMethod& method : methods_) {
    QUIRE_RETURN_IF_ERROR(
        Annotate(Ask(set, reference, method, number < options_.divergence_sets), method.name));
  }
  return OkStatus();
}

StatusOr<RagRun::Reference> RagRun::Prefill(const PromptSet& set, size_t number) {
  Reference reference{.prompt = Prompt(set, options_.bos), .answers = {}};
  const std::vector<TokenId>& tokens = reference.prompt.tokens();
  const bool all = number < options_.divergence_sets;
  if (all) reference.documents.resize(tokens.size() * engine_.model().vocab_size);
  DenseCache cache(engine_.model(), &worker::CpuDevice(), engine_.model().max_positions);
  QUIRE_RETURN_IF_ERROR(decoder_.Forward(tokens, 0, cache,
                                         all ? Decoder::Logits::kAll : Decoder::Logits::kNone,
                                         all ? reference.documents.data() : nullptr));
  for (const RagQuestion& question : set.questions) {
    QUIRE_RETURN_IF_ERROR(CheckGoingOn());
    QUIRE_RETURN_IF_ERROR(cache.Truncate(tokens.size()));
    QUIRE_ASSIGN_OR_RETURN(std::vector<float> logits, AskFull(question, &cache));
    reference.answers.push_back(std::move(logits));
    totals_.prompt_tokens += tokens.size() + question.prompt.size();
    if (observer_) observer_("full");
  }
  if (all) QUIRE_RETURN_IF_ERROR(PrefillAlone(set, &reference));
  return reference;
}

StatusOr<std::vector<float>> RagRun::AskFull(const RagQuestion& question, DenseCache* cache) {
  std::vector<float> logits(engine_.model().vocab_size);
  QUIRE_RETURN_IF_ERROR(decoder_.Forward(question.prompt, cache->length(), *cache,
                                         Decoder::Logits::kLast, logits.data()));
  std::vector<float> next = logits;
  bool right = true;
  for (size_t i = 0; right && i < question.answer.size(); ++i) {
    right = MostLikely(next) == question.answer[i];
    if (!right || i + 1 == question.answer.size()) break;
    QUIRE_RETURN_IF_ERROR(decoder_.Forward(std::span(question.answer).subspan(i, 1),
                                           cache->length(), *cache, Decoder::Logits::kLast,
                                           next.data()));
  }
  totals_.full.Count(question, right);
  totals_.full.questions += 1;
  return logits;
}

Status RagRun::PrefillAlone(const PromptSet& set, Reference* reference) const {
  const size_t vocab = engine_.model().vocab_size;
  reference->alone.resize(reference->documents.size());
  for (size_t i = 0; i < set.documents.size(); ++i) {
    const std::vector<TokenId>& document = set.documents[i];
    DenseCache cache(engine_.model(), &worker::CpuDevice(), document.size());
    std::vector<float> logits(document.size() * vocab);
    QUIRE_RETURN_IF_ERROR(
        decoder_.Forward(document, 0, cache, Decoder::Logits::kAll, logits.data()));
    const auto skipped = static_cast<ptrdiff_t>(reference->prompt.skipped(i) * vocab);
    const auto first = static_cast<ptrdiff_t>(reference->prompt.first(i) * vocab);
    std::copy(logits.begin() + skipped, logits.end(), reference->alone.begin() + first);
  }
  return OkStatus();
}

Status RagRun::TimeFull(const PromptSet& set, const Reference& reference) {
  std::vector<TokenId> tokens = reference.prompt.tokens();
  const std::vector<TokenId>& question = set.questions.front().prompt;
  tokens.insert(tokens.end(), question.begin(), question.end());
  const TimePoint start = SystemClock().Now();
  QUIRE_RETURN_IF_ERROR(engine_.DenseLogits(tokens, 1).status());
  totals_.full.seconds.push_back(worker::SecondsSince(SystemClock(), start));
  return OkStatus();
}

Status RagRun::Ask(const PromptSet& set, const Reference& reference, const RagMethod& method,
                   bool measures_documents) {
  if (method.options.method == ReuseMethod::kCacheCraft) QUIRE_RETURN_IF_ERROR(LeaveVariants(set));
  const std::vector<DocumentName> names = NamesOf(set);
  MethodTotals& totals = totals_.methods[method.name];
  std::unique_ptr<worker::ReuseRun> run;
  for (size_t i = 0; i < set.questions.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(CheckGoingOn());
    const RagQuestion& question = set.questions[i];
    const bool again =
        run != nullptr && !options_.times_all && !worker::DependsOnQuestion(method.options.method);
    if (again) {
      QUIRE_RETURN_IF_ERROR(run->AskAgain(question.prompt));
    } else {
      worker::ReuseOptions options = method.options;
      options.bos = options_.bos;
      options.keep_going = options_.keep_going;
      options.max_new_tokens = static_cast<uint32_t>(question.answer.size() + 1);
      QUIRE_ASSIGN_OR_RETURN(run, engine_.OpenReuse(names, question.prompt, options));
    }
    totals.answer_divergence += Divergence(reference.answers[i], run->logits());
    totals.questions += 1;
    const worker::ReuseStats& stats = run->stats();
    totals.sequence_ratio += stats.sequence_ratio;
    totals.recompute_ratio += stats.recompute_ratio;
    totals.bytes_read += stats.bytes_read;
    totals.bytes_whole += stats.bytes_whole;
    if (!again && stats.statistics_computed == 0) totals.seconds.push_back(stats.seconds_prefill);
    if (!question.answer.empty()) {
      QUIRE_ASSIGN_OR_RETURN(
          const worker::Generation given,
          run->Generate({.max_new_tokens = static_cast<uint32_t>(question.answer.size())}));
      totals.Count(question, given.tokens == question.answer);
    }
    if (observer_) observer_(method.name);
  }
  return measures_documents ? MeasureDocuments(set, reference, method) : OkStatus();
}

Status RagRun::LeaveVariants(const PromptSet& set) const {
  std::vector<DocumentName> names = NamesOf(set);
  std::rotate(names.begin(), names.begin() + 1, names.end());
  const worker::ReuseOptions options{.method = ReuseMethod::kFull,
                                     .variants = kVariantsBefore,
                                     .bos = options_.bos,
                                     .max_new_tokens = 1,
                                     .keep_going = options_.keep_going};
  QUIRE_ASSIGN_OR_RETURN(const auto run,
                         engine_.OpenReuse(names, set.questions.front().prompt, options));
  run->KeepVariants();
  return OkStatus();
}

Status RagRun::MeasureDocuments(const PromptSet& set, const Reference& reference,
                                const RagMethod& method) {
  const std::vector<DocumentName> names = NamesOf(set);
  worker::ReuseOptions options = method.options;
  options.bos = options_.bos;
  options.row_logits = true;
  QUIRE_ASSIGN_OR_RETURN(const auto run,
                         engine_.OpenReuse(names, set.questions.front().prompt, options));
  if (run->stats().variants_used > 0) return OkStatus();  // No logits of what variants hold.
  // A token that was not computed has what its document gives it alone.
  std::vector<float> logits = reference.alone;
  const size_t vocab = engine_.model().vocab_size;
  const worker::RowLogits& rows = run->row_logits();
  for (size_t i = 0; i < rows.positions.size(); ++i) {
    std::copy_n(rows.logits.begin() + static_cast<ptrdiff_t>(i * vocab), vocab,
                logits.begin() + static_cast<ptrdiff_t>(rows.positions[i] * vocab));
  }
  MethodTotals& totals = totals_.methods[method.name];
  const auto row = [vocab](const std::vector<float>& of, size_t at) {
    return std::span(of).subspan(at * vocab, vocab);
  };
  for (size_t at = reference.prompt.first(1); at < reference.prompt.tokens().size(); ++at) {
    totals.document_divergence += Divergence(row(reference.documents, at), row(logits, at));
    ++totals.document_rows;
  }
  return OkStatus();
}

}  // namespace quire::bench
