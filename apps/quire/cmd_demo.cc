// SPDX-License-Identifier: Apache-2.0
//
// quire demo: the main job on an embedded server with both tiers, from text files to answers.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/kit/worker/retrieval_flags.h"
#include "apps/quire/commands.h"
#include "apps/quire/demo_across.h"
#include "apps/quire/demo_report.h"
#include "apps/quire/demo_run.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/connect.h"

namespace quire::cli {
namespace {

struct DemoArgs {
  std::string model;
  std::string documents;
  std::string data_dir;
  std::string codec = "raw";
  std::string transport = "loopback";
  std::string device = "cpu";
  uint64_t dram_mib = 64;
  std::optional<size_t> questions_per_document;  ///< Unset: not given.
  uint64_t host_cache_bytes = 0;
  RetrievalFlags retrieval;
  HeadChoice head;
};

/// A client of `store`: a call in this process away, or over a real transport.
StatusOr<SessionClient> Connect(const std::string& transport, EmbeddedStore* store,
                                std::ostream& notes) {
  SessionClient connected{.client = nullptr, .path = {.name = "loopback", .summary = "loopback"}};
  std::shared_ptr<Transport> control = store->transport();
  if (transport != "loopback") {
    QUIRE_RETURN_IF_ERROR(store->Listen(ListenersFor(transport)));
    QUIRE_ASSIGN_OR_RETURN(control, ConnectGrpc(store->address()));
    QUIRE_ASSIGN_OR_RETURN(
        connected.path,
        ChooseDataPath(ConnectorOver(control),
                       {.transport = transport, .control_address = store->address()}, notes));
  }
  QUIRE_ASSIGN_OR_RETURN(
      connected.client,
      Client::Create({.transport = control, .data_transport = connected.path.transport}));
  return connected;
}

Status RunCommand(const DemoArgs& args, const CommandContext& context) {
  QUIRE_RETURN_IF_ERROR(CheckHostMemory({.cache = args.host_cache_bytes}, ReadMemoryLimit()));
  DemoOptions options;
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  const std::string documents = args.documents.empty() ? model + "/documents" : args.documents;
  QUIRE_ASSIGN_OR_RETURN(const DemoCorpus corpus,
                         LoadDemoCorpus(documents, args.questions_per_document));
  QUIRE_ASSIGN_OR_RETURN(const auto data_dir, DataDir::Make(args.data_dir));
  QUIRE_ASSIGN_OR_RETURN(
      const auto store,
      EmbeddedStore::Open({.data_dir = data_dir->path(), .dram_bytes = args.dram_mib << 20}));
  QUIRE_ASSIGN_OR_RETURN(const SessionClient connected,
                         Connect(args.transport, store.get(), context.err));
  Client* const client = connected.client.get();
  QUIRE_RETURN_IF_ERROR(client->SetCollection(options.collection, {.codec = args.codec}).status());
  worker::EngineOptions engine;
  QUIRE_ASSIGN_OR_RETURN(options.retrieval, args.retrieval.OptionsOfPolicy(engine.page_tokens));
  engine.host_cache_bytes = args.host_cache_bytes;
  QUIRE_ASSIGN_OR_RETURN(const LocalWorker local,
                         LoadLocalWorker(model, client, engine, args.device, args.head));
  QUIRE_RETURN_IF_ERROR(
      local.NeedsTokenizer("the demo reads text: name a model with --model DIR "
                           "that has one, or leave --model away"));
  context.err << "Reading " << corpus.documents.size() << " documents from " << documents
              << ", asking " << corpus.questions.size() << " questions, pages come over "
              << connected.path.summary << "\n";
  QUIRE_ASSIGN_OR_RETURN(const DemoReport report, RunDemo(*local.engine, *local.tokenizer, *client,
                                                          corpus, options, context.err));
  QUIRE_ASSIGN_OR_RETURN(const AcrossReport across,
                         AskAcross(*local.engine, *local.tokenizer, corpus, options.collection));
  PrintDemoTable(report, context.out);
  PrintAcross(across, context.out);
  if (context.options.json) {
    Json json = DemoJson(report, options);
    json["transport"] = connected.path.name;
    json["across_documents"] = AcrossJson(across);
    json.update(DescribeDevice(args.device));
    PrintJsonLine(context.out, json);
  }
  return OkStatus();
}

}  // namespace

void AddDemoCommand(Commands& commands) {
  const auto args = std::make_shared<DemoArgs>();
  CLI::App& command = commands.Add(
      {.name = "demo",
       .summary = "Run the main job on an embedded server: documents in, questions out, what moved",
       .examples =
           "  quire demo\n"
           "  quire demo --json                  the last line is one JSON object\n"
           "  quire demo --docs ~/notes          your own *.txt and *.md files\n"
           "  quire demo --budget 512 --select server\n"
           "  quire demo --policy freekv --tau 0.9 --recall-deadline-ms 5\n"
           "  quire demo --policy freekv --correct-heads retrieval   few heads wait\n"
           "  quire demo --host-cache-bytes 64MiB   units that come back are placed from here\n"
           "  quire demo --codec int8\n"
           "  quire demo --transport grpc        pages come over a real connection\n"
           "Answers are compared with those of the same model with every page resident. A last\n"
           "question goes across the beginnings of ten documents, by four methods of reuse.\n"
           "A questions.jsonl beside your files ({\"document\", \"question\", \"answer\"} a "
           "line) is used;\n"
           "without one, the demo asks for the last words of sentences.",
       .calls_no_server = true},
      args, &RunCommand);
  command.add_option("--model", args->model,
                     "Directory of the model (the bundled one when not given)");
  command.add_option("--docs", args->documents,
                     "Directory of text files (the bundled documents when not given)");
  AddDataDirOption(command, &args->data_dir);
  command.add_option("--dram-mib", args->dram_mib, "DRAM tier; what does not fit comes from SSD")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--codec", args->codec,
                  "How the pages are kept: raw, fp8, int8 or int4, each with +zstd behind it to "
                  "compress them on SSD besides")
      ->capture_default_str();
  command
      .add_option("--questions-per-document", args->questions_per_document,
                  "Questions made from each text without a questions.jsonl")
      ->check(CLI::Range(1, 1000))
      ->default_str("5");
  AddTransportFlag(command, &args->transport, /*loopback=*/true);
  AddDeviceFlag(command, &args->device);
  AddRetrievalFlags(command, args->retrieval);
  AddHeadFlags(command, &args->head);
  AddHostCacheFlag(command, &args->host_cache_bytes);
}

}  // namespace quire::cli
