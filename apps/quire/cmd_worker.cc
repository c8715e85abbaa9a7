// SPDX-License-Identifier: Apache-2.0
//
// quire worker: a model that answers others' questions over gRPC (quire.v1.Worker), with its pages
// in the store.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "apps/kit/document_route.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/worker/chat_flags.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/kit/worker/retrieval_flags.h"
#include "apps/quire/commands.h"
#include "common/base/memory/memory_limit.h"
#include "common/base/net_address.h"
#include "common/base/observe/health.h"
#include "common/base/observe/log.h"
#include "common/base/threads/stop_signals.h"
#include "common/metrics/admin_server.h"
#include "gpuworker/service/worker_server.h"
#include "transport/auth/tenant_tokens.h"

namespace quire::cli {
namespace {

constexpr Duration kGrace = std::chrono::seconds(5);

struct WorkerArgs {
  std::string model;
  ChatFlags chat;
  std::string listen = "127.0.0.1:7411";
  std::string admin_listen;
  std::string tenant_tokens;
  uint32_t max_calls = 8;
  worker::BatchLimits batch;
  uint32_t max_reuse = 1;
  uint32_t variants = 0;
  uint32_t reuse_window = 0;
  std::string transport = "auto";
  std::string device = "cpu";
  uint64_t host_cache_bytes = 0;
  uint32_t question_chunk_tokens = kQuestionChunkTokens;
  bool statistics = true;
  RetrievalFlags retrieval;
  HeadChoice head;
};

/// Null when none is asked for.
StatusOr<std::unique_ptr<AdminServer>> StartAdmin(const std::string& address,
                                                  const Health& health) {
  if (address.empty()) return nullptr;
  return AdminServer::Start(address, &health);
}

/// The tokens that prove callers to be of `tenant`; null when none are asked for.
StatusOr<std::shared_ptr<const TenantTokens>> ReadTenantTokens(const std::string& path,
                                                               const std::string& tenant) {
  if (path.empty()) return nullptr;
  auto tokens = TenantTokens::ReadFile(path, {});
  if (!tokens.ok()) return Annotate(tokens.status(), "--tenant-tokens");
  if (!tokens->Has(tenant)) {
    return InvalidArgument("--tenant-tokens ", path, " has no line for tenant '", tenant,
                           "', which this worker reads the store as: every call would be refused");
  }
  return std::make_shared<const TenantTokens>(*std::move(tokens));
}

/// Refuses what this machine, or the group of this process, does not have. Says where all limits
/// together are more.
Status CheckMemory(const WorkerArgs& args) {
  const bool on_host = args.device == "cpu";
  const HostMemoryAsked asked{
      .cache = args.host_cache_bytes,
      .slots = on_host && args.batch.device_bytes == 0 ? args.batch.slot_bytes : 0,
      .device = on_host ? args.batch.device_bytes : 0,
      .slots_are_default = args.batch.slot_bytes == worker::BatchLimits().slot_bytes};
  const MemoryLimit limit = ReadMemoryLimit();
  QUIRE_RETURN_IF_ERROR(CheckHostMemory(asked, limit));
  if (!MemoryMayNotSuffice(asked, limit)) return OkStatus();
  LogWarning(
      "memory_may_not_suffice",
      {{"host_cache_bytes", std::to_string(asked.cache)},
       {"slot_bytes", std::to_string(asked.slots)},
       {"device_memory", std::to_string(asked.device)},
       {"limit", std::to_string(limit.bytes)},
       {"whose", limit.whose},
       {"why",
        "--host-cache-bytes and --slot-bytes or --device-memory are more than that together; "
        "lower one"}});
  return OkStatus();
}

/// Layers keep their pages on a device whose memory is given.
worker::BatchLimits LimitsOf(const WorkerArgs& args) {
  worker::BatchLimits limits = args.batch;
  if (limits.device_bytes > 0) limits.offload = worker::OffloadRule::kLayerByLayer;
  return limits;
}

Status RunWorker(const WorkerArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  const auto listen = NetAddress::ParseListen(args.listen);
  QUIRE_RETURN_IF_ERROR(Annotate(listen.status(), "--listen"));
  QUIRE_RETURN_IF_ERROR(CheckMemory(args));
  const std::string tenant = context.options.tenant_name();
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, ReadTenantTokens(args.tenant_tokens, tenant));
  // Before the model is loaded, which may take a while: the process is alive and not ready.
  Health health(&SystemClock(), LogTrouble);
  QUIRE_ASSIGN_OR_RETURN(const auto admin, StartAdmin(args.admin_listen, health));
  QUIRE_ASSIGN_OR_RETURN(const SessionClient connected,
                         ConnectToStore(context, args.transport, TimeoutOf::kCall, &health));
  Client* const client = connected.client.get();
  QUIRE_RETURN_IF_ERROR(client->Stats().status());  // Is the store there?
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  worker::EngineOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.retrieval, args.retrieval.Options(options.page_tokens));
  options.host_cache_bytes = args.host_cache_bytes;
  options.question_chunk_tokens = args.question_chunk_tokens;
  options.statistics = args.statistics;
  QUIRE_ASSIGN_OR_RETURN(LocalWorker local,
                         LoadLocalWorker(model, client, options, args.device, args.head));
  QUIRE_RETURN_IF_ERROR(LoadChat(args.chat, model, &local));
  QUIRE_ASSIGN_OR_RETURN(const auto server,
                         worker::WorkerServer::Start({.address = args.listen,
                                                      .max_calls = args.max_calls,
                                                      .batch = LimitsOf(args),
                                                      .max_reuse = args.max_reuse,
                                                      .variants = args.variants,
                                                      .reuse_window = args.reuse_window,
                                                      .tokenizer = local.tokenizer.get(),
                                                      .chat = local.chat ? &*local.chat : nullptr,
                                                      .tenant = tenant,
                                                      .tokens = tokens,
                                                      .health = &health,
                                                      .tracer = TracerOf(context.tracing)},
                                                     local.engine.get()));
  if (tokens == nullptr && !listen->StaysOnThisHost()) {
    context.err << "warning: whoever reaches " << server->address() << " may ask as tenant '"
                << tenant << "'; --tenant-tokens FILE asks for proof\n";
  }
  std::optional<AdminServer::Serving> serving;
  if (admin != nullptr) {
    serving.emplace(admin->Serve([&](MetricsVisitor& visit) {
      server->VisitMetrics(visit);
      if (connected.counts) connected.counts().VisitMetrics(visit);
      if (context.tracing != nullptr) context.tracing->VisitMetrics(visit);
    }));
  }
  if (context.options.json) {
    PrintJsonLine(context.out, {{"listening", server->address()},
                                {"admin", admin != nullptr ? admin->address() : ""},
                                {"model", model},
                                {"text", local.tokenizer != nullptr},
                                {"chat_template", local.chat.has_value()},
                                {"transport", connected.path.name}});
  } else {
    if (local.tokenizer == nullptr) {
      context.err << "no tokenizer here (" << Message(local.no_tokenizer)
                  << "): calls send token ids\n";
    }
    context.err << "pages come over " << connected.path.summary << "\n";
    if (admin != nullptr) context.err << "metrics on http://" << admin->address() << "/metrics\n";
    context.out << "answering on " << server->address() << " with " << model << "; stop with Ctrl-C"
                << std::endl;
  }
  stop->Wait();
  if (serving) serving->Drain();
  server->Shutdown(kGrace);
  return OkStatus();
}

}  // namespace

void AddWorkerCommand(Commands& commands) {
  const auto args = std::make_shared<WorkerArgs>();
  CLI::App& command = commands.Add(
      {.name = "worker",
       .summary = "Run a model that answers questions over gRPC, its pages in the store",
       .examples =
           "  quire worker\n"
           "  quire worker --admin-listen 127.0.0.1:7412   # then: curl -s "
           "http://127.0.0.1:7412/metrics\n"
           "  quire worker --policy freekv --tau 0.9 --host-cache-bytes 2GiB\n"
           "  quire worker --policy freekv --correct-heads retrieval   # few heads wait for pages\n"
           "  quire worker --device cuda --device-memory 70GiB   # whole layers while they fit\n"
           "  quire worker --model DIR --listen 0.0.0.0:7411 --budget 1024\n"
           "  quire worker --server 10.0.0.3:7410,10.0.0.4:7410   # documents of all nodes\n"
           "  quire worker --tenant team-a --token-file team-a.token --tenant-tokens "
           "tenant-tokens\n"
           "  quire ask --worker 127.0.0.1:7411 --document dossier-01.txt --question "
           "'Hector Nash has "
           "office'\n"
           "  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 quire worker   # traces of calls",
       .service = "quire-worker"},
      args, &RunWorker);
  command.add_option("--model", args->model,
                     "Directory of the model (the bundled one when not given)");
  AddChatFlags(command, &args->chat);
  command
      .add_option("--listen", args->listen,
                  "host:port, [IPv6]:port (port 0: any free one) or unix:/path")
      ->capture_default_str();
  commands.MayBeEmpty(
      command.add_option("--admin-listen", args->admin_listen,
                         "host:port for GET /metrics (Prometheus), /healthz and /readyz, e.g. "
                         "127.0.0.1:7412 (port 0: any free one); none when empty"));
  command
      .add_option("--tenant-tokens", args->tenant_tokens,
                  "File as quired's: callers have to prove that they are of --tenant. Without it "
                  "they are believed")
      ->type_name("FILE");
  command.add_option("--max-calls", args->max_calls, "Calls that are there at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--max-batch", args->batch.max_running, "Calls that run in one step")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      .add_option("--max-reuse", args->max_reuse,
                  "Calls over several documents that are computed at a time, beside the others")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      .add_option(
          "--reuse-window", args->reuse_window,
          "Times that such a call may be passed over by others with more of their documents "
          "in DRAM; 0: calls start as they came")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command
      .add_option("--variants", args->variants,
                  "Variants of a document that full and cachecraft keep behind other documents, "
                  "for calls that name no number")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  command
      .add_option("--step-tokens", args->batch.step_tokens,
                  "Tokens of one step over all calls, 1 to 512, --max-batch or more")
      ->capture_default_str();
  CLI::Option* const slots =
      command
          .add_option("--slot-bytes", args->batch.slot_bytes,
                      "Memory of the slots of all calls; the last to come waits when it is used up")
          ->transform(CLI::AsSizeValue(true).description(""))
          ->type_name("SIZE")
          ->capture_default_str();
  command
      .add_option("--device-memory", args->batch.device_bytes,
                  "Memory of the model, of what its steps work in, and of slots. Layers then keep "
                  "all pages there as long as they fit, and leave one after the other; leave room "
                  "for digests, 3 % of the documents")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->excludes(slots);
  AddTransportFlag(command, &args->transport);
  AddDeviceFlag(command, &args->device);
  AddRetrievalFlags(command, args->retrieval);
  AddHeadFlags(command, &args->head);
  AddHostCacheFlag(command, &args->host_cache_bytes);
  AddQuestionChunkFlag(command, &args->question_chunk_tokens);
  AddStatisticsFlag(command, &args->statistics);
}

}  // namespace quire::cli
