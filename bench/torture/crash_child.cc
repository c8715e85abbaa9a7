// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/crash_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "bench/torture/child.h"
#include "bench/torture/server/server_load.h"
#include "bench/torture/store/load.h"
#include "bench/torture/store/store_look.h"
#include "quire/layout.h"

namespace quire::torture {
namespace {

using kvserver::FaultPoint;
using kvserver::PageStore;
using kvserver::PageStoreImpl;

/// Kills the process when a point is passed for the (skip + 1)th time.
class KillAtPoint final : public kvserver::FaultPoints {
 public:
  KillAtPoint(std::optional<FaultPoint> point, uint64_t skip) : point_(point), left_(skip + 1) {}
  void Reached(FaultPoint point) override {
    if (point == point_ && left_.fetch_sub(1) == 1) kill(getpid(), SIGKILL);
  }

 private:
  const std::optional<FaultPoint> point_;
  std::atomic<uint64_t> left_;
};

StatusOr<std::optional<FaultPoint>> PointNamed(const std::string& name) {
  if (name.empty()) return std::optional<FaultPoint>();
  for (const auto& [known, point] : kKillPoints) {
    if (known == name) return std::optional(point);
  }
  return InvalidArgument("no fault point is called '", name, "'");
}

PageStore::Options StoreFor(const CrashChildOptions& options) {
  PageStore::Options store = SmallStore(options.directory);
  if (options.fill_bytes > 0) {
    store.dram_bytes = 64 << 20;
    store.ssd_bytes = 0;
    store.ssd_volume_bytes = 256 << 20;
  }
  return store;
}

Status RunWithDocuments(const CrashChildOptions& options, KillAtPoint* faults) {
  HandClock clock(options.unix_micros);
  QUIRE_ASSIGN_OR_RETURN(
      TorturedServer server,
      TorturedServer::Open(StoreWithDocuments(options.directory, options.has_limit),
                           {.faults = faults}, &clock));
  const Corpus corpus = CorpusOfDocuments(options.corpus_seed);
  const auto tell = [](const ServerEvent& event) {
    WriteEvent(STDOUT_FILENO, std::as_bytes(std::span(&event, 1)));
  };
  ServerLoad load(
      &server, &corpus, tell,
      {.threads = options.threads, .seed = options.load_seed, .sweeps = options.has_limit});
  load.Run();
  return OkStatus();
}

}  // namespace

PageStore::Options StoreWithDocuments(const std::string& directory, bool has_limit) {
  PageStore::Options store = SmallStore(directory);
  if (has_limit) {
    store.tenant_ssd_quota_bytes = {{kTenant, 1 << 20}};
    store.cached_ttl = std::chrono::minutes(1);
  } else {
    store.ssd_bytes = 0;
  }
  return store;
}

Corpus CorpusOfDocuments(uint64_t seed) {
  return Corpus({.seed = seed, .chains = 24, .specs = SmallSpecs()});
}

std::vector<std::string> CrashChildOptions::ToArguments() const {
  return {"--dir",         directory,
          "--corpus-seed", std::to_string(corpus_seed),
          "--load-seed",   std::to_string(load_seed),
          "--threads",     std::to_string(threads),
          "--kill-point",  kill_point,
          "--kill-skip",   std::to_string(kill_skip),
          "--documents",   std::to_string(has_documents),
          "--limit",       std::to_string(has_limit),
          "--unix-micros", std::to_string(unix_micros),
          "--fill-bytes",  std::to_string(fill_bytes)};
}

Corpus FillCorpus(uint64_t fill_bytes) {
  constexpr uint32_t kSegmentsPerChain = 16;
  const KvSpec spec = LargeSpec();
  const uint64_t chain_bytes = kSegmentsPerChain * SegmentBytes(spec, spec.segment_pages);
  return Corpus({.seed = 1,
                 .chains = static_cast<uint32_t>(DivideRoundUp(fill_bytes, chain_bytes)),
                 .segments = kSegmentsPerChain,
                 .specs = {spec}});
}

Status RunCrashChild(const CrashChildOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto point, PointNamed(options.kill_point));
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // Ends the process with its parent.
  KillAtPoint faults(point, options.kill_skip);
  if (options.has_documents) return RunWithDocuments(options, &faults);
  QUIRE_ASSIGN_OR_RETURN(const auto store,
                         PageStoreImpl::Open(StoreFor(options), {.faults = &faults}));
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(*store));
  const Corpus corpus = options.fill_bytes > 0
                            ? FillCorpus(options.fill_bytes)
                            : Corpus({.seed = options.corpus_seed, .specs = SmallSpecs()});
  DescriptorSink sink(STDOUT_FILENO);
  Load load(store.get(), &corpus, salt, &sink,
            {.threads = options.threads, .seed = options.load_seed});
  if (options.fill_bytes > 0) {
    if (load.PutAll() > 0)
      return ResourceExhausted("not all of ", options.fill_bytes, " bytes fit");
    for (;;) pause();
  }
  load.Run();
  return OkStatus();
}

}  // namespace quire::torture
