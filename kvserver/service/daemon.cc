// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/daemon.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>

#include "common/base/stop_signals.h"
#include "common/transport/grpc_server.h"
#include "kvserver/service/log.h"
#include "kvserver/service/server.h"
#include "kvserver/store/policy/eviction_factory.h"

namespace quire::kvserver {
namespace {

void AddStoreFlags(CLI::App* app, ServerOptions* server) {
  const std::map<std::string, Durability> durabilities = {{"memory", Durability::kMemory},
                                                          {"replicated", Durability::kReplicated},
                                                          {"persisted", Durability::kPersisted}};
  app->add_option("--data-dir", server->data_dir, "Directory of the store; created when missing")
      ->required();
  app->add_option("--dram-bytes", server->dram_bytes, "DRAM tier, reserved at start (e.g. 4GiB)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--dram-numa-node", server->dram_numa_node,
                  "NUMA node that the DRAM tier lies on; -1 = all of them in turn")
      ->capture_default_str();
  app->add_flag("--dram-prefault", server->dram_prefault,
                "Fill the DRAM tier at start: slower start, no page faults at the first puts");
  app->add_option("--dram-high-watermark", server->dram_high_watermark,
                  "Share of the DRAM tier above which extents are evicted ahead of need")
      ->capture_default_str();
  app->add_option("--dram-low-watermark", server->dram_low_watermark,
                  "Share of the DRAM tier down to which they are")
      ->capture_default_str();
  app->add_option("--ssd-bytes", server->ssd_bytes, "Payload allowed on SSD; 0 = no limit of ours")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--ssd-write-bytes-per-second", server->ssd_write_bytes_per_second,
                  "Written to SSD in the long run; beyond it, puts that need not persist stay in "
                  "DRAM only; 0 = no budget")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--ssd-write-burst-bytes", server->ssd_write_burst_bytes,
                  "What that budget saves up at most")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--tenants", server->tenants, "Who may use the server")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--durability", server->default_durability, "Of puts that do not say")
      ->transform(CLI::CheckedTransformer(durabilities, CLI::ignore_case)
                      .description("memory|replicated|persisted"))
      ->type_name("LEVEL")
      ->default_str("persisted");
  app->add_option("--eviction", server->eviction_policy, "Which extents leave the DRAM tier first")
      ->check(CLI::IsMember(EvictionPolicyNames()))
      ->capture_default_str();
  app->add_option("--scrub-bytes-per-second", server->scrub_bytes_per_second,
                  "Stored bytes verified in the background; 0 = none")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--promote-after-touches", server->promote_after_touches,
                  "SSD reads of an extent before it comes back to DRAM")
      ->capture_default_str();
}

void AddLimitFlags(CLI::App* app, DaemonOptions* options) {
  ServerOptions* const server = &options->server;
  app->add_option("--max-message-bytes", server->max_message_bytes, "Largest request and reply")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--max-sessions", server->max_sessions, "Sessions per tenant")
      ->capture_default_str();
  app->add_option("--max-contexts", server->max_contexts, "Open contexts per tenant")
      ->capture_default_str();
  app->add_option("--context-bytes", server->context_bytes,
                  "Pages of open contexts not yet stored, per tenant")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--idle-seconds", server->idle_seconds,
                  "Sessions and open contexts are forgotten when unused for this long")
      ->capture_default_str();
  app->add_option("--max-threads", options->max_threads, "Calls that run at the same time")
      ->capture_default_str();
  app->add_option("--shutdown-seconds", options->shutdown_seconds,
                  "How long a shutdown waits for calls that run")
      ->capture_default_str();
}

Status WritePortFile(const std::string& path, int port) {
  std::ofstream file(path, std::ios::trunc);
  file << port << "\n";
  file.close();
  if (file.good()) return OkStatus();
  return InvalidArgument("cannot write --port-file ", path,
                         ": name a file in a writable directory");
}

}  // namespace

void AddDaemonFlags(CLI::App* app, DaemonOptions* options) {
  app->set_config("--config", "", "File with the same options, as name = value")
      ->check(CLI::ExistingFile);
  app->allow_config_extras(CLI::config_extras_mode::error);
  app->add_option("--listen", options->listen, "host:port (port 0: any free one) or unix:/path")
      ->capture_default_str();
  app->add_option("--port-file", options->port_file, "Write the port here once it is listened on");
  AddStoreFlags(app, &options->server);
  AddLimitFlags(app, options);
}

void PrintListening(const std::string& address) {
  std::printf("quired listening on %s\n", address.c_str());
  std::fflush(stdout);
}

Status RunDaemon(const DaemonOptions& options, const ListeningObserver& listening) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Open(options.server));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listener,
                         GrpcServer::Start({.address = options.listen,
                                            .max_message_bytes = options.server.max_message_bytes,
                                            .max_threads = options.max_threads},
                                           server->handler()));
  if (!options.port_file.empty()) {
    QUIRE_RETURN_IF_ERROR(WritePortFile(options.port_file, listener->port()));
  }
  listening(listener->address());
  LogInfo("listening", {{"address", listener->address()},
                        {"data_dir", options.server.data_dir},
                        {"dram", server->dram_mode()},
                        {"ssd", server->ssd_mode()}});
  const int signal = stop->Wait();
  LogInfo("shutting_down", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  listener->Shutdown(std::chrono::seconds(options.shutdown_seconds));
  LogInfo("stopped", {});
  return OkStatus();
}

}  // namespace quire::kvserver
