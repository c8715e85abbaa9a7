// SPDX-License-Identifier: Apache-2.0
//
// Recall: the cost of a decoding step that sends only the missing units. The rival sends the whole
// selection again; the limit is memcpy of the missing bytes. The selections drift as a decoder's
// do: a few pages of each KV head change with every step. All times include the checksums and the
// copy of each unit into its slot.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/gqa_spec.h"
#include "bench/kit/median.h"
#include "common/base/random.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"
#include "transport/grpc/grpc_server.h"

namespace quire::bench {
namespace {

constexpr uint32_t kContextPages = 256;
constexpr uint32_t kSelectedPages = 48;  ///< Per KV head; also the number of slots.
constexpr uint32_t kChangedPages = 5;    ///< Pages that change per step.

/// One step's layer of a model with 8 KV heads of 128: units of 16 KiB.
KvSpec BenchSpec() {
  return GqaSpec("bench-recall", {.layers = 4, .query_heads = 32, .kv_heads = 8});
}

/// The wants of every head of every layer, drifting from step to step; the same for the same seed.
class Selections {
 public:
  explicit Selections(const KvSpec& spec) : random_(1), wanted_(spec.num_layers) {
    std::vector<uint32_t> first(kSelectedPages);
    std::iota(first.begin(), first.end(), 0u);
    for (auto& layer : wanted_) layer.assign(spec.num_kv_heads, first);
  }
  const std::vector<std::vector<uint32_t>>& Of(uint32_t layer) const { return wanted_[layer]; }
  void Drift() {
    for (auto& layer : wanted_) {
      for (std::vector<uint32_t>& pages : layer) ChangeSome(&pages);
    }
  }

 private:
  void ChangeSome(std::vector<uint32_t>* pages) {
    for (uint32_t changed = 0; changed < kChangedPages;) {
      const auto page = static_cast<uint32_t>(random_.Below(kContextPages));
      if (std::ranges::find(*pages, page) != pages->end()) continue;
      (*pages)[random_.Below(pages->size())] = page;
      ++changed;
    }
    std::ranges::sort(*pages);
  }

  SeededRandom random_;
  std::vector<std::vector<std::vector<uint32_t>>> wanted_;  ///< [layers][n_kv] ascending pages
};

/// Reads a payload in order, across slices.
class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload) : slices_(payload.slices()) {}
  void Read(std::byte* out, size_t bytes) {
    while (bytes > 0) {
      const auto rest = slices_[slice_].bytes.subspan(offset_);
      const size_t part = std::min(bytes, rest.size());
      std::memcpy(out, rest.data(), part);
      out += part;
      bytes -= part;
      offset_ += part;
      if (part == rest.size()) {
        ++slice_;
        offset_ = 0;
      }
    }
  }

 private:
  const std::vector<Slice>& slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
};

struct Measured {
  std::vector<Duration> times;  ///< One per recall: a step of a layer.
  uint64_t bytes = 0;
};

class RecallBench {
 public:
  RecallBench(const KvSpec& spec, uint32_t steps)
      : spec_(spec),
        steps_(steps),
        slots_(uint64_t{kSelectedPages} * spec.num_kv_heads * UnitBytes(spec)) {}

  /// Stores the context that all runs read.
  Status Store(Client& client) {
    std::vector<TokenId> tokens(spec_.segment_tokens());
    std::vector<std::byte> bytes(SegmentBytes(spec_, spec_.segment_pages));
    SeededRandom random(2);
    cli::ProgressBar progress("storing pages", kContextPages);
    for (uint32_t page = 0; page < kContextPages; page += spec_.segment_pages) {
      for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
      for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
        const uint64_t value = random.Next() & 0x3fff3fff3fff3fffull;  // Finite as 16-bit floats.
        std::memcpy(bytes.data() + i, &value, sizeof value);
      }
      Payload payload;
      payload.Append(Slice{bytes, nullptr});
      QUIRE_ASSIGN_OR_RETURN(tip_, client.PutSegment(spec_, tip_, tokens, payload));
      progress.Advance(spec_.segment_pages);
    }
    return OkStatus();
  }

  StatusOr<Measured> Diff(Client& client) {
    QUIRE_ASSIGN_OR_RETURN(
        const auto session,
        client.OpenSession(tip_, {.spec = spec_, .slots_per_head = kSelectedPages}));
    return Run("recalling what is missing",
               [&](uint32_t layer, const Selections& selections) -> StatusOr<uint64_t> {
                 LayerWant want = {.layer = layer};
                 for (const auto& pages : selections.Of(layer)) want.pages.AppendHead(pages);
                 QUIRE_ASSIGN_OR_RETURN(const RecallResult result, session->Recall({&want, 1}));
                 PayloadReader reader(result.payload);
                 for (const Placement& placement : result.placements) {
                   reader.Read(Slot(placement.head, placement.slot), UnitBytes(spec_));
                 }
                 session->Applied(result);
                 return result.payload.size_bytes();
               });
  }

  StatusOr<Measured> Resend(Client& client) {
    return Run("sending everything again",
               [&](uint32_t layer, const Selections& selections) -> StatusOr<uint64_t> {
                 std::vector<UnitRange> ranges;
                 for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
                   ranges.push_back(
                       {.layer = layer, .pages = selections.Of(layer)[head], .heads = {head}});
                 }
                 QUIRE_ASSIGN_OR_RETURN(const Payload payload, client.Fetch(tip_, ranges));
                 payload.CopyTo(slots_.data());
                 return payload.size_bytes();
               });
  }

  /// Copies as many units as a step's diff has, from random places of a buffer as large as the
  /// context.
  StatusOr<Measured> Copy() {
    const uint64_t unit = UnitBytes(spec_);
    const std::vector<std::byte> source(SegmentBytes(spec_, kContextPages), std::byte{1});
    SeededRandom random(3);
    return Run("copying", [&](uint32_t, const Selections&) -> StatusOr<uint64_t> {
      const uint32_t units = kChangedPages * spec_.num_kv_heads;
      for (uint32_t i = 0; i < units; ++i) {
        const uint64_t from = random.Below(source.size() / unit) * unit;
        std::memcpy(Slot(i % spec_.num_kv_heads, i / spec_.num_kv_heads), source.data() + from,
                    unit);
      }
      return units * unit;
    });
  }

 private:
  std::byte* Slot(uint32_t head, uint32_t slot) {
    return slots_.data() + (uint64_t{head} * kSelectedPages + slot) * UnitBytes(spec_);
  }

  /// Times `step` for every layer of every step; the first step fills the slots and does not count.
  template <typename Step>
  StatusOr<Measured> Run(const std::string& label, const Step& step) {
    Selections selections(spec_);
    Measured measured;
    cli::ProgressBar progress(label, steps_ + 1);
    for (uint32_t i = 0; i <= steps_; ++i, selections.Drift(), progress.Advance()) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        const TimePoint start = SystemClock().Now();
        QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, step(layer, selections));
        if (i == 0) continue;
        measured.times.push_back(SystemClock().Now() - start);
        measured.bytes += bytes;
      }
    }
    return measured;
  }

  const KvSpec spec_;
  const uint32_t steps_;
  SegmentKey tip_ = kRootKey;
  std::vector<std::byte> slots_;  ///< [n_kv][kSelectedPages] units of the present layer
};

double Micros(const Measured& measured) {
  return std::chrono::duration<double, std::micro>(Median(measured.times)).count();
}

/// Runs the three ways over `transport` and adds the results to `report`.
Status Compare(RecallBench& bench, std::shared_ptr<Transport> transport, BenchReport* report) {
  const std::string name(transport->capabilities().name);
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = std::move(transport)}));
  QUIRE_ASSIGN_OR_RETURN(const Measured resend, bench.Resend(*client));
  QUIRE_ASSIGN_OR_RETURN(const Measured diff, bench.Diff(*client));
  QUIRE_ASSIGN_OR_RETURN(const Measured copy, bench.Copy());
  const double bytes_ratio = static_cast<double>(diff.bytes) / static_cast<double>(resend.bytes);
  cli::Json& json = report->json[name];
  json["bytes_ratio_to_resend"] = bytes_ratio;
  json["time_ratio_to_resend"] = Micros(diff) / Micros(resend);
  json["time_ratio_to_memcpy"] = Micros(diff) / Micros(copy);
  json["us_per_recall"] = Micros(diff);
  json["us_per_resend"] = Micros(resend);
  json["us_per_memcpy"] = Micros(copy);
  json["bytes_diff"] = diff.bytes;
  json["bytes_resend"] = resend.bytes;
  report->table.AddRow({name, cli::FormatBytes(diff.bytes), cli::FormatBytes(resend.bytes),
                        cli::FormatRatio(bytes_ratio), cli::FormatDuration(Median(diff.times)),
                        cli::FormatDuration(Median(resend.times)),
                        cli::FormatDuration(Median(copy.times)),
                        cli::FormatRatio(Micros(diff) / Micros(copy), 1)});
  return OkStatus();
}

struct RecallBenchOptions {
  uint32_t steps = 64;
  std::string data_dir;
};

StatusOr<BenchReport> Run(const RecallBenchOptions& options) {
  const KvSpec spec = BenchSpec();
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path()}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  RecallBench bench(spec, options.steps);
  QUIRE_RETURN_IF_ERROR(bench.Store(*client));
  BenchReport report{.json = {{"benchmark", "recall"}},
                     .table = cli::Table({{"TRANSPORT"},
                                          {"DIFF", cli::Table::kRight},
                                          {"RESEND", cli::Table::kRight},
                                          {"RATIO", cli::Table::kRight},
                                          {"PER RECALL", cli::Table::kRight},
                                          {"PER RESEND", cli::Table::kRight},
                                          {"MEMCPY", cli::Table::kRight},
                                          {"RECALL/MEMCPY", cli::Table::kRight}})};
  QUIRE_RETURN_IF_ERROR(Compare(bench, store->transport(), &report));
  QUIRE_ASSIGN_OR_RETURN(const auto listener, GrpcServer::Start({}, store->server().handler()));
  QUIRE_ASSIGN_OR_RETURN(const auto grpc, ConnectGrpc(listener->address()));
  QUIRE_RETURN_IF_ERROR(Compare(bench, grpc, &report));
  report.json["shape"] = {{"context_pages", kContextPages}, {"selected_pages", kSelectedPages},
                          {"changed_pages", kChangedPages}, {"layers", spec.num_layers},
                          {"kv_heads", spec.num_kv_heads},  {"unit_bytes", UnitBytes(spec)}};
  report.json["recalls"] = options.steps * spec.num_layers;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddRecallBench(Benches& benches) {
  const auto options = std::make_shared<RecallBenchOptions>();
  CLI::App& command = benches.Add(
      {.name = "recall",
       .summary = "Time and bytes of a recall, diff against resend and memcpy",
       .examples = "  quire bench recall --json\n"
                   "  quire bench recall --steps 256"},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf(
           {{.title = "Time of a recall, over every transport",
             .value_title = "us",
             .bars = {{.figures = R"(/(\w+)/us_per_(\w+))", .name = "$2", .place = "$1"}}}})});
  command.add_option("--steps", options->steps, "Decoding steps measured")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
