// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_run.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "gpuworker/context/reuse_method.h"
#include "gpuworker/context/statistics_collector.h"
#include "gpuworker/context/statistics_record.h"
#include "gpuworker/engine/request_checks.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/model/sampler.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

constexpr std::array kMethods = {
    std::pair{ReuseMethod::kFull, "full"},   std::pair{ReuseMethod::kReuse, "reuse_strict"},
    std::pair{ReuseMethod::kEpic, "epic"},   std::pair{ReuseMethod::kCacheBlend, "cacheblend"},
    std::pair{ReuseMethod::kSamKv, "samkv"},
};

std::string Label(const DocumentName& name) {
  const std::string label = name.collection + "/" + name.name;
  return name.version == 0 ? label : label + "@" + std::to_string(name.version);
}

Status NotStored(std::span<const DocumentName> missing) {
  std::string labels;
  for (const DocumentName& name : missing) labels += (labels.empty() ? "" : ", ") + Label(name);
  return NotFound("not stored: ", labels, "; put what is missing, or ask to go on without it");
}

}  // namespace

std::string_view Name(ReuseMethod method) {
  for (const auto& [value, name] : kMethods) {
    if (value == method) return name;
  }
  return "unknown";
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
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(parts.decoder->config(), question));
  std::unique_ptr<ReuseRun> run(new ReuseRun(parts));
  run->keep_going_ = options.keep_going;
  std::unique_ptr<PromptRetrieval> retrieval;
  if (options.retrieval) {
    QUIRE_ASSIGN_OR_RETURN(retrieval, PromptRetrieval::Create(parts, *options.retrieval));
  }
  const TimePoint start = parts.clock->Now();
  QUIRE_RETURN_IF_ERROR(run->Find(documents, options));
  QUIRE_RETURN_IF_ERROR(run->Prefill(question, options));
  if (retrieval != nullptr) run->prompt_->Retrieve(std::move(retrieval));
  run->stats_.seconds_prefill = SecondsSince(*parts.clock, start);
  run->reader_.reset();  // Nothing is read any more: the server may end the session.
  return run;
}

Status ReuseRun::Find(std::span<const DocumentName> documents, const ReuseOptions& options) {
  for (const DocumentName& name : documents) {
    const Status added = Annotate(Add(name, options), "document ", Label(name));
    if (IsNotFound(added)) {
      stats_.missing.push_back(name);
    } else {
      QUIRE_RETURN_IF_ERROR(added);
    }
  }
  const bool may_go_on = options.skip_missing && !names_.empty();
  return stats_.missing.empty() || may_go_on ? OkStatus() : NotStored(stats_.missing);
}

Status ReuseRun::Add(const DocumentName& name, const ReuseOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Document document, FindDocument(parts_, name));
  const ContextRef context(document.chain_tip);
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, parts_.client->ReadTokens(context));
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(parts_.decoder->config(), tokens));
  const bool has_bos = options.bos && !tokens.empty() && tokens.front() == *options.bos;
  sources_.push_back({.tokens = tokens.size(), .first_position = 0, .has_bos = has_bos});
  tokens_.push_back(std::move(tokens));
  names_.push_back(document.name);
  documents_.push_back({.context = context, .placed = {}});
  stats_.bytes_whole += PageCount(*parts_.spec, sources_.back().tokens) * parts_.spec->num_layers *
                        ExtentBytes(*parts_.spec, 1);
  return OkStatus();
}

Status ReuseRun::Prefill(std::span<const TokenId> question, const ReuseOptions& options) {
  const ModelConfig& model = parts_.decoder->config();
  QUIRE_ASSIGN_OR_RETURN(layout_, LayOutPrompt(sources_, question.size(), model.rope,
                                               model.max_positions, options.layout));
  std::vector<TokenId> all;
  for (size_t i = 0; i < documents_.size(); ++i) {
    documents_[i].placed = layout_.sources[i];
    all.insert(all.end(), tokens_[i].begin() + static_cast<ptrdiff_t>(documents_[i].placed.skipped),
               tokens_[i].end());
  }
  all.insert(all.end(), question.begin(), question.end());

  room_ = static_cast<uint32_t>(
      std::min<uint64_t>(options.max_new_tokens, model.max_positions - layout_.tokens()));
  QUIRE_ASSIGN_OR_RETURN(const ReusePlan plan, MakePlan(all, options));
  logits_.resize(model.vocab_size);
  QUIRE_ASSIGN_OR_RETURN(const SparsePrefillStats computed, Run(plan, all, logits_.data()));
  Measure(plan, computed);
  return OkStatus();
}

StatusOr<ReusePlan> ReuseRun::MakePlan(std::span<const TokenId> prompt,
                                       const ReuseOptions& options) {
  const uint32_t num_layers = parts_.decoder->config().num_layers;
  switch (options.method) {
    case ReuseMethod::kFull:
      break;
    case ReuseMethod::kReuse:
      return ReuseOnly(layout_, num_layers);
    case ReuseMethod::kEpic:
      return Epic(layout_, num_layers, options.epic_tokens);
    case ReuseMethod::kCacheBlend:
      return CacheBlend(layout_, num_layers, options.cacheblend);
    case ReuseMethod::kSamKv:
      return SelectAndPlan(prompt, options);
  }
  return FullPrefill(layout_, num_layers);
}

StatusOr<ReusePlan> ReuseRun::SelectAndPlan(std::span<const TokenId> prompt,
                                            const ReuseOptions& options) {
  const ModelConfig& model = parts_.decoder->config();
  const SamKvShape shape{model.num_layers, model.num_query_heads, model.num_kv_heads,
                         model.head_dim};
  std::vector<DocumentStatistics> statistics;
  std::vector<BlockSplit> splits;
  for (size_t i = 0; i < documents_.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(statistics.emplace_back(), StatisticsOf(i, shape));
    splits.push_back(statistics.back().split);
  }
  QueryMeans means(shape, model.rope);
  QUIRE_RETURN_IF_ERROR(Run(SamKvQuestion(layout_, splits, &means), prompt, nullptr).status());
  std::vector<const DocumentStatistics*> documents;
  documents.reserve(statistics.size());
  for (const DocumentStatistics& one : statistics) documents.push_back(&one);
  const std::vector<std::vector<float>> question = means.Means();
  return SamKv(layout_, documents, SelectBlocks(documents, question, shape, options.selection),
               options.samkv);
}

StatusOr<DocumentStatistics> ReuseRun::StatisticsOf(size_t document, const SamKvShape& shape) {
  const DocumentName& name = names_[document];
  if (const auto extra = parts_.client->GetExtra(name, kStatisticsExtra); extra.ok()) {
    std::string bytes(extra->payload.size_bytes(), '\0');
    extra->payload.CopyTo(reinterpret_cast<std::byte*>(bytes.data()));
    auto stored = DecodeStatistics(bytes, shape, tokens_[document].size());
    if (stored.ok()) return stored;
  }
  QUIRE_ASSIGN_OR_RETURN(const DocumentStatistics computed, ComputeStatistics(document));
  ++stats_.statistics_computed;
  const std::string bytes = EncodeStatistics(computed);
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  Payload payload;
  payload.Append(std::vector<std::byte>(begin, begin + bytes.size()));
  stats_.statistics_stored +=
      parts_.client->PutExtra(name, kStatisticsExtra, kStatisticsVersion, payload).ok();
  // What the next question will read, so that both select the same.
  return DecodeStatistics(bytes, shape, tokens_[document].size());
}

StatusOr<DocumentStatistics> ReuseRun::ComputeStatistics(size_t document) const {
  const ModelConfig& model = parts_.decoder->config();
  const std::vector<TokenId>& tokens = tokens_[document];
  DenseCache cache(model, parts_.device, tokens.size());
  StatisticsCollector collector(model, parts_.device, &cache, static_cast<uint32_t>(tokens.size()));
  QUIRE_RETURN_IF_ERROR(
      parts_.decoder->Forward(tokens, 0, collector, Decoder::Logits::kNone, nullptr));
  return collector.Statistics();
}

Status ReuseRun::OpenReader() {
  if (reader_ != nullptr) return OkStatus();
  std::vector<SequenceMember> members;
  uint64_t pages = 0;
  for (size_t i = 0; i < documents_.size(); ++i) {
    members.push_back({documents_[i].context, static_cast<int32_t>(documents_[i].placed.move)});
    pages += PageCount(*parts_.spec, sources_[i].tokens);
  }
  auto reader = DocumentReader::Open(parts_, std::move(members), static_cast<uint32_t>(pages));
  if (!reader.ok()) {
    QUIRE_RETURN_IF_ERROR(CheckSpecs());
    return reader.status();
  }
  reader_ = *std::move(reader);
  return OkStatus();
}

Status ReuseRun::CheckSpecs() const {
  for (size_t i = 0; i < documents_.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const ContextStat stat, parts_.client->Stat(documents_[i].context));
    const std::string difference = FirstDifference(stat.context.spec, *parts_.spec);
    if (difference.empty()) continue;
    return InvalidArgument("document ", Label(names_[i]),
                           " was stored by another model or in other pages: ", difference,
                           " differs; put it with this model");
  }
  return OkStatus();
}

StatusOr<SparsePrefillStats> ReuseRun::Run(const ReusePlan& plan, std::span<const TokenId> prompt,
                                           float* logits) {
  prompt_ = std::make_unique<AssembledPrompt>(
      parts_, documents_, plan.layers,
      AssembledPrompt::Shape{.first_new = layout_.tokens(), .new_tokens = room_},
      std::move(prompt_), keep_going_);
  if (prompt_->MostPages() > 0) {
    QUIRE_RETURN_IF_ERROR(OpenReader());
    QUIRE_RETURN_IF_ERROR(prompt_->Ask(reader_.get()));
  }
  std::vector<TokenId> rows;
  for (const uint64_t position : plan.positions) rows.push_back(prompt[position]);
  return parts_.decoder->SparsePrefill({rows, plan.positions}, plan.rows.get(), prompt_.get(),
                                       plan.update, logits);
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
  stats_.recompute_ratio = static_cast<double>(computed.fresh_rows - of_question) / of_documents;
  stats_.sequence_ratio = static_cast<double>(visible - of_question) / of_documents;
  if (reader_ == nullptr) return;
  stats_.bytes_read = reader_->bytes_read();
  stats_.requests = reader_->requests();
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
    const uint64_t position = layout_.tokens() + generation.tokens.size();
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

}  // namespace quire::worker
