// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/session_plan.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/kit/gqa_spec.h"
#include "bench/kit/median.h"
#include "common/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/session/session.h"
#include "kvserver/store/testing/memory_metadata_store.h"
#include "quire/clock.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

using namespace quire::kvserver;

constexpr uint32_t kLayers = 20, kHeads = 8, kSlots = 64, kContextPages = 4096;
constexpr uint64_t kUnits = uint64_t{kLayers} * kHeads * kSlots;
constexpr double kChanged = 0.1;  ///< Share of a selection that changes with a step.

KvSpec PlanSpec() {
  return GqaSpec("bench-session-plan", {.layers = kLayers, .query_heads = 32, .kv_heads = kHeads});
}

/// Returns the same bytes for every unit; supports nothing else.
class HandOutStore final : public PageStore {
 public:
  explicit HandOutStore(uint64_t unit_bytes) : bytes_(unit_bytes) {}

  Status ReadUnits(const kvserver::Caller&, std::span<const UnitAddress> units, const CodecSet&,
                   std::vector<kvserver::UnitBytes>* out) override {
    out->assign(units.size(), kvserver::UnitBytes{Slice{bytes_, nullptr}, 1});
    return OkStatus();
  }
  Status ReadVerified(const kvserver::Caller&, std::span<const UnitAddress>,
                      std::vector<kvserver::VerifiedBytes>*) override {
    return Nothing();
  }
  Status Recheck(const kvserver::Caller&, std::span<const kvserver::ReportedUnit>) override {
    return Nothing();
  }
  StatusOr<PutSegmentResult> PutSegment(std::string_view, const PutSegmentArgs&) override {
    return Nothing();
  }
  StatusOr<std::vector<SegmentKey>> Lookup(std::string_view, const KvSpec&,
                                           std::span<const TokenId>) override {
    return Nothing();
  }
  StatusOr<ChainPtr> ResolveChain(std::string_view, const SegmentKey&) override {
    return Nothing();
  }
  StatusOr<std::vector<TokenId>> Tokens(std::string_view, const SegmentKey&) override {
    return Nothing();
  }
  StatusOr<SegmentDigests> ReadDigests(const kvserver::Caller&, const SegmentKey&, uint32_t,
                                       kernels::DigestKind) override {
    return Nothing();
  }
  StatusOr<bool> PutRepresentatives(std::string_view, const SegmentKey&,
                                    std::span<const std::byte>) override {
    return Nothing();
  }
  StatusOr<ChainStat> StatChain(std::string_view, const Chain&) override { return Nothing(); }
  Status DeleteSegment(std::string_view, const SegmentKey&) override { return Nothing(); }
  StatusOr<kvserver::SegmentHold> HoldSegments(std::string_view,
                                               std::span<const SegmentKey>) override {
    return kvserver::SegmentHold();
  }
  Status NameSegments(std::string_view, std::span<const SegmentKey>) override { return Nothing(); }
  void UnnameSegments(std::string_view, std::span<const SegmentKey>) override {}
  void RestoreNames(const SegmentNames&) override {}
  uint64_t CountNames(const SegmentKey&) const override { return 0; }
  std::vector<uint64_t> MarkForDeletion(std::string_view, std::span<const SegmentKey>) override {
    return {};
  }
  void UnmarkForDeletion(std::string_view, std::span<const SegmentKey>) override {}
  Status RemoveMarked(std::string_view, const SegmentKey&, uint64_t) override { return Nothing(); }
  std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const override {
    return std::vector<uint64_t>(keys.size());
  }
  std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const override {
    return std::vector<uint64_t>(keys.size());
  }
  uint64_t num_replaced() const override { return 0; }
  StatusOr<uint64_t> Sweep() override { return uint64_t{0}; }
  Status PinSegments(std::string_view, std::span<const SegmentKey>) override { return Nothing(); }
  Status UnpinSegments(std::string_view, std::span<const SegmentKey>) override { return Nothing(); }
  Status CheckTenant(std::string_view) const override { return OkStatus(); }
  MetadataStore& metadata() override { return metadata_; }
  void VisitMetrics(MetricsVisitor&) const override {}
  std::string ssd_mode() const override { return "none"; }
  std::string dram_mode() const override { return "none"; }

 private:
  static Status Nothing() { return Unimplemented("this store hands out units only"); }
  const std::vector<std::byte> bytes_;
  MemoryMetadataStore metadata_;
};

ContextViewPtr MadeUpContext(const KvSpec& spec) {
  auto chain = std::make_shared<Chain>();
  chain->spec = spec;
  chain->num_tokens = uint64_t{kContextPages} * spec.page_tokens;
  chain->keys.resize(SegmentCount(spec, chain->num_tokens));
  for (size_t i = 0; i < chain->keys.size(); ++i) {
    chain->keys[i].bytes[0] = static_cast<uint8_t>(i);
    chain->keys[i].bytes[1] = static_cast<uint8_t>(i >> 8);
  }
  return ViewOfChain(chain);
}

/// The pages of every head; `Drift` replaces some.
class DriftingSelection {
 public:
  DriftingSelection() : random_(1), heads_(kHeads) { Drift(1); }
  void Drift(double share) {
    for (std::set<uint32_t>& pages : heads_) {
      std::erase_if(pages, [&](uint32_t) { return random_.Below(1000) < share * 1000; });
      while (pages.size() < kSlots) {
        pages.insert(static_cast<uint32_t>(random_.Below(kContextPages)));
      }
    }
  }
  PageLists pages() const {
    PageLists lists;
    for (const std::set<uint32_t>& pages : heads_) {
      lists.AppendHead(std::vector<uint32_t>(pages.begin(), pages.end()));
    }
    return lists;
  }

 private:
  SeededRandom random_;
  std::vector<std::set<uint32_t>> heads_;
};

class CountingSink final : public RecallSink {
 public:
  Status CheckWanted() const override { return OkStatus(); }
  Status Write(ReplyPart part) override {
    units_ += part.payload.slices().size();
    return OkStatus();
  }
  uint64_t units() const { return units_; }

 private:
  uint64_t units_ = 0;
};

/// Times of one recall, in microseconds.
struct Times {
  std::vector<double> plan, whole, sent;
};

class PlanBench {
 public:
  PlanBench()
      : spec_(PlanSpec()),
        store_(quire::UnitBytes(spec_)),
        selector_(kernels::CpuKernels()),
        residency_(std::make_shared<DigestResidency>(&store_)) {
    shared_.recall.store = &store_;
    shared_.recall.selector = &selector_;
    shared_.recall.residency = residency_;
    shared_.recall.max_reply_bytes = uint64_t{1} << 40;
    SessionShape shape{"default", spec_, kSlots, {}};
    for (uint32_t layer = 0; layer < kLayers; ++layer) shape.managed_layers.push_back(layer);
    session_ = std::make_unique<Session>(&shared_, std::move(shape), Session::Limits{});
  }
  Status Open() {
    ReadableContext context(MadeUpContext(spec_));
    context.CountPagesBy(std::make_shared<PageUse>(context.view()->num_pages()));  // As a server.
    return session_->AddSequence({{std::move(context), 0}}).status();
  }
  /// Runs steps whose selections change by `share`.
  StatusOr<Times> Run(uint32_t rounds, double share) {
    Times times;
    QUIRE_RETURN_IF_ERROR(Step(1, nullptr));
    for (uint32_t round = 0; round < rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(Step(share, &times));
    }
    return times;
  }

 private:
  Status Step(double share, Times* times) {
    selection_.Drift(share);
    RecallArgs args{1, ++exchange_, {}, true};
    WantedLayers& want = args.wants.emplace_back();
    want.lanes = {0, 0, std::vector<uint64_t>(kLayers, exchange_ - 1)};
    want.units = selection_.pages();
    CountingSink sink;
    const uint64_t planned = shared_.recall.plan_times.Read().sum_nanos;
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(session_->Recall(args, {.max_parts = 100, .part_bytes = 1 << 20}, sink));
    const Duration whole = SystemClock().Now() - start;
    if (times == nullptr) return OkStatus();
    const uint64_t plan = shared_.recall.plan_times.Read().sum_nanos - planned;
    times->plan.push_back(static_cast<double>(plan) / 1e3);
    times->whole.push_back(static_cast<double>(whole.count()) / 1e3);
    times->sent.push_back(static_cast<double>(sink.units()));
    return OkStatus();
  }

  const KvSpec spec_;
  HandOutStore store_;
  Selector selector_;
  std::shared_ptr<DigestResidency> residency_;
  SessionShared shared_;
  std::unique_ptr<Session> session_;
  DriftingSelection selection_;
  uint64_t exchange_ = 0;
};

}  // namespace

StatusOr<SessionPlanFigures> MeasureSessionPlan(uint32_t rounds) {
  PlanBench bench;
  QUIRE_RETURN_IF_ERROR(bench.Open());
  QUIRE_ASSIGN_OR_RETURN(const Times drift, bench.Run(rounds, kChanged));
  QUIRE_ASSIGN_OR_RETURN(const Times all, bench.Run(rounds, 1));
  constexpr double kPer10k = 10000.0 / static_cast<double>(kUnits);
  return SessionPlanFigures{.units = kUnits,
                            .units_sent = static_cast<uint64_t>(Median(drift.sent)),
                            .plan_us_per_10k_units = Median(drift.plan) * kPer10k,
                            .plan_all_us_per_10k_units = Median(all.plan) * kPer10k,
                            .recall_all_us_per_10k_units = Median(all.whole) * kPer10k,
                            .recall_us_per_10k_units = Median(drift.whole) * kPer10k};
}

}  // namespace quire::bench
