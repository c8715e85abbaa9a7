// SPDX-License-Identifier: Apache-2.0
//
// Codec: the savings and costs of each page codec. The model reads documents; their real K and V
// are encoded and decoded, and compared with the originals. The decoded data is stored under the
// same token ids for a tenant of the codec. Questions are then answered over what attention would
// see, digests included. The rival is the original document with the same questions. Encoded pages
// are also read over each transport (codec_wire.h).
#include "kvserver/store/codec/codec.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/documents/demo_corpus.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/kit/worker/retrieval_flags.h"
#include "bench/benchmark.h"
#include "bench/codec/codec_quality.h"
#include "bench/codec/codec_speed.h"
#include "bench/codec/codec_wire.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

using kvserver::CodecId;
using kvserver::ExtentCodec;

constexpr CodecId kCodecs[] = {CodecId::kRaw, CodecId::kFp8E4M3, CodecId::kInt8, CodecId::kInt4};
constexpr uint32_t kSpeedRounds = 9;

struct Answers {
  Verdicts full;    ///< With every page resident.
  Verdicts sparse;  ///< With the demo's policy and budget.
};

/// A document's segment as stored: tokens and payload [layers][pages][n_kv] units.
struct Segment {
  std::vector<TokenId> tokens;
  std::vector<std::byte> units;
};

/// One codec: the tenant of its decoded documents, and its measurements.
struct CodecLane {
  std::string name;
  ExtentCodec codec;
  std::unique_ptr<Client> client = nullptr;
  std::unique_ptr<worker::Engine> engine = nullptr;
  ErrorSum error = {};
  CodecSpeed speed = {};
  Answers answers = {};
};

StatusOr<std::vector<Segment>> FetchSegments(Client& client, const KvSpec& spec,
                                             const DocumentName& name,
                                             const std::vector<TokenId>& tokens) {
  std::vector<Segment> segments(SegmentCount(spec, tokens.size()));
  for (uint32_t i = 0; i < segments.size(); ++i) {
    const auto first = tokens.begin() + std::ptrdiff_t{i} * spec.segment_tokens();
    segments[i].tokens.assign(first, first + TokensInSegment(spec, tokens.size(), i));
    std::vector<uint32_t> pages(PageCount(spec, segments[i].tokens.size()));
    for (uint32_t p = 0; p < pages.size(); ++p) pages[p] = i * spec.segment_pages + p;
    std::vector<UnitRange> ranges;
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      ranges.push_back({.layer = layer, .pages = pages});
    }
    QUIRE_ASSIGN_OR_RETURN(const Payload payload, client.Fetch(name, ranges));
    segments[i].units.resize(payload.size_bytes());
    payload.CopyTo(segments[i].units.data());
  }
  return segments;
}

/// Decodes an encoded segment, layer by layer, and adds its error to the lane's.
StatusOr<std::vector<std::byte>> RoundTrip(CodecLane& lane, const KvSpec& spec,
                                           const Segment& segment) {
  const auto tokens = static_cast<uint32_t>(segment.tokens.size());
  const uint64_t extent = ExtentBytes(spec, PageCount(spec, tokens));
  std::vector<std::byte> encoded(lane.codec.encoded_bytes(tokens));
  std::vector<uint32_t> crcs(lane.codec.units(tokens));
  std::vector<std::byte> decoded(segment.units.size());
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    QUIRE_RETURN_IF_ERROR(lane.codec.Encode(
        std::span(segment.units).subspan(layer * extent, extent), tokens, encoded, crcs));
    QUIRE_RETURN_IF_ERROR(lane.codec.Decode(encoded, crcs, tokens,
                                            std::span(decoded).subspan(layer * extent, extent)));
  }
  for (int64_t i = 0; i < std::ssize(decoded) / ElementBytes(spec.dtype); ++i) {
    lane.error.Add(LoadElement(segment.units.data(), i, spec.dtype),
                   LoadElement(decoded.data(), i, spec.dtype));
  }
  return decoded;
}

/// Stores the document, encoded and decoded, for the lane's tenant.
Status PutThroughCodec(CodecLane& lane, const KvSpec& spec, const DocumentName& name,
                       const std::vector<Segment>& segments) {
  SegmentKey tip = kRootKey;
  for (const Segment& segment : segments) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<std::byte> decoded, RoundTrip(lane, spec, segment));
    Payload payload;
    payload.Append(std::move(decoded));
    QUIRE_ASSIGN_OR_RETURN(
        tip, lane.client->PutSegment(spec, tip, segment.tokens, payload, PutDurability::kMemory));
  }
  return lane.client->RegisterDocument(name, tip).status();
}

struct CodecOptions {
  std::string model;
  std::string data_dir;
  size_t questions = 1000000;  ///< More than there are: all.
  uint32_t wire_rounds = 9;    ///< Reads of each way over each transport; 0: none.
};

class CodecBench {
 public:
  /// All arguments outlive it.
  CodecBench(const cli::LocalWorker& local, Client& client, const cli::DemoCorpus& corpus,
             std::vector<CodecLane>& lanes)
      : local_(local), client_(client), corpus_(corpus), lanes_(lanes) {}

  Status Run() {
    const uint64_t runs = 2 * (1 + lanes_.size()) * corpus_.questions.size();
    cli::ProgressBar progress("asking questions", runs);
    progress_ = &progress;
    for (size_t i = 0; i < corpus_.documents.size(); ++i) {
      const std::vector<cli::DemoQuestion> questions = QuestionsOf(i);
      if (!questions.empty()) QUIRE_RETURN_IF_ERROR(RunDocument(i, questions));
    }
    return OkStatus();
  }
  const Answers& untouched() const { return untouched_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t speed_bytes() const { return speed_bytes_; }

 private:
  std::vector<cli::DemoQuestion> QuestionsOf(size_t document) const {
    std::vector<cli::DemoQuestion> questions;
    std::ranges::copy_if(corpus_.questions, std::back_inserter(questions),
                         [&](const cli::DemoQuestion& q) { return q.document == document; });
    return questions;
  }

  Status RunDocument(size_t document, const std::vector<cli::DemoQuestion>& questions) {
    const cli::DemoDocument& text = corpus_.documents[document];
    const DocumentName name{.collection = "bench", .name = text.name};
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                           cli::DocumentTokens(*local_.tokenizer, text.text));
    tokens_ += ids.size();
    QUIRE_RETURN_IF_ERROR(local_.engine->Ingest(ids, name).status());
    QUIRE_RETURN_IF_ERROR(Ask(*local_.engine, name, questions, &untouched_));
    const KvSpec& spec = local_.engine->spec();
    QUIRE_ASSIGN_OR_RETURN(const auto segments, FetchSegments(client_, spec, name, ids));
    if (speed_bytes_ == 0) QUIRE_RETURN_IF_ERROR(MeasureSpeed(spec, segments));
    for (CodecLane& lane : lanes_) {
      QUIRE_RETURN_IF_ERROR(PutThroughCodec(lane, spec, name, segments));
      QUIRE_RETURN_IF_ERROR(Ask(*lane.engine, name, questions, &lane.answers));
      QUIRE_RETURN_IF_ERROR(lane.client->DeleteDocument(name).status());
    }
    return client_.DeleteDocument(name).status();
  }

  /// Measures over the whole first document.
  Status MeasureSpeed(const KvSpec& spec, const std::vector<Segment>& segments) {
    std::vector<std::byte> units;
    for (const Segment& segment : segments) {
      units.insert(units.end(), segment.units.begin(), segment.units.end());
    }
    speed_bytes_ = units.size();
    for (CodecLane& lane : lanes_) {
      QUIRE_ASSIGN_OR_RETURN(lane.speed,
                             MeasureCodecSpeed(spec, lane.codec.id(), units, kSpeedRounds));
    }
    return OkStatus();
  }

  Status Ask(const worker::Engine& engine, const DocumentName& name,
             const std::vector<cli::DemoQuestion>& questions, Answers* answers) {
    worker::RetrievalOptions retrieval = cli::DefaultRetrieval();
    QUIRE_RETURN_IF_ERROR(AskAll(engine, name, questions, retrieval, &answers->sparse));
    retrieval.policy = "full";
    return AskAll(engine, name, questions, retrieval, &answers->full);
  }

  /// Asks all questions in one sequence, as a conversation.
  Status AskAll(const worker::Engine& engine, const DocumentName& name,
                const std::vector<cli::DemoQuestion>& questions,
                const worker::RetrievalOptions& retrieval, Verdicts* verdicts) {
    QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                           engine.OpenSequence(name, {.retrieval = retrieval}));
    for (const cli::DemoQuestion& question : questions) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt,
                             local_.tokenizer->Encode(question.prompt));
      QUIRE_RETURN_IF_ERROR(sequence->Append(prompt));
      QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> expected,
                             local_.tokenizer->Encode(question.answer));
      QUIRE_ASSIGN_OR_RETURN(
          const worker::Generation given,
          sequence->Generate({.max_new_tokens = static_cast<uint32_t>(expected.size()),
                              .stop_tokens = local_.tokenizer->ends()}));
      verdicts->push_back(given.tokens == expected);
      progress_->Advance(1, name.name);
    }
    return OkStatus();
  }

  const cli::LocalWorker& local_;
  Client& client_;
  const cli::DemoCorpus& corpus_;
  std::vector<CodecLane>& lanes_;
  cli::ProgressBar* progress_ = nullptr;
  Answers untouched_;
  uint64_t tokens_ = 0;
  uint64_t speed_bytes_ = 0;
};

StatusOr<std::vector<CodecLane>> MakeLanes(const EmbeddedStore& store,
                                           const cli::LocalWorker& local) {
  std::vector<CodecLane> lanes;
  for (const CodecId id : kCodecs) {
    const std::string name(kvserver::Name(id));
    QUIRE_ASSIGN_OR_RETURN(const ExtentCodec codec, ExtentCodec::Make(local.engine->spec(), id));
    CodecLane lane{.name = name, .codec = codec};
    QUIRE_ASSIGN_OR_RETURN(lane.client,
                           Client::Create({.transport = store.transport(), .tenant = name}));
    QUIRE_ASSIGN_OR_RETURN(lane.engine,
                           worker::Engine::Create(local.decoder.get(), lane.client.get(),
                                                  &worker::CpuDevice(), local.engine->options()));
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

size_t Correct(const Verdicts& verdicts) {
  return static_cast<size_t>(std::ranges::count(verdicts, true));
}

void AddLane(const CodecLane& lane, const KvSpec& spec, const Answers& untouched,
             BenchReport* report) {
  const size_t questions = untouched.full.size();
  const double encoded = static_cast<double>(lane.codec.encoded_unit_bytes());
  const double stored = static_cast<double>(lane.codec.unit_bytes());
  const double ratio = encoded / (stored * 2 / ElementBytes(spec.dtype));
  const double lost_full = Fraction(LostAnswers(untouched.full, lane.answers.full), questions);
  const double lost_sparse =
      Fraction(LostAnswers(untouched.sparse, lane.answers.sparse), questions);
  cli::Json& json = report->json;
  json[lane.name + "_bytes_ratio"] = ratio;
  json[lane.name + "_bytes_ratio_stored"] = encoded / stored;
  json[lane.name + "_answers_lost"] = std::max(lost_full, lost_sparse);
  json[lane.name + "_answers_lost_full"] = lost_full;
  json[lane.name + "_answers_lost_sparse"] = lost_sparse;
  json[lane.name + "_correct_full"] = Correct(lane.answers.full);
  json[lane.name + "_correct_sparse"] = Correct(lane.answers.sparse);
  json[lane.name + "_encode_gb_per_s"] = lane.speed.encode_gb_per_s;
  json[lane.name + "_decode_gb_per_s"] = lane.speed.decode_gb_per_s;
  json[lane.name + "_memcpy_gb_per_s"] = lane.speed.memcpy_gb_per_s;
  json[lane.name + "_max_error"] = lane.error.max_error();
  json[lane.name + "_relative_error"] = lane.error.relative_error();
  report->table.AddRow({lane.name, cli::FormatRatio(ratio), cli::FormatRatio(encoded / stored),
                        cli::FormatRatio(lane.speed.encode_gb_per_s, 2),
                        cli::FormatRatio(lane.speed.decode_gb_per_s, 2),
                        cli::FormatRatio(lane.speed.memcpy_gb_per_s, 2),
                        cli::FormatRatio(lane.error.max_error(), 4),
                        cli::FormatRatio(lane.error.relative_error(), 5),
                        cli::FormatRatio(lost_full, 4), cli::FormatRatio(lost_sparse, 4)});
}

StatusOr<BenchReport> Run(const CodecOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  const std::string documents = model + "/documents";
  QUIRE_ASSIGN_OR_RETURN(cli::DemoCorpus corpus, cli::LoadDemoCorpus(documents));
  QUIRE_ASSIGN_OR_RETURN(corpus.questions,
                         cli::ReadQuestions(documents + "/more-questions.jsonl", corpus.documents));
  corpus.questions.resize(std::min(corpus.questions.size(), options.questions));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  kvserver::ServerOptions server{.data_dir = directory->path(), .dram_bytes = 256u << 20};
  for (const CodecId id : kCodecs) server.tenants.emplace_back(kvserver::Name(id));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open(server));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  QUIRE_ASSIGN_OR_RETURN(const cli::LocalWorker local,
                         cli::LoadLocalWorker(model, client.get(), worker::EngineOptions{}));
  QUIRE_RETURN_IF_ERROR(
      local.NeedsTokenizer("the questions are text: name a model with --model DIR that has one, "
                           "or leave --model away"));
  QUIRE_ASSIGN_OR_RETURN(auto lanes, MakeLanes(*store, local));
  CodecBench bench(local, *client, corpus, lanes);
  QUIRE_RETURN_IF_ERROR(bench.Run());

  BenchReport report{.json = {{"benchmark", "codec"}},
                     .table = cli::Table({{"CODEC"},
                                          {"OF 16 BIT", cli::Table::kRight},
                                          {"OF STORED", cli::Table::kRight},
                                          {"ENCODE GB/S", cli::Table::kRight},
                                          {"DECODE GB/S", cli::Table::kRight},
                                          {"MEMCPY GB/S", cli::Table::kRight},
                                          {"MAX ERROR", cli::Table::kRight},
                                          {"RELATIVE", cli::Table::kRight},
                                          {"LOST FULL", cli::Table::kRight},
                                          {"LOST SPARSE", cli::Table::kRight}})};
  if (options.wire_rounds > 0) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<WireFigures> wire,
                           MeasureCodecWire("", options.wire_rounds));
    AddCodecWire(wire, &report.json);
    report.json["wire_rounds"] = options.wire_rounds;
  }
  const KvSpec& spec = local.engine->spec();
  for (const CodecLane& lane : lanes) AddLane(lane, spec, bench.untouched(), &report);
  report.json["untouched_correct_full"] = Correct(bench.untouched().full);
  report.json["untouched_correct_sparse"] = Correct(bench.untouched().sparse);
  report.json["questions"] = bench.untouched().full.size();
  report.json["tokens"] = bench.tokens();
  report.json["stored_dtype"] = Name(spec.dtype);
  report.json["speed_bytes"] = bench.speed_bytes();
  report.json["rounds"] = kSpeedRounds;
  report.json["model"] = model;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddCodecBench(Benches& benches) {
  const auto options = std::make_shared<CodecOptions>();
  CLI::App& command = benches.Add(
      {.name = "codec",
       .summary = "Size, speed, error, lost answers and time on the wire of each page codec",
       .examples =
           "  quire bench codec --json\n"
           "  quire bench codec --questions 12        a few, for a first look\n"
           "Lost is the fraction of the questions that the untouched document answers and\n"
           "the encoded one does not: with every page resident, and with a budget.\n"
           "GB/s are of decoded bytes, on one core. The JSON has the wire: bytes and times\n"
           "of reading ten documents and of steps, beside f16 and decoding at the server."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf(
           {{.title = "Time to read a document, by codec and transport",
             .value_title = "ms",
             .bars =
                 {{.figures = R"(/wire/([^/]+)/([^/]+)/reuse_ms)", .name = "$1", .place = "$2"}}},
            {.title = "Size of encoded units, against 32-bit floats",
             .value_title = "share of the bytes",
             .bars = {{.figures = "/([a-z0-9]+)_bytes_ratio_stored", .place = "$1"}}}})});
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  command.add_option("--questions", options->questions, "Ask only the first so many questions")
      ->check(CLI::Range(1, 1000000));
  command
      .add_option("--wire-rounds", options->wire_rounds,
                  "Timed reads of ten documents over each transport; 0 for none")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
