// SPDX-License-Identifier: Apache-2.0
//
// Select: scoring digests against reading them. The digests lie as a server holds them, a block for
// each segment, and are twice the last level cache. The stream is the sum of the same bytes by the
// fastest stream reader. With many heads in a group the products take longer than the stream. The
// limit is therefore the slower of the stream and the products alone. Every kind of digest, dtype
// and group size takes turns with its own limits, on one thread. Then it times a whole selection
// over a context of a million tokens, and compares its pages with the reference.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"
#include "bench/kit/gqa_spec.h"
#include "bench/kit/machine_facts.h"
#include "bench/kit/side_by_side.h"
#include "bench/kit/stream_readers.h"
#include "bench/kit/working_set.h"
#include "common/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/select/selector.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

using kernels::DigestKind;

struct SelectOptions {
  uint64_t mebibytes = 0;  ///< MiB of digests; 0: by kDigestNeeds.
  uint32_t rounds = 9;
  uint32_t trials = 50;
};

/// One subject is in memory at a time, with scores, and digests for comparison and selection.
constexpr WorkingSetNeeds kDigestNeeds = {.caches = 2,
                                          .least_bytes = uint64_t{256} << 20,
                                          .step_bytes = uint64_t{16} << 20,
                                          .copies = 1,
                                          .besides_bytes = uint64_t{512} << 20};
constexpr uint32_t kKvHeads = 8;
constexpr uint32_t kDim = 128;
constexpr uint32_t kMillionTokens = 1u << 20;
constexpr uint32_t kPagesChosen = 64;  ///< 2048 tokens at 32 a page.
constexpr uint64_t kSelectSeed = 20;

KvSpec SpecOf(DType dtype, uint32_t group) {
  KvSpec spec =
      GqaSpec("bench", {.query_heads = group * kKvHeads, .kv_heads = kKvHeads, .head_dim = kDim});
  spec.dtype = dtype;
  return spec;
}

/// The subject of one comparison.
struct Subject {
  DigestKind kind = DigestKind::kMinMax;
  DType dtype = DType::kF16;
  uint32_t group = 4;  ///< Query heads of a KV head.
};

/// Kinds with separate scoring code; to a kernel, representatives are means.
struct NamedKind {
  DigestKind kind;
  const char* name;
};
constexpr NamedKind kKinds[] = {{DigestKind::kMinMax, "min_max"},
                                {DigestKind::kMean, "mean"},
                                {DigestKind::kCentreDeviation, "centre_deviation"},
                                {DigestKind::kCentreRadius, "centre_radius"},
                                {DigestKind::kDisc, "disc"}};
constexpr DType kDTypes[] = {DType::kF16, DType::kBF16, DType::kF32};
constexpr uint32_t kGroups[] = {1, 2, 4, 8};
/// FreeKV's digests, with four query heads per KV head.
constexpr char kHeadline[] = "min_max_f16_g4";

std::string NameOf(const NamedKind& kind, DType dtype, uint32_t group) {
  return std::string(kind.name) + "_" + Name(dtype) + "_g" + std::to_string(group);
}

/// Bytes of the digests of one page.
uint64_t PageBytes(const Subject& subject) {
  const auto elements = static_cast<uint64_t>(kernels::DigestElements(subject.kind, kDim));
  return kKvHeads * elements * ElementBytes(subject.dtype);
}

/// Products of one score.
uint64_t TermsOf(DigestKind kind) {
  if (kind == DigestKind::kMinMax) return kDim;  // One corner of two.
  return static_cast<uint64_t>(kernels::DigestElements(kind, kDim));
}

Status FromOp(kernels::OpStatus status) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel: ", kernels::Describe(status));
}

std::vector<float> RandomFloats(size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = random.Normal();
  return values;
}

/// Digests of pages of random keys, in blocks of a segment each.
class Digests {
 public:
  /// Makes `different` pages, repeated up to `pages`: the values do not affect the speed.
  static StatusOr<Digests> Make(const Subject& subject, uint32_t pages, uint32_t different) {
    const KvSpec spec = SpecOf(subject.dtype, subject.group);
    Digests digests;
    const uint64_t page_bytes = PageBytes(subject);
    std::vector<std::byte> some(different * page_bytes);
    QUIRE_RETURN_IF_ERROR(Summarise(subject, spec, different, some.data()));
    for (uint32_t first = 0; first < pages; first += spec.segment_pages) {
      const uint32_t in_block = std::min(spec.segment_pages, pages - first);
      auto& block =
          digests.blocks_.emplace_back(DivideRoundUp(in_block * page_bytes, sizeof(uint64_t)));
      for (uint32_t page = 0; page < in_block; ++page) {
        std::memcpy(reinterpret_cast<std::byte*>(block.data()) + page * page_bytes,
                    some.data() + (first + page) % different * page_bytes, page_bytes);
      }
      digests.pointers_.push_back(block.data());
    }
    return digests;
  }

  const std::vector<const void*>& pointers() const { return pointers_; }
  const std::vector<std::vector<uint64_t>>& blocks() const { return blocks_; }

 private:
  static Status Summarise(const Subject& subject, const KvSpec& spec, uint32_t pages,
                          std::byte* out) {
    SeededRandom random(kSelectSeed);
    const int64_t units = int64_t{pages} * kKvHeads;
    const int64_t unit = int64_t{spec.page_tokens} * kDim;
    std::vector<std::byte> keys(static_cast<size_t>(units * unit) * ElementBytes(subject.dtype));
    for (int64_t i = 0; i < units * unit; ++i) {
      StoreElement(keys.data(), i, subject.dtype, random.Normal());
    }
    return FromOp(kernels::CpuKernels().digest({.units = keys.data(),
                                                .unit_stride = unit,
                                                .digests = out,
                                                .n_units = units,
                                                .page_tokens = spec.page_tokens,
                                                .head_dim = kDim,
                                                .dtype = subject.dtype,
                                                .out_dtype = subject.dtype,
                                                .kind = subject.kind,
                                                .rotary_dim = kDim}));
  }

  std::vector<std::vector<uint64_t>> blocks_;
  std::vector<const void*> pointers_;
};

/// A way to read digests without computing. The fastest is the limit.
struct Reader {
  std::string name;
  StreamReader read;
};

std::vector<Reader> Readers() {
  std::vector<Reader> readers = {{.name = "words", .read = SumWords}};
  if (VectorReader() != nullptr) readers.push_back({.name = "vectors", .read = VectorReader()});
  return readers;
}

struct Speed {
  double of_stream = 0;
  std::optional<double> of_products;  ///< Absent without Highway.
  double units_per_second = 0;
  double gb_per_second = 0;
  double stream_gb_per_second = 0;
  /// Bytes of digests whose products the processor makes in a second. Absent without Highway.
  std::optional<double> products_gb_per_second;
  std::string stream;  ///< The fastest reader's name.

  /// Speed as a share of the slower limit: the stream, or the products alone.
  double of_limit() const { return std::max(of_stream, of_products.value_or(0)); }
};

/// Digests of one turn: a whole number of segments, few enough that the median ignores interrupted
/// turns.
struct Part {
  uint32_t blocks = 0;
  uint32_t pages = 0;
};
Part MakePart(const Subject& subject, const SelectOptions& options) {
  constexpr uint64_t kPartBytes = uint64_t{8} << 20;
  const uint32_t segment_pages = SpecOf(subject.dtype, subject.group).segment_pages;
  const uint64_t bytes = std::min(kPartBytes, options.mebibytes << 19);
  const uint64_t blocks = std::max<uint64_t>(1, bytes / (PageBytes(subject) * segment_pages));
  return {.blocks = static_cast<uint32_t>(blocks),
          .pages = static_cast<uint32_t>(blocks * segment_pages)};
}

/// Cycles all readers and the kernel through the digests part by part, equally far apart. None then
/// finds in a cache what another has read.
StatusOr<Speed> MeasureSpeed(const Subject& subject, const Digests& digests,
                             const SelectOptions& options) {
  const KvSpec spec = SpecOf(subject.dtype, subject.group);
  const uint64_t page_bytes = PageBytes(subject);
  const auto [blocks, pages] = MakePart(subject, options);
  const auto parts = static_cast<uint32_t>(digests.blocks().size() / blocks);
  SeededRandom random(kSelectSeed);
  const std::vector<float> query = RandomFloats(size_t{spec.num_query_heads} * kDim, random);
  std::vector<float> scores(size_t{spec.num_query_heads} * pages);
  const std::vector<Reader> readers = Readers();
  const auto score = [&, pages = pages, part = 0u]() mutable {
    return FromOp(kernels::CpuKernels().score({.q = query.data(),
                                               .blocks = digests.pointers().data(),
                                               .n_blocks = std::ssize(digests.pointers()),
                                               .pages_per_block = spec.segment_pages,
                                               .first_page = int64_t{part++ % parts} * pages,
                                               .scores = scores.data(),
                                               .n_pages = pages,
                                               .n_q = spec.num_query_heads,
                                               .n_kv = kKvHeads,
                                               .head_dim = kDim,
                                               .dtype = subject.dtype,
                                               .kind = subject.kind,
                                               .rotary_dim = kDim}));
  };
  std::vector<SideBySide::Contender> contenders = {{.turn = score}};
  volatile uint64_t sink = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    const auto first = static_cast<uint32_t>((i + 1) * parts / (readers.size() + 1));
    contenders.push_back(
        {.turn = [&, blocks = blocks, read = readers[i].read, part = first]() mutable {
          const std::span<const std::vector<uint64_t>> all = digests.blocks();
          const size_t begin = size_t{part++ % parts} * blocks;
          for (size_t block = begin; block < begin + blocks; ++block) {
            const bool more = block + 1 < begin + blocks;
            sink = sink + read(all[block], more ? all[block + 1] : std::span<const uint64_t>());
          }
          return OkStatus();
        }});
  }
  volatile float sum = 0;
  const uint64_t products = uint64_t{pages} * kKvHeads * subject.group * TermsOf(subject.kind);
  if (VectorProducts() != nullptr) {
    contenders.push_back({.turn = [&sum, products] {
      sum = VectorProducts()(products);
      return OkStatus();
    }});
  }
  SideBySide sides(std::move(contenders));
  QUIRE_RETURN_IF_ERROR(sides.Run(options.rounds * parts));
  size_t fastest = 0;
  for (size_t i = 1; i < readers.size(); ++i) {
    if (sides.Ratio(0, i + 1) < sides.Ratio(0, fastest + 1)) fastest = i;
  }
  Speed speed{.of_stream = sides.Ratio(0, fastest + 1),
              .of_products = {},
              .units_per_second = sides.PerSecond(0, uint64_t{pages} * kKvHeads),
              .gb_per_second = sides.PerSecond(0, pages * page_bytes) / 1e9,
              .stream_gb_per_second = sides.PerSecond(fastest + 1, pages * page_bytes) / 1e9,
              .products_gb_per_second = {},
              .stream = readers[fastest].name};
  if (VectorProducts() != nullptr) {
    const size_t made = readers.size() + 1;
    speed.of_products = sides.Ratio(0, made);
    speed.products_gb_per_second = sides.PerSecond(made, pages * page_bytes) / 1e9;
  }
  return speed;
}

/// A query over min/max digests as a session makes it.
kvserver::PageQuery MakeQuery(const KvSpec& spec, uint32_t pages, Random& random) {
  kvserver::PageQuery query;
  query.query = RandomFloats(size_t{spec.num_query_heads} * kDim, random);
  query.ranges = {{.end_page = pages}};
  query.num_pages = kPagesChosen;
  return query;
}

kvserver::DigestBlocks AsBlocks(const KvSpec& spec, const Digests& digests, DigestKind kind) {
  kvserver::DigestBlocks blocks(spec, 0, kind);
  for (const auto& block : digests.blocks()) blocks.Append({std::as_bytes(std::span(block)), {}});
  return blocks;
}

/// Counts trials in which the fast kernels and the reference select the same pages for every head.
/// Each kind of digest has equally many trials. Scores and weights are equal to the bit
/// (kernels/api/score.h, pool.h), so all should.
StatusOr<uint32_t> EqualSelections(const SelectOptions& options) {
  constexpr uint32_t kPages = 1024;
  const KvSpec spec = SpecOf(DType::kF16, 4);
  kvserver::Selector fast(kernels::CpuKernels()), reference(kernels::CpuReference());
  SeededRandom random(kSelectSeed + 1);
  uint32_t equal = 0;
  for (const DigestKind kind : kSelectingKinds) {
    QUIRE_ASSIGN_OR_RETURN(const Digests digests, Digests::Make({.kind = kind}, kPages, kPages));
    const kvserver::DigestBlocks blocks = AsBlocks(spec, digests, kind);
    for (uint32_t trial = 0; trial < options.trials; ++trial) {
      kvserver::PageQuery query = MakeQuery(spec, kPages, random);
      query.digest = kind;
      PageLists got, want;
      QUIRE_RETURN_IF_ERROR(fast.Select(spec, query, std::span(&blocks, 1), &got));
      QUIRE_RETURN_IF_ERROR(reference.Select(spec, query, std::span(&blocks, 1), &want));
      if (got == want) ++equal;
    }
  }
  return equal;
}

/// Milliseconds of one layer's selection over a million tokens, and of its parts.
struct Selection {
  double all = 0;
  double score = 0;
  double pool = 0;
  double topk = 0;
};

StatusOr<Selection> MeasureSelection(const SelectOptions& options) {
  const KvSpec spec = SpecOf(DType::kF16, 4);
  const uint32_t pages = kMillionTokens / spec.page_tokens;
  QUIRE_ASSIGN_OR_RETURN(const Digests digests, Digests::Make({}, pages, 4096));
  const kvserver::DigestBlocks blocks = AsBlocks(spec, digests, DigestKind::kMinMax);
  const kernels::KernelTable& ops = kernels::CpuKernels();
  kvserver::Selector selector(ops);
  SeededRandom random(kSelectSeed + 2);
  const kvserver::PageQuery query = MakeQuery(spec, pages, random);
  std::vector<float> scores(size_t{spec.num_query_heads} * pages),
      weights(size_t{kKvHeads} * pages);
  std::vector<int32_t> best(kKvHeads * kPagesChosen);
  PageLists lists;
  const auto select = [&] { return selector.Select(spec, query, std::span(&blocks, 1), &lists); };
  const auto score = [&] {
    return FromOp(ops.score({.q = query.query.data(),
                             .blocks = digests.pointers().data(),
                             .n_blocks = static_cast<int64_t>(digests.pointers().size()),
                             .pages_per_block = spec.segment_pages,
                             .scores = scores.data(),
                             .n_pages = pages,
                             .n_q = spec.num_query_heads,
                             .n_kv = kKvHeads,
                             .head_dim = kDim,
                             .dtype = spec.dtype}));
  };
  const auto pool = [&] {
    return FromOp(ops.pool({.scores = scores.data(),
                            .pooled = weights.data(),
                            .n_q = spec.num_query_heads,
                            .n_kv = kKvHeads,
                            .n_pages = pages}));
  };
  const auto topk = [&] {
    return FromOp(ops.topk({.scores = weights.data(),
                            .indices = best.data(),
                            .n_rows = kKvHeads,
                            .n_pages = pages,
                            .k = kPagesChosen}));
  };
  QUIRE_RETURN_IF_ERROR(select());
  SideBySide sides({{.turn = select}, {.turn = score}, {.turn = pool}, {.turn = topk}});
  QUIRE_RETURN_IF_ERROR(sides.Run(4 * options.rounds));
  const auto milliseconds = [&](size_t part) { return 1000 / sides.PerSecond(part, 1); };
  return Selection{milliseconds(0), milliseconds(1), milliseconds(2), milliseconds(3)};
}

/// The least of some figures, and its name.
class Worst {
 public:
  void Add(double figure, const std::string& name) {
    if (figure >= figure_) return;
    figure_ = figure;
    name_ = name;
  }
  double figure() const { return figure_; }
  const std::string& name() const { return name_; }

 private:
  double figure_ = std::numeric_limits<double>::infinity();
  std::string name_;
};

/// Figures of every kind, dtype and group size.
class SpeedReport {
 public:
  explicit SpeedReport(BenchReport& report) : report_(report) {}

  void Add(const std::string& name, const Speed& speed) {
    of_stream_.Add(speed.of_stream, name);
    of_limit_.Add(speed.of_limit(), name);
    if (name == kHeadline) {
      report_.json["select_vs_stream"] = speed.of_stream;
      report_.json["select_stream"] = speed.stream;
    }
    ratios_[name + "_vs_stream"] = speed.of_stream;
    ratios_[name + "_vs_limit"] = speed.of_limit();
    raw_[name + "_stream"] = speed.stream;
    raw_[name + "_units_per_s"] = speed.units_per_second;
    raw_[name + "_gb_per_s"] = speed.gb_per_second;
    raw_[name + "_stream_gb_per_s"] = speed.stream_gb_per_second;
    const auto& products = speed.products_gb_per_second;
    if (products) raw_[name + "_products_gb_per_s"] = *products;
    report_.table.AddRow(
        {name, cli::FormatRatio(speed.of_stream, 2), cli::FormatRatio(speed.of_limit(), 2),
         cli::FormatRatio(speed.units_per_second, 0), cli::FormatRatio(speed.gb_per_second, 2),
         cli::FormatRatio(speed.stream_gb_per_second, 2),
         products ? cli::FormatRatio(*products, 2) : "-", speed.stream});
  }
  void WriteRatios() {
    report_.json["select_vs_stream_worst"] = of_stream_.figure();
    report_.json["select_worst"] = of_stream_.name();
    report_.json["select_vs_limit_worst"] = of_limit_.figure();
    report_.json["select_limit_worst"] = of_limit_.name();
    report_.json.update(ratios_);
  }
  void WriteRaw() { report_.json.update(raw_); }

 private:
  BenchReport& report_;
  cli::Json ratios_;
  cli::Json raw_;
  Worst of_stream_;
  Worst of_limit_;
};

/// Every group size scores the same digests, which exist once in memory.
Status MeasureKind(const NamedKind& kind, DType dtype, const SelectOptions& options,
                   SpeedReport* report) {
  const Part part = MakePart({.kind = kind.kind, .dtype = dtype}, options);
  const uint64_t page_bytes = PageBytes({.kind = kind.kind, .dtype = dtype});
  const auto parts = static_cast<uint32_t>((options.mebibytes << 20) / (part.pages * page_bytes));
  QUIRE_ASSIGN_OR_RETURN(
      const Digests digests,
      Digests::Make({.kind = kind.kind, .dtype = dtype}, std::max(1u, parts) * part.pages, 64));
  for (const uint32_t group : kGroups) {
    const Subject subject = {.kind = kind.kind, .dtype = dtype, .group = group};
    QUIRE_ASSIGN_OR_RETURN(const Speed speed, MeasureSpeed(subject, digests, options));
    report->Add(NameOf(kind, dtype, group), speed);
  }
  return OkStatus();
}

StatusOr<BenchReport> Run(SelectOptions options) {
  const uint64_t cache_bytes = LastLevelCacheBytes();
  bool capped = false;
  if (options.mebibytes == 0) {
    const WorkingSet set = SizeWorkingSet(kDigestNeeds, cache_bytes, AvailableMemoryBytes());
    options.mebibytes = set.bytes >> 20;
    capped = set.capped;
  }
  BenchReport report{.json = {{"benchmark", "select"}},
                     .table = cli::Table({{"DIGESTS"},
                                          {"OF STREAM", cli::Table::kRight},
                                          {"OF LIMIT", cli::Table::kRight},
                                          {"UNITS/S", cli::Table::kRight},
                                          {"GB/S", cli::Table::kRight},
                                          {"STREAM GB/S", cli::Table::kRight},
                                          {"PRODUCTS GB/S", cli::Table::kRight},
                                          {"STREAM"}})};
  SpeedReport speeds(report);
  for (const NamedKind& kind : kKinds) {
    for (const DType dtype : kDTypes) {
      QUIRE_RETURN_IF_ERROR(MeasureKind(kind, dtype, options, &speeds));
    }
  }
  speeds.WriteRatios();
  QUIRE_ASSIGN_OR_RETURN(const uint32_t equal, EqualSelections(options));
  QUIRE_ASSIGN_OR_RETURN(const Selection selection, MeasureSelection(options));
  const auto trials = static_cast<uint32_t>(options.trials * std::size(kSelectingKinds));
  report.json["exact_sets"] = equal == trials;
  report.json["exact_trials"] = trials;
  report.json["ms_1m_tokens_one_layer"] = selection.all;
  report.json["ms_1m_tokens_score"] = selection.score;
  report.json["ms_1m_tokens_pool"] = selection.pool;
  report.json["ms_1m_tokens_topk"] = selection.topk;
  speeds.WriteRaw();
  report.json["digest_mib"] = options.mebibytes;
  report.json["digests_capped_by_memory"] = capped;
  report.json["last_level_cache_bytes"] = cache_bytes;
  report.json["kv_heads"] = kKvHeads;
  report.json["head_dim"] = kDim;
  report.json["selected_pages"] = kPagesChosen;
  report.json["rounds"] = options.rounds;
  report.json["seed"] = kSelectSeed;
  report.json["machine"] = Machine();
  report.table.AddRow(
      {"1M tokens, one layer, ms", "", "", "", cli::FormatRatio(selection.all, 2), "", ""});
  report.table.AddRow({"same sets as reference", "", "", "", std::to_string(equal),
                       "of " + std::to_string(trials), ""});
  if (capped) {
    report.table.AddRow({"digests of " + std::to_string(options.mebibytes) + " MiB, less than " +
                             std::to_string(kDigestNeeds.caches) + " times the cache of " +
                             cli::FormatBytes(cache_bytes) + ": memory holds no more",
                         "", "", "", "", "", ""});
  }
  return report;
}

}  // namespace

void AddSelectBench(Benches& benches) {
  const auto options = std::make_shared<SelectOptions>();
  CLI::App& command = benches.Add(
      {.name = "select",
       .summary = "Scoring digests against reading them, and selecting from a million tokens",
       .examples =
           "  quire bench select --json\n"
           "  quire bench select --mib 512 --rounds 15\n"
           "One thread, 8 KV heads, d = 128, 32 tokens a page. G is the number of query\n"
           "heads of a KV head. The stream is summing the bytes of the same digests, word by\n"
           "word or in wide vectors that fetch ahead, whichever is faster. The limit is the\n"
           "slower of the stream and the products of the scores alone, out of registers.\n"
           "select_vs_stream is of minima and maxima in f16, G = 4; select_vs_stream_worst of\n"
           "the digests that are farthest from the stream, which select_worst names, and\n"
           "select_vs_limit_worst of those farthest from their limit (select_limit_worst)."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf(
           {{.title = "Selection against the slower of reading the digests and the products",
             .value_title = "ratio of speeds, by query heads of a KV head",
             .bars = {{.figures = R"(/([a-z_0-9]+)_(f16|bf16|f32)_(g\d+)_vs_limit)",
                       .name = "$3",
                       .place = "$1 $2"}}}})});
  command
      .add_option("--mib", options->mebibytes,
                  "Mebibytes of digests (twice the last level cache when not given, as far as "
                  "memory holds them)")
      ->check(CLI::Range(2, 65536));
  command.add_option("--rounds", options->rounds, "Times that every digest is scored")
      ->check(CLI::Range(1, 10000));
  command.add_option("--trials", options->trials, "Selections compared with the reference's")
      ->check(CLI::Range(1, 100000));
}

}  // namespace quire::bench
