// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/server/server_load.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "bench/torture/store/store_look.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::torture {
namespace {

using kvserver::Durability;
using Kind = ServerEvent::Kind;

constexpr uint64_t kMostSecondsOfAPhase = 40;
constexpr uint64_t kMostTtlSeconds = 120;
constexpr size_t kMostContextsOfAThread = 2;

bool IsGone(const Status& status) { return status.code() == StatusCode::kNotFound; }

/// Units of one page of a segment, [layers][n_kv].
std::vector<std::byte> PageOf(const KvSpec& spec, std::span<const std::byte> segment,
                              uint32_t page) {
  const uint64_t row_bytes = ExtentBytes(spec, 1);
  std::vector<std::byte> units;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto row =
        segment.subspan((uint64_t{layer} * spec.segment_pages + page) * row_bytes, row_bytes);
    units.insert(units.end(), row.begin(), row.end());
  }
  return units;
}

}  // namespace

DocumentName DocumentOf(uint32_t chain) {
  return {.collection = "torture", .name = "chain-" + std::to_string(chain), .version = 1};
}

int64_t MicrosOfExpiry(const Document& document) {
  return document.expires_unix_micros == 0 ? ServerEvent::kNever : document.expires_unix_micros;
}

StatusOr<TorturedServer> TorturedServer::Open(kvserver::PageStore::Options options,
                                              const kvserver::PageStoreImpl::Machine& machine,
                                              HandClock* clock) {
  TorturedServer server;
  server.clock = clock;
  options.clock = clock;
  QUIRE_ASSIGN_OR_RETURN(server.store, kvserver::PageStoreImpl::Open(options, machine));
  QUIRE_ASSIGN_OR_RETURN(
      server.registry,
      kvserver::DocumentRegistry::Open(server.store.get(), &server.store->metadata(), clock));
  server.contexts = std::make_unique<kvserver::ContextTable>(kvserver::ContextTable::Options{
      .store = server.store.get(), .ops = &kernels::CpuKernels(), .clock = clock});
  QUIRE_ASSIGN_OR_RETURN(server.salt, SaltOf(*server.store));
  return server;
}

bool ServerLoad::Worker::Holds(uint32_t chain) const {
  return std::ranges::any_of(contexts, [chain](const Growing& context) {
    return context.chain == chain && !context.is_private;
  });
}

ServerLoad::ServerLoad(TorturedServer* server, const Corpus* corpus, ServerEventSink sink,
                       Options options)
    : server_(*server),
      corpus_(*corpus),
      sink_(std::move(sink)),
      options_(std::move(options)),
      keys_(AllKeys(*corpus, server->salt)),
      random_(options_.seed) {
  for (uint32_t number = 0; number < options_.threads; ++number) {
    workers_.push_back({.number = number, .random = SeededRandom(options_.seed * 1000 + number)});
  }
}

uint64_t ServerLoad::num_open_contexts() const {
  uint64_t open = 0;
  for (const Worker& worker : workers_) open += worker.contexts.size();
  return open;
}

void ServerLoad::Run() {
  for (uint64_t i = 0; (options_.phases == 0 || i < options_.phases) && !IsOff(); ++i) {
    RunPhase();
    if (!IsOff()) PassTime();
  }
}

void ServerLoad::RunPhase() {
  std::vector<std::thread> threads;
  for (Worker& worker : workers_) {
    threads.emplace_back([this, &worker] {
      for (uint64_t i = 0; i < kStepsOfAPhase && !IsOff(); ++i) Step(worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ServerLoad::PassTime() {
  const auto seconds = static_cast<int64_t>(random_.Below(kMostSecondsOfAPhase));
  const int64_t now = server_.clock->UnixMicros() + seconds * 1'000'000;
  Tell({.kind = Kind::kTimeIs, .micros = now});
  server_.clock->MoveTo(now);
  // Sometimes late, as a busy server is.
  if (random_.Below(4) > 0 && server_.registry->RemoveExpired().ok()) {
    Tell({.kind = Kind::kExpiredRemoved});
  }
  (void)server_.registry->RestorePins(TimePoint::max());  // Restores the pins that fit.
  if (options_.sweeps) (void)server_.store->Sweep();      // Failures are swept later.
}

uint32_t ServerLoad::OwnChain(Worker& worker) const {
  const uint32_t own = (corpus_.chains() - worker.number + options_.threads - 1) / options_.threads;
  return worker.number + options_.threads * static_cast<uint32_t>(worker.random.Below(own));
}

// Puts more in memory than persisted, so that runs of operations without a sync occur.
void ServerLoad::Step(Worker& worker) {
  const uint32_t chain = OwnChain(worker);
  const uint64_t dice = worker.random.Below(100);
  if (dice < 30) {
    PutChain(chain, /*persisted=*/worker.random.Below(4) == 0);
  } else if (dice < 46) {
    DeleteSome(worker, chain);
  } else if (dice < 54) {
    PutChain(chain, /*persisted=*/true);
    Register(worker, chain);
  } else if (dice < 58) {
    Register(worker, chain);
  } else if (dice < 65) {
    Unregister(worker, chain);
  } else if (dice < 75) {
    TurnPin(chain, worker.random.Below(3) > 0);
  } else if (dice < 84) {
    StepContext(worker, chain);
  } else {
    Read({chain, static_cast<uint32_t>(worker.random.Below(corpus_.segments()))});
  }
}

void ServerLoad::PutChain(uint32_t chain, bool persisted) {
  for (uint32_t index = 0; index < corpus_.segments(); ++index) {
    if (!Put({chain, index}, persisted)) return;
  }
}

bool ServerLoad::Put(SegmentId id, bool persisted) {
  const std::vector<TokenId> tokens = corpus_.Tokens(id);
  const std::vector<std::byte> payload = corpus_.Payload(id);
  kvserver::PutSegmentArgs args;
  args.spec = &corpus_.Spec(id.chain);
  args.parent = id.index == 0 ? kRootKey : keys_[id.chain][id.index - 1];
  args.tokens = tokens;
  args.payload = payload;
  args.expected_key = keys_[id.chain][id.index];
  args.durability = persisted ? Durability::kPersisted : Durability::kMemory;
  Tell({.kind = Kind::kPutStarts, .segment = id});
  const bool ok = server_.store->PutSegment(kTenant, args).ok();
  Tell({.kind = Kind::kPutEnds, .ok = ok, .flag = persisted, .segment = id});
  return ok;
}

void ServerLoad::DeleteSome(Worker& worker, uint32_t chain) {
  const auto stop = static_cast<uint32_t>(worker.random.Below(corpus_.segments()));
  for (uint32_t index = corpus_.segments(); index-- > stop;) Delete(worker, {chain, index});
}

void ServerLoad::Delete(const Worker& worker, SegmentId id) {
  const SegmentKey& key = keys_[id.chain][id.index];
  // The registry keeps a segment that a document refers to. No other thread registers a document of
  // this chain.
  if (!server_.registry->CheckUnreferenced(kTenant, key).ok()) return;
  Tell({.kind = Kind::kDeleteStarts, .segment = id});
  const Status status = server_.registry->DeleteSegment(kTenant, key);
  Tell({.kind = Kind::kDeleteEnds,
        .ok = status.ok() || IsGone(status),
        .flag = status.ok() && worker.Holds(id.chain),
        .segment = id});
}

void ServerLoad::Read(SegmentId id) {
  const Found found = LookAt(*server_.store, corpus_, id, keys_[id.chain][id.index]);
  if (IsOff() && found != Found::kWrong) return;
  Tell({.kind = Kind::kRead, .found = found, .segment = id});
}

void ServerLoad::Register(Worker& worker, uint32_t chain) {
  std::optional<uint64_t> ttl;
  if (worker.random.Below(2) == 0) ttl = 1 + worker.random.Below(kMostTtlSeconds);
  // The clock stands still while threads run.
  const int64_t expires = ttl ? server_.clock->UnixMicros() + static_cast<int64_t>(*ttl) * 1'000'000
                              : ServerEvent::kNever;
  Tell({.kind = Kind::kRegisterStarts, .segment = {chain}, .micros = expires});
  const auto registered = server_.registry->Register(kTenant, DocumentOf(chain),
                                                     keys_[chain].back(), /*content_hash=*/"", ttl);
  Tell({.kind = Kind::kRegisterEnds,
        .ok = registered.ok(),
        .flag = registered.ok() && registered->existed,
        .segment = {chain},
        .micros = registered.ok() ? MicrosOfExpiry(registered->document) : 0});
}

void ServerLoad::Unregister(Worker& worker, uint32_t chain) {
  if (!server_.registry->Get(kTenant, DocumentOf(chain)).ok()) return;
  const bool keeps_segments = worker.random.Below(4) == 0;
  Tell({.kind = Kind::kUnregisterStarts, .flag = keeps_segments, .segment = {chain}});
  const auto deleted = server_.registry->Delete(kTenant, DocumentOf(chain), keeps_segments);
  Tell({.kind = Kind::kUnregisterEnds, .ok = deleted.ok(), .segment = {chain}});
}

void ServerLoad::TurnPin(uint32_t chain, bool on) {
  Tell({.kind = on ? Kind::kPinStarts : Kind::kUnpinStarts, .segment = {chain}});
  const DocumentName name = DocumentOf(chain);
  const bool ok =
      on ? server_.registry->Pin(kTenant, name).ok() : server_.registry->Unpin(kTenant, name).ok();
  Tell({.kind = on ? Kind::kPinEnds : Kind::kUnpinEnds, .ok = ok, .segment = {chain}});
}

// --- Contexts.

void ServerLoad::StepContext(Worker& worker, uint32_t chain) {
  std::vector<Growing>& growing = worker.contexts;
  const uint64_t dice = worker.random.Below(8);
  if (growing.size() < kMostContextsOfAThread) {
    Growing fresh{.chain = chain, .is_private = dice < 2};
    auto opened = server_.contexts->Open(kTenant, corpus_.Spec(chain), nullptr,
                                         {.private_pages = fresh.is_private});
    if (!opened.ok()) return;
    fresh.id = opened->id;
    fresh.context = std::move(opened->context);
    growing.push_back(std::move(fresh));
  } else if (dice == 0) {
    server_.contexts->Drop(kTenant, growing.front().id);
    growing.erase(growing.begin());
    return;
  }
  for (uint64_t pages = worker.random.Below(4); pages-- > 0;) AppendPage(growing.back());
}

void ServerLoad::AppendPage(Growing& growing) {
  const KvSpec& spec = corpus_.Spec(growing.chain);
  const SegmentId id{growing.chain, growing.pages / spec.segment_pages};
  if (id.index + 1 >= corpus_.segments()) return;  // The last segment may be short.
  const uint32_t page = growing.pages % spec.segment_pages;
  const std::vector<TokenId> tokens = corpus_.Tokens(id);
  const std::vector<std::byte> units = PageOf(spec, corpus_.Payload(id), page);
  const bool stores = !growing.is_private && page + 1 == spec.segment_pages;
  if (stores) Tell({.kind = Kind::kPutStarts, .segment = id});
  const auto appended = growing.context->Append(
      growing.pages, std::span(tokens).subspan(size_t{page} * spec.page_tokens, spec.page_tokens),
      units);
  if (stores) {
    Tell({.kind = Kind::kPutEnds, .ok = appended.ok(), .flag = true, .segment = id});
  }
  if (appended.ok()) ++growing.pages;
}

}  // namespace quire::torture
