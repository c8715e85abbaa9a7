// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/server/server_look.h"

#include <array>
#include <map>
#include <set>
#include <utility>

#include "bench/torture/store/store_look.h"
#include "common/base/observe/metrics.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::torture {
namespace {

/// Longer than any time to live of a load, and than the lease of a context.
constexpr int64_t kLongMicros = int64_t{3600} * 1'000'000;

/// Metrics that are zero on an empty server.
constexpr std::array kNoneLeft = {"segments",        "segments_cached",  "segments_held",
                                  "ssd_bytes_used",  "ssd_bytes_cached", "payload_used_bytes",
                                  "orphans_pending", "documents_pinned", "document_pins_waiting"};

/// Names of the documents that are pinned.
StatusOr<std::set<std::string>> PinnedDocuments(TorturedServer& server) {
  std::set<std::string> pinned;
  QUIRE_RETURN_IF_ERROR(kvserver::ForEachEntry(server.store->metadata(), kvserver::AllPinsPrefix(),
                                               [&](const kvserver::MetadataEntry& entry) {
                                                 const auto pin = kvserver::ParsePinKey(entry.key);
                                                 pinned.insert(pin ? pin->name.name
                                                                   : "a pin that cannot be read");
                                               }));
  return pinned;
}

std::map<std::string, uint64_t> MetricsOf(const TorturedServer& server) {
  auto metrics = MetricValuesOf(*server.store);
  metrics.merge(MetricValuesOf(*server.registry));
  return metrics;
}

/// Runs the sweep that a server runs once a second.
Status RemoveWhatHasExpired(TorturedServer& server) {
  server.contexts->RemoveExpired();
  QUIRE_RETURN_IF_ERROR(server.registry->RemoveExpired().status());
  return server.store->Sweep().status();
}

void Differ(std::string_view what, uint64_t server, uint64_t fsck,
            std::vector<std::string>* problems) {
  if (server == fsck) return;
  problems->push_back("the server counts " + std::to_string(server) + " " + std::string(what) +
                      ", fsck " + std::to_string(fsck));
}

}  // namespace

Status CompareServer(TorturedServer& server, const Corpus& corpus, ServerHistory* history) {
  QUIRE_ASSIGN_OR_RETURN(const std::set<std::string> pinned, PinnedDocuments(server));
  const auto keys = AllKeys(corpus, server.salt);
  for (uint32_t chain = 0; chain < corpus.chains(); ++chain) {
    const DocumentName name = DocumentOf(chain);
    const auto document = server.registry->Get(kTenant, name);
    const bool gone = document.status().code() == StatusCode::kNotFound;
    if (!document.ok() && !gone) {
      return Annotate(document.status(), "the document of chain ", chain);
    }
    history->CompareDocument(chain, document.ok(), document.ok() ? MicrosOfExpiry(*document) : 0,
                             document.status().ToString());
    history->ComparePin(chain, pinned.contains(name.name));
    for (uint32_t index = 0; index < corpus.segments(); ++index) {
      Status answer;
      const Found found =
          LookAt(*server.store, corpus, {chain, index}, keys[chain][index], &answer);
      history->Compare({chain, index}, found, answer.ToString());
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t strangers, CountStrangers(*server.store, keys));
  history->CountStrangers(strangers);
  return OkStatus();
}

SpaceAccount AccountOf(const TorturedServer& server) {
  const auto metrics = MetricsOf(server);
  return {.segments = metrics.at("segments"),
          .bytes = metrics.at("ssd_bytes_used"),
          .cached_segments = metrics.at("segments_cached"),
          .cached_bytes = metrics.at("ssd_bytes_cached")};
}

std::vector<std::string> ProblemsOfSpace(const SpaceAccount& account,
                                         const kvserver::FsckReport& checked) {
  std::vector<std::string> problems;
  for (const kvserver::FsckProblem& problem : checked.problems) problems.push_back(problem.what);
  Differ("segments", account.segments, checked.segments, &problems);
  Differ("bytes of payload", account.bytes, checked.payload_bytes, &problems);
  Differ("cached segments", account.cached_segments, checked.cached_segments, &problems);
  Differ("bytes of cached segments", account.cached_bytes, checked.cached_bytes, &problems);
  return problems;
}

StatusOr<std::vector<std::string>> EmptyServer(TorturedServer& server, const Corpus& corpus) {
  for (uint32_t chain = 0; chain < corpus.chains(); ++chain) {
    const auto deleted = server.registry->Delete(kTenant, DocumentOf(chain), false);
    if (!deleted.ok() && deleted.status().code() != StatusCode::kNotFound) return deleted.status();
  }
  server.clock->MoveTo(server.clock->UnixMicros() + kLongMicros);
  QUIRE_RETURN_IF_ERROR(RemoveWhatHasExpired(server));
  for (const std::vector<SegmentKey>& chain : AllKeys(corpus, server.salt)) {
    for (const SegmentKey& key : chain) {
      const Status deleted = server.registry->DeleteSegment(kTenant, key);
      if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) return deleted;
    }
  }
  QUIRE_RETURN_IF_ERROR(RemoveWhatHasExpired(server));
  std::vector<std::string> left;
  const auto metrics = MetricsOf(server);
  for (const char* const name : kNoneLeft) {
    if (metrics.at(name) == 0) continue;
    left.push_back("everything was deleted, and " + std::string(name) + " is " +
                   std::to_string(metrics.at(name)));
  }
  return left;
}

}  // namespace quire::torture
