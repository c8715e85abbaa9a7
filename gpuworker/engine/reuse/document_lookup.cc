// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/document_lookup.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "common/base/trace/span.h"
#include "gpuworker/engine/ingest/stored_statistics.h"
#include "gpuworker/engine/request_checks.h"

namespace quire::worker {
namespace {

/// Documents that are looked up at a time.
constexpr size_t kMostThreads = 16;

StatusOr<FoundDocument> LookUpOne(const EngineParts& parts, const DocumentName& name,
                                  WantedStatistics statistics) {
  QUIRE_ASSIGN_OR_RETURN(const Document document, FindDocument(parts, name));
  FoundDocument found{.name = document.name, .context = ContextRef(document.chain_tip)};
  QUIRE_ASSIGN_OR_RETURN(const ContextStat stat, parts.client->Stat(found.context));
  if (const std::string difference = FirstDifference(stat.context.spec, *parts.spec);
      !difference.empty()) {
    return InvalidArgument("it was stored by another model or in other pages: ", difference,
                           " differs; put it with this model");
  }
  found.tier = TierOf(stat, *parts.spec);
  const ModelConfig& model = parts.decoder->config();
  QUIRE_ASSIGN_OR_RETURN(found.tokens, parts.client->ReadTokens(found.context));
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(model, found.tokens));
  if (statistics == WantedStatistics::kNone) return found;
  auto stored = GetStatistics(parts.client, found.name, SamKvShape::Of(model), found.tokens.size(),
                              statistics == WantedStatistics::kRepresentatives);
  if (stored.ok()) found.statistics = *std::move(stored);
  return found;
}

}  // namespace

std::string Label(const DocumentName& name) {
  const std::string label = name.collection + "/" + name.name;
  return name.version == 0 ? label : label + "@" + std::to_string(name.version);
}

std::vector<StatusOr<FoundDocument>> LookUp(const EngineParts& parts,
                                            std::span<const DocumentName> names,
                                            WantedStatistics statistics) {
  std::vector<std::optional<StatusOr<FoundDocument>>> found(names.size());
  std::atomic<size_t> next = 0;
  const auto work = [&, around = CurrentSpan()] {
    const CurrentSpanScope current(around);
    for (size_t i = next++; i < names.size(); i = next++)
      found[i] = LookUpOne(parts, names[i], statistics);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(names.size(), kMostThreads); ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  std::vector<StatusOr<FoundDocument>> documents;
  for (size_t i = 0; i < names.size(); ++i) {
    documents.push_back(found[i]->ok()
                            ? *std::move(found[i])
                            : Annotate(found[i]->status(), "document ", Label(names[i])));
  }
  return documents;
}

}  // namespace quire::worker
