// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_run.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "gpuworker/context/cacheblend/loading_controller.h"
#include "gpuworker/context/compact_plan.h"
#include "gpuworker/context/epic.h"
#include "gpuworker/context/every_output.h"
#include "gpuworker/context/full_prefill.h"
#include "gpuworker/context/reuse_isolated.h"
#include "gpuworker/context/reuse_plan.h"
#include "gpuworker/context/reuse_strict.h"
#include "gpuworker/context/statistics/statistics_collector.h"
#include "gpuworker/engine/ingest/stored_statistics.h"
#include "gpuworker/engine/loss.h"
#include "gpuworker/engine/request_checks.h"
#include "gpuworker/engine/reuse/chosen_views.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/model/sampler.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

constexpr std::array kMethods = {
    std::pair{ReuseMethod::kFull, "full"},
    std::pair{ReuseMethod::kReuse, "reuse_strict"},
    std::pair{ReuseMethod::kIsolated, "reuse_isolated"},
    std::pair{ReuseMethod::kEpic, "epic"},
    std::pair{ReuseMethod::kCacheBlend, "cacheblend"},
    std::pair{ReuseMethod::kSamKv, "samkv"},
    std::pair{ReuseMethod::kInfLlm, "multi_infllm"},
    std::pair{ReuseMethod::kCacheCraft, "cachecraft"},
    std::pair{ReuseMethod::kHops, "hops"},
};

/// Fewer rows, times layers, are dominated by what does not grow with them.
constexpr uint64_t kLeastMeasuredRows = 4096;

/// Times that documents are read whose server is lost meanwhile.
constexpr int kMostReadings = 3;

/// True when a prefill lost its server, so that another one may succeed.
bool IsLostReading(const Status& status) { return IsLoss(status) && !IsResourceExhausted(status); }

WantedStatistics StatisticsFor(const ReuseOptions& options) {
  switch (options.method) {
    case ReuseMethod::kSamKv:
      return WantedStatistics::kSelection;
    case ReuseMethod::kInfLlm:
      return WantedStatistics::kRepresentatives;
    default:
      return WantedStatistics::kNone;
  }
}

/// INVALID_ARGUMENT for one of `layers` that the model lacks.
Status CheckLayers(std::string_view use, std::span<const uint32_t> layers, uint32_t num_layers) {
  for (const uint32_t layer : layers) {
    if (layer < num_layers) continue;
    return InvalidArgument("layer ", layer, " is to ", use, ", and the model has ", num_layers,
                           " layers; layers count from 0");
  }
  return OkStatus();
}

/// The same for layers that the options' method is told.
Status CheckLayers(const ReuseOptions& options, uint32_t num_layers) {
  switch (options.method) {
    case ReuseMethod::kCacheBlend: {
      const uint32_t check = options.cacheblend.check_layer.value_or(0);
      return CheckLayers("compare values", {&check, 1}, num_layers);
    }
    case ReuseMethod::kSamKv:
      return CheckLayers("decide how much is read", options.selection.stable_layers, num_layers);
    case ReuseMethod::kHops:
      return CheckLayers("retrieve", options.hops.layers, num_layers);
    default:
      return OkStatus();
  }
}

Status NotStored(std::span<const DocumentName> missing) {
  std::string labels;
  for (const DocumentName& name : missing) labels += (labels.empty() ? "" : ", ") + Label(name);
  return NotFound("not stored: ", labels, "; put what is missing, or ask to go on without it");
}

Status CheckDigestBytes(const Hops& hops, uint64_t most) {
  if (hops.digest_bytes() <= most) return OkStatus();
  return ResourceExhausted("the bounds of the documents' pages take ", hops.digest_bytes(),
                           " bytes in ", hops.layers().size(), " layers, more than ", most,
                           "; let fewer layers retrieve (--hop-layers), or name fewer documents");
}

}  // namespace

std::string_view Name(ReuseMethod method) {
  for (const auto& [value, name] : kMethods) {
    if (value == method) return name;
  }
  return "unknown";
}

std::vector<std::string_view> ReuseMethodNames() {
  std::vector<std::string_view> names;
  names.reserve(kMethods.size());
  for (const auto& [value, name] : kMethods) names.emplace_back(name);
  return names;
}

bool DependsOnQuestion(ReuseMethod method) {
  switch (method) {
    case ReuseMethod::kReuse:
    case ReuseMethod::kIsolated:
    case ReuseMethod::kEpic:
    case ReuseMethod::kCacheBlend:
      return false;
    default:
      return true;
  }
}

StatusOr<ReuseMethod> ParseReuseMethod(std::string_view name) {
  std::string known;
  for (const auto& [value, text] : kMethods) {
    if (name == text) return value;
    known += std::string(known.empty() ? "" : ", ") + text;
  }
  return InvalidArgument("no method '", name, "'; the methods are ", known);
}

StatusOr<std::unique_ptr<ReuseRun>> ReuseRun::Open(const EngineParts& parts,
                                                   std::span<const DocumentName> documents,
                                                   std::span<const TokenId> question,
                                                   const ReuseOptions& options) {
  if (documents.empty() || documents.size() > DocumentReader::kMostDocuments) {
    return InvalidArgument(documents.size(), " documents are named; name 1 to ",
                           DocumentReader::kMostDocuments);
  }
  if (question.empty()) return InvalidArgument("the question is empty; give it a token or more");
  if (!parts.spec->has_values()) {
    return Unimplemented(
        "caches of several documents are not put together for latent attention; "
        "ask about one document, or store them as one");
  }
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(parts.decoder->config(), question));
  QUIRE_RETURN_IF_ERROR(parts.decoder->CheckSparsePrefill());
  QUIRE_RETURN_IF_ERROR(CheckLayers(options, parts.decoder->config().num_layers));
  const TimePoint start = parts.clock->Now();
  for (int tries = 1;; ++tries) {
    std::unique_ptr<ReuseRun> run(new ReuseRun(parts));
    run->method_ = options.method;
    run->keep_going_ = options.keep_going;
    run->retrieval_ = options.retrieval;
    QUIRE_ASSIGN_OR_RETURN(auto retrieval, run->NewRetrieval());
    QUIRE_RETURN_IF_ERROR(run->Find(documents, options));
    const Status prefilled = run->Prefill(question, options);
    // Another node may have the documents, or this one again.
    if (IsLostReading(prefilled) && tries < kMostReadings) continue;
    QUIRE_RETURN_IF_ERROR(prefilled);
    run->prompt_->Retrieve(std::move(retrieval));
    run->stats_.seconds_prefill = SecondsSince(*parts.clock, start);
    run->reader_.reset();  // Nothing is read any more: the server may end the session.
    return run;
  }
}

StatusOr<std::unique_ptr<PromptRetrieval>> ReuseRun::NewRetrieval() const {
  if (!retrieval_) return std::unique_ptr<PromptRetrieval>();
  return PromptRetrieval::Create(parts_, *retrieval_);
}

Status ReuseRun::Find(std::span<const DocumentName> documents, const ReuseOptions& options) {
  std::vector<StatusOr<FoundDocument>> found = LookUp(parts_, documents, StatisticsFor(options));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].ok()) {
      Add(*std::move(found[i]), options);
    } else if (IsNotFound(found[i].status())) {
      stats_.missing.push_back(documents[i]);
    } else {
      return found[i].status();
    }
  }
  const bool may_go_on = options.skip_missing && !names_.empty();
  return stats_.missing.empty() || may_go_on ? OkStatus() : NotStored(stats_.missing);
}

void ReuseRun::Add(FoundDocument found, const ReuseOptions& options) {
  const bool has_bos = options.bos && !found.tokens.empty() && found.tokens.front() == *options.bos;
  sources_.push_back({.tokens = found.tokens.size(), .first_position = 0, .has_bos = has_bos});
  tokens_.push_back(std::move(found.tokens));
  names_.push_back(std::move(found.name));
  documents_.push_back(
      {.member = static_cast<uint32_t>(contexts_.size()), .placed = {}, .tier = found.tier});
  contexts_.push_back(std::move(found.context));
  statistics_.push_back(std::move(found.statistics));
  stats_.bytes_whole += PageCount(*parts_.spec, sources_.back().tokens) * parts_.spec->num_layers *
                        ExtentBytes(*parts_.spec, 1);
}

Status ReuseRun::LayOut(uint64_t question_tokens, const ReuseOptions& options) {
  const ModelConfig& model = parts_.decoder->config();
  const bool selects =
      options.method == ReuseMethod::kSamKv || options.method == ReuseMethod::kInfLlm;
  const uint64_t most = selects ? UINT64_MAX : model.max_positions;
  QUIRE_ASSIGN_OR_RETURN(layout_, LayOutPrompt(sources_, question_tokens, model.rope, most));
  stats_.compact = selects && (options.positions == PromptPositions::kCompact ||
                               layout_.tokens() > model.max_positions);
  return OkStatus();
}

Status ReuseRun::CheckWanted() const {
  if (!keep_going_ || keep_going_()) return OkStatus();
  return MakeStatus(StatusCode::kCancelled, "the question was cancelled");
}

std::vector<TokenId> ReuseRun::PromptOf(std::span<const TokenId> question) const {
  std::vector<TokenId> all;
  for (size_t i = 0; i < documents_.size(); ++i) {
    const auto skipped = static_cast<ptrdiff_t>(layout_.sources[i].skipped);
    all.insert(all.end(), tokens_[i].begin() + skipped, tokens_[i].end());
  }
  all.insert(all.end(), question.begin(), question.end());
  return all;
}

Status ReuseRun::Prefill(std::span<const TokenId> question, const ReuseOptions& options) {
  QUIRE_RETURN_IF_ERROR(LayOut(question.size(), options));
  for (size_t i = 0; i < documents_.size(); ++i) documents_[i].placed = layout_.sources[i];
  const std::vector<TokenId> all = PromptOf(question);
  room_ = options.max_new_tokens;
  OpenVariants(all, options);
  QUIRE_ASSIGN_OR_RETURN(ReusePlan plan, MakePlan(all, options));
  if (most_variants_ > 0) variants_->Measure(&plan);
  logits_.resize(parts_.decoder->config().vocab_size);
  const TimePoint start = parts_.clock->Now();
  QUIRE_ASSIGN_OR_RETURN(const SparsePrefillStats computed, options.row_logits
                                                                ? RunForRows(plan, all)
                                                                : Run(plan, all, logits_.data()));
  if (most_variants_ > 0) stats_.variants_kept = variants_->EndMeasuring();
  Measure(plan, computed);
  NoteCosts(plan, computed, SecondsSince(*parts_.clock, start));
  return OkStatus();
}

Status ReuseRun::AskAgain(std::span<const TokenId> question) {
  if (DependsOnQuestion(method_)) {
    return FailedPrecondition("what ", Name(method_), " keeps of documents is for one question");
  }
  const ModelConfig& model = parts_.decoder->config();
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(model, question));
  if (question.empty()) return InvalidArgument("the question is empty; give it a token or more");
  if (layout_.question_first + question.size() > model.max_positions) {
    return InvalidArgument("the documents and the question are longer than the model's context");
  }
  QUIRE_ASSIGN_OR_RETURN(auto retrieval, NewRetrieval());  // The first one knows its cells.
  layout_.question_tokens = question.size();
  ReusePlan plan = method_ == ReuseMethod::kIsolated ? ReuseIsolated(layout_, model.num_layers)
                                                     : ReuseStrict(layout_, model.num_layers);
  const uint64_t read = stats_.bytes_read;  // Run adds those of the prompt before.
  QUIRE_RETURN_IF_ERROR(Run(plan, PromptOf(question), logits_.data()).status());
  stats_.bytes_read = read;
  prompt_->Retrieve(std::move(retrieval));
  return OkStatus();
}

StatusOr<SparsePrefillStats> ReuseRun::RunForRows(ReusePlan& plan,
                                                  std::span<const TokenId> prompt) {
  const ModelConfig& model = parts_.decoder->config();
  auto every = std::make_unique<EveryOutput>(std::move(plan.rows), model.num_layers);
  const EveryOutput* const outputs = every.get();
  plan.rows = std::move(every);
  const std::vector<uint64_t> positions = plan.positions;  // Gapped ones.
  std::vector<float>& logits = row_logits_.logits;
  logits.resize(positions.size() * model.vocab_size);
  QUIRE_ASSIGN_OR_RETURN(const SparsePrefillStats computed, Run(plan, prompt, logits.data()));
  for (const uint32_t row : outputs->rows()) {
    const uint64_t position = positions[row];
    if (position < layout_.question_first) row_logits_.positions.push_back(position);
  }
  const auto last =
      logits.begin() + static_cast<ptrdiff_t>((outputs->rows().size() - 1) * model.vocab_size);
  std::copy_n(last, model.vocab_size, logits_.begin());
  logits.resize(row_logits_.positions.size() * model.vocab_size);
  return computed;
}

void ReuseRun::NoteCosts(const ReusePlan& plan, const SparsePrefillStats& computed,
                         double seconds) const {
  parts_.reuse_costs->AddLoads(prompt_->loads());
  if (!plan.reads_everything() || computed.output_rows < kLeastMeasuredRows) return;
  parts_.reuse_costs->AddPrefill(computed.output_rows, seconds - prompt_->seconds_waited());
}

StatusOr<ReusePlan> ReuseRun::MakePlan(std::span<const TokenId> prompt,
                                       const ReuseOptions& options) {
  const uint32_t num_layers = parts_.decoder->config().num_layers;
  switch (options.method) {
    case ReuseMethod::kFull:
      break;
    case ReuseMethod::kReuse:
      return ReuseStrict(layout_, num_layers);
    case ReuseMethod::kIsolated:
      return ReuseIsolated(layout_, num_layers);
    case ReuseMethod::kEpic:
      return Epic(layout_, num_layers, options.epic_tokens);
    case ReuseMethod::kCacheBlend:
      return PlanCacheBlend(options);
    case ReuseMethod::kCacheCraft:
      return PlanCacheCraft(options);
    case ReuseMethod::kSamKv:
    case ReuseMethod::kInfLlm:
      return SelectAndPlan(prompt, options);
    case ReuseMethod::kHops:
      return PlanHops(prompt, options);
  }
  return FullPrefill(layout_, num_layers);
}

StatusOr<ReusePlan> ReuseRun::PlanHops(std::span<const TokenId> prompt,
                                       const ReuseOptions& options) {
  hops_ = std::make_unique<Hops>(layout_, *parts_.spec, options.hops);
  QUIRE_RETURN_IF_ERROR(CheckDigestBytes(*hops_, options.hops.most_digest_bytes));
  QUIRE_RETURN_IF_ERROR(OpenReader());
  for (const AssembledDocument& document : documents_) {
    QUIRE_RETURN_IF_ERROR(CheckWanted());
    const auto pages =
        static_cast<uint32_t>(StoredPages(document.placed, parts_.spec->page_tokens));
    QUIRE_ASSIGN_OR_RETURN(std::vector<std::byte> bounds,
                           reader_->Bounds(document.member, hops_->layers(), pages));
    stats_.bytes_read += bounds.size();
    hops_->AddDigests(std::move(bounds));
  }
  for (uint32_t hop = 1; hop < options.hops.hops; ++hop) {
    ReusePlan plan = hops_->Pass();
    QUIRE_ASSIGN_OR_RETURN(const SparsePrefillStats computed, Run(plan, prompt, nullptr));
    rows_before_ += computed.fresh_rows - layout_.question_tokens * parts_.spec->num_layers;
    if (!hops_->EndPass()) break;
  }
  return hops_->Pass();
}

LayerCosts ReuseRun::CostsOfLayer() const {
  OfTiers<uint64_t> bytes;
  for (size_t i = 0; i < documents_.size(); ++i) {
    bytes[documents_[i].tier] +=
        PageCount(*parts_.spec, sources_[i].tokens) * ExtentBytes(*parts_.spec, 1);
  }
  return parts_.reuse_costs->OfLayer(bytes, layout_.tokens());
}

ReusePlan ReuseRun::PlanCacheBlend(const ReuseOptions& options) {
  const uint32_t num_layers = parts_.decoder->config().num_layers;
  CacheBlendOptions cacheblend = options.cacheblend;
  RatioChoice choice{.ratio = cacheblend.ratio};
  if (options.balances_loading) {
    choice = parts_.reuse_costs->Choose(CostsOfLayer(), cacheblend.ratio);
  }
  stats_.chosen_ratio = cacheblend.ratio = choice.ratio;
  stats_.chose_full_prefill = !choice.loads;
  return choice.loads ? CacheBlend(layout_, num_layers, cacheblend)
                      : FullPrefill(layout_, num_layers);
}

void ReuseRun::OpenVariants(std::span<const TokenId> prompt, const ReuseOptions& options) {
  const bool uses = options.method == ReuseMethod::kCacheCraft;
  const bool computes = uses || options.method == ReuseMethod::kFull;
  if (computes) most_variants_ = options.variants;
  if (!uses && most_variants_ == 0) return;
  variants_.emplace(parts_, names_, contexts_, layout_, prompt, keep_going_);
  if (!uses) variants_->ComputeAll();
}

StatusOr<ReusePlan> ReuseRun::PlanCacheCraft(const ReuseOptions& options) {
  const std::vector<AssembledDocument> alone = documents_;
  const std::vector<ContextRef> contexts = contexts_;
  ReusePlan plan = variants_->Choose(options.cachecraft, &documents_, &contexts_);
  const Status opened = OpenReader();
  if (IsNotFound(opened)) {  // A variant has left meanwhile.
    documents_ = alone;
    contexts_ = contexts;
    plan = variants_->ChooseAlone(options.cachecraft);
  } else {
    QUIRE_RETURN_IF_ERROR(opened);
  }
  stats_.variants_used = variants_->used();
  return plan;
}

StatusOr<ReusePlan> ReuseRun::SelectAndPlan(std::span<const TokenId> prompt,
                                            const ReuseOptions& options) {
  const ModelConfig& model = parts_.decoder->config();
  const SamKvShape shape = SamKvShape::Of(model);
  std::vector<const DocumentStatistics*> documents;
  std::vector<BlockSplit> splits;
  for (size_t i = 0; i < documents_.size(); ++i) {
    if (!statistics_[i]) QUIRE_RETURN_IF_ERROR(ComputeStatistics(i));
    documents.push_back(&*statistics_[i]);
    splits.push_back(statistics_[i]->split);
    scores_content_ |= options.method == ReuseMethod::kSamKv && splits.back().has_middle();
  }
  QueryMeans means(shape, model.rope);
  ReusePlan first = SamKvQuestion(layout_, splits, &means);
  QUIRE_RETURN_IF_ERROR(Run(first, prompt, nullptr).status());
  const std::vector<std::vector<float>> question = means.Means();
  if (options.method == ReuseMethod::kInfLlm) {
    return SamKv(layout_, documents, SelectInfLlmBlocks(documents, question, shape, options.infllm),
                 {.rows = SamKvRows::kNothing});
  }
  QUIRE_ASSIGN_OR_RETURN(const DocumentScores scores, ScoreBlocks(documents, question, shape));
  return SamKv(layout_, documents, SelectBlocks(documents, scores, shape, options.selection),
               options.samkv);
}

StatusOr<DocumentScores> ReuseRun::ScoreBlocks(std::span<const DocumentStatistics* const> documents,
                                               std::span<const std::vector<float>> question,
                                               const SamKvShape& shape) {
  ContentScoring wanted{.layers = std::vector<uint32_t>(shape.num_layers)};
  std::iota(wanted.layers.begin(), wanted.layers.end(), 0);
  for (size_t i = 0; i < documents.size(); ++i) {
    if (!documents[i]->split.has_middle()) continue;
    wanted.candidates.push_back(
        {.member = documents_[i].member, .end_page = PageCount(*parts_.spec, sources_[i].tokens)});
    const std::vector<float> queries = ScoringQueries(documents, question, shape, i);
    wanted.queries.insert(wanted.queries.end(), queries.begin(), queries.end());
  }
  DocumentScores scores(documents.size());
  if (wanted.candidates.empty()) return scores;
  QUIRE_RETURN_IF_ERROR(OpenReader());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> of_pages, reader_->Score(wanted));
  stats_.bytes_read += of_pages.size() * sizeof(float);
  std::span<const float> rest(of_pages);
  for (const CandidateRange& range : wanted.candidates) {
    const BlockSplit& split = documents[range.member]->split;
    for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
      scores[range.member].push_back(
          ScoresOfBlocks(split, parts_.spec->page_tokens, rest.first(range.end_page)));
      rest = rest.subspan(range.end_page);
    }
  }
  return scores;
}

Status ReuseRun::ComputeStatistics(size_t document) {
  const ModelConfig& model = parts_.decoder->config();
  const std::vector<TokenId>& tokens = tokens_[document];
  DenseCache cache(model, parts_.device, tokens.size());
  StatisticsCollector collector(model, parts_.device, &cache,
                                {.tokens = static_cast<uint32_t>(tokens.size()),
                                 .block_tokens = parts_.statistics_block_tokens});
  QUIRE_RETURN_IF_ERROR(
      parts_.decoder->Forward(tokens, 0, collector, Decoder::Logits::kNone, nullptr));
  const DocumentStatistics computed = collector.Statistics();
  ++stats_.statistics_computed;
  stats_.statistics_stored += PutStatistics(parts_.client, names_[document], computed).ok();
  QUIRE_ASSIGN_OR_RETURN(statistics_[document], AsStored(computed, SamKvShape::Of(model)));
  return OkStatus();
}

StatusOr<std::vector<AssembledDocument>> ReuseRun::MakeCompact(ReusePlan& plan) {
  const ModelConfig& model = parts_.decoder->config();
  QUIRE_ASSIGN_OR_RETURN(const CompactPrompt compact, Compact(layout_, model.rope, &plan));
  if (compact.tokens > model.max_positions) {
    return InvalidArgument("what is read of the documents and the question have ", compact.tokens,
                           " tokens, ", compact.tokens - model.max_positions,
                           " more than the model's context of ", model.max_positions,
                           "; leave out a document");
  }
  end_ = compact.tokens;
  std::vector<AssembledDocument> pieces;
  for (const PlacedPiece& piece : compact.pieces) {
    pieces.push_back(documents_[piece.document]);
    pieces.back().placed = piece.placed;
  }
  return pieces;
}

Status ReuseRun::OpenReader() {
  if (reader_ != nullptr) return OkStatus();
  uint64_t pages = 0;
  // A variant may begin and end within a page.
  for (const StoredSource& source : sources_) pages += PageCount(*parts_.spec, source.tokens) + 1;
  QUIRE_ASSIGN_OR_RETURN(
      reader_,
      DocumentReader::Open(parts_, contexts_, static_cast<uint32_t>(pages), scores_content_));
  return OkStatus();
}

StatusOr<SparsePrefillStats> ReuseRun::Run(ReusePlan& plan, std::span<const TokenId> prompt,
                                           float* logits) {
  if (prompt_ != nullptr) stats_.bytes_read += prompt_->bytes_read();
  std::vector<TokenId> rows;
  for (const uint64_t position : plan.positions) rows.push_back(prompt[position]);
  std::vector<AssembledDocument> documents = documents_;
  end_ = layout_.tokens();
  if (stats_.compact) {
    QUIRE_ASSIGN_OR_RETURN(documents, MakeCompact(plan));
  }
  room_ = static_cast<uint32_t>(
      std::min<uint64_t>(room_, parts_.decoder->config().max_positions - end_));
  // Compact positions are those of one plan, and rows of another are turned otherwise.
  if (stats_.compact) prompt_.reset();
  if (plan.chooser != nullptr) plan.layers.resize(parts_.spec->num_layers);
  prompt_ = std::make_unique<AssembledPrompt>(
      parts_, documents, plan.layers,
      AssembledPrompt::Shape{.first_new = end_, .new_tokens = room_}, std::move(prompt_),
      keep_going_);
  if (plan.chooser != nullptr) return RunChosen(plan, rows, logits);
  if (prompt_->MostPages() > 0) {
    QUIRE_RETURN_IF_ERROR(OpenReader());
    QUIRE_RETURN_IF_ERROR(prompt_->Ask(reader_.get()));
  }
  return parts_.decoder->SparsePrefill({rows, plan.positions}, plan.rows.get(), prompt_.get(),
                                       plan.update, logits);
}

StatusOr<SparsePrefillStats> ReuseRun::RunChosen(ReusePlan& plan, std::span<const TokenId> rows,
                                                 float* logits) {
  ChosenViews views(parts_, plan.chooser, prompt_.get(), reader_.get());
  QUIRE_ASSIGN_OR_RETURN(const SparsePrefillStats computed,
                         parts_.decoder->SparsePrefill({rows, plan.positions}, plan.rows.get(),
                                                       &views, plan.update, logits));
  QUIRE_RETURN_IF_ERROR(views.Finish());
  plan.layers = prompt_->cells();
  return computed;
}

void ReuseRun::Measure(const ReusePlan& plan, const SparsePrefillStats& computed) {
  const uint32_t num_layers = parts_.decoder->config().num_layers;
  const auto of_documents = static_cast<double>(layout_.question_first) * num_layers;
  const uint64_t of_question = layout_.question_tokens * num_layers;
  uint64_t visible = 0;
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    visible += plan.cells(layer).visible.size();
  }
  stats_.prompt_tokens = layout_.tokens();
  stats_.question_tokens = layout_.question_tokens;
  const uint64_t of_passes = rows_before_ + computed.fresh_rows - of_question;
  stats_.recompute_ratio = static_cast<double>(of_passes) / of_documents;
  stats_.sequence_ratio = static_cast<double>(visible - of_question) / of_documents;
  stats_.bytes_read += prompt_->bytes_read();
  stats_.requests = reader_ == nullptr ? 0 : reader_->requests();
}

StatusOr<Generation> ReuseRun::Generate(const GenerateParams& params) {
  QUIRE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({.temperature = params.temperature,
                                                           .top_p = params.top_p,
                                                           .seed = params.seed}));
  Generation generation;
  const uint32_t most = std::min(params.max_new_tokens, room_);
  while (generation.tokens.size() < most) {
    QUIRE_ASSIGN_OR_RETURN(const TokenId token, sampler.Sample(logits_));
    generation.stopped = std::ranges::find(params.stop_tokens, token) != params.stop_tokens.end();
    if (generation.stopped) break;
    const uint64_t position = end_ + generation.tokens.size();
    generation.tokens.push_back(token);
    if (params.on_token && !params.on_token(token)) break;
    if (generation.tokens.size() == most) break;  // Nothing follows that would need its logits.
    QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward({&token, 1}, position, *prompt_,
                                                  Decoder::Logits::kLast, logits_.data()));
  }
  if (prompt_->retrieval() != nullptr) {
    stats_.attended_ratio = prompt_->retrieval()->attended_ratio();
  }
  return generation;
}

uint32_t ReuseRun::KeepVariants() {
  if (most_variants_ == 0) return 0;
  const bool cancelled = keep_going_ && !keep_going_();
  stats_.variants_kept = cancelled ? 0 : variants_->Keep(*prompt_, most_variants_);
  return stats_.variants_kept;
}

}  // namespace quire::worker
