// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/daemon.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "apps/quired/scrub_log.h"
#include "apps/quired/status/status_answers.h"
#include "apps/quired/status/status_history.h"
#include "common/base/memory/memory_limit.h"
#include "common/base/net_address.h"
#include "common/base/observe/log.h"
#include "common/base/quantity.h"
#include "common/base/threads/periodic_task.h"
#include "common/base/threads/stop_signals.h"
#include "common/metrics/admin_server.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/data_plane/listeners.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "kvserver/store/codec/codec.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "transport/auth/tenant_tokens.h"

namespace quire::kvserver {
namespace {

constexpr uint64_t kSpareThreads = 16;
constexpr Duration kCatchUpPause = std::chrono::seconds(1);
/// Time after which a node serves what it has, though etcd is away.
constexpr Duration kCatchUpBeforeCalls = std::chrono::seconds(5);
/// Most threads by default; --max-threads raises it.
constexpr uint64_t kMostThreads = 4096;
/// Most gRPC streams by default; --max-streams raises it.
constexpr uint64_t kMostStreams = 256;
/// Parses "NAME=BYTES" into `*quotas`. Throws errors of the command line's parser.
void ReadQuota(const std::string& option, const std::string& text, TenantBytes* quotas) {
  const size_t equals = text.rfind('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || name.empty()) {
    throw CLI::ValidationError(option, "'" + text + "': write TENANT=SIZE, as in default=64GiB");
  }
  const StatusOr<uint64_t> bytes = ParseBytes(text.substr(equals + 1));
  if (!bytes.ok()) throw CLI::ValidationError(option, std::string(Message(bytes.status())));
  if (!quotas->emplace(name, *bytes).second) {
    throw CLI::ValidationError(option, "tenant '" + name + "' is given twice; name it once");
  }
}

void AddQuotaFlag(CLI::App* app, const std::string& option, const std::string& tier,
                  TenantBytes* quotas) {
  app->add_option_function<std::vector<std::string>>(
         option,
         [option, quotas](const std::vector<std::string>& texts) {
           quotas->clear();
           for (const std::string& text : texts) ReadQuota(option, text, quotas);
         },
         "Payload that a tenant may have " + tier + "; may be given for several tenants")
      ->type_name("TENANT=SIZE")
      ->delimiter(',');
}

void AddScrubFlags(CLI::App* app, ScrubRates* rates) {
  const auto add = [app](const std::string& option, uint64_t* rate, const std::string& what) {
    app->add_option(option, *rate, what + " verified in the background a second; 0 = none")
        ->transform(CLI::AsSizeValue(true).description(""))
        ->type_name("SIZE")
        ->capture_default_str();
  };
  add("--scrub-bytes-per-second", &rates->payload, "Payload on SSD");
  add("--scrub-dram-bytes-per-second", &rates->dram, "Payload in DRAM");
  add("--scrub-digest-bytes-per-second", &rates->digests,
      "Page digests, on SSD and of open sessions,");
  add("--scrub-record-bytes-per-second", &rates->records,
      "Rows of the database, and records in memory,");
}

void AddStoreFlags(CLI::App* app, ServerOptions* server) {
  const std::map<std::string, Durability> durabilities = {{"memory", Durability::kMemory},
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
  app->add_option("--ssd-bytes", server->ssd_bytes,
                  "Disk that the data directory may take, payload and metadata together, at least "
                  "16MiB; 0 = 80 % of what its file system has at start. Segments that no document "
                  "refers to are a cache there, and leave when room is needed")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--cached-ttl", server->cached_ttl_seconds,
                  "How long segments that no document refers to stay on SSD unused (e.g. 90s, 10m, "
                  "2h); 0 = until room is needed")
      ->transform(
          CLI::AsNumberWithUnit(
              std::map<std::string, uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}},
              CLI::AsNumberWithUnit::CASE_INSENSITIVE)
              .description(""))
      ->type_name("TIME")
      ->capture_default_str();
  app->add_option("--ssd-write-bytes-per-second", server->ssd_write_bytes_per_second,
                  "Written to SSD in the long run; beyond it, puts that need not persist stay in "
                  "DRAM only; 0 = no budget")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--ssd-write-burst-bytes", server->ssd_write_burst_bytes,
                  "What that budget saves up at most")
      ->needs("--ssd-write-bytes-per-second")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--tenants", server->tenants, "Who may use the server")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--durability", server->default_durability, "Of puts that do not say")
      ->transform(
          CLI::CheckedTransformer(durabilities, CLI::ignore_case).description("memory|persisted"))
      ->type_name("LEVEL")
      ->default_str("persisted");
  app->add_option("--default-codec", server->default_codec,
                  "Codec of collections that have none of their own")
      ->check(CLI::IsMember(CodecNames()))
      ->capture_default_str();
  AddQuotaFlag(app, "--tenant-dram-quota", "in the DRAM tier", &server->tenant_dram_quota_bytes);
  AddQuotaFlag(app, "--tenant-ssd-quota", "on SSD", &server->tenant_ssd_quota_bytes);
  app->add_option("--eviction", server->eviction_policy, "Which extents leave the DRAM tier first")
      ->check(CLI::IsMember(EvictionPolicyNames()))
      ->capture_default_str();
  AddScrubFlags(app, &server->scrub_bytes_per_second);
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
  app->add_option("--digest-bytes", server->digest_bytes,
                  "Page digests held in memory for open sessions; what finds no room is read for "
                  "each query")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--tenant-digest-bytes", server->tenant_digest_bytes,
                  "Those of one tenant; 0 = half of them when there are several tenants, else all")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--idle-seconds", server->idle_seconds,
                  "Sessions and open contexts end when their client has neither used nor renewed "
                  "them for this long; clients renew by themselves")
      ->capture_default_str();
  app->add_option("--max-concurrent-calls", server->max_concurrent_calls,
                  "Calls that run at the same time; a quarter of them may write")
      ->capture_default_str();
  app->add_option("--max-queued-calls-per-tenant", server->max_queued_calls_per_tenant,
                  "Calls of a tenant that wait to read, and as many that wait to write; "
                  "further ones are refused and told when to retry")
      ->capture_default_str();
  app->add_option("--max-connections", server->max_connections,
                  "Data connections, by which workers get pages")
      ->capture_default_str();
  app->add_option("--max-connections-per-tenant", server->max_connections_per_tenant,
                  "Data connections of one tenant")
      ->capture_default_str();
  app->add_option("--max-streams", options->max_streams,
                  "grpc: data connections over it, each of which holds a thread; 0 = what the "
                  "tenants may have, 256 at most")
      ->capture_default_str();
  app->add_option("--stall-seconds", server->stall_seconds,
                  "How long a worker may take nothing of the pages that it asked for")
      ->capture_default_str();
  app->add_option("--lease-seconds", server->lease_seconds,
                  "shm: how long a worker may hold pages that it was lent; copying them ends that")
      ->capture_default_str();
  app->add_option("--max-threads", options->max_threads,
                  "Threads for calls that run or wait; 0 = as many as may be there")
      ->capture_default_str();
  app->add_option("--shutdown-seconds", options->shutdown_seconds,
                  "How long a shutdown waits for calls that run, also over data connections")
      ->capture_default_str();
}

void AddTransportFlags(CLI::App* app, DaemonOptions* options) {
  app->add_option("--transports", options->transports,
                  "How workers may connect for pages, of grpc, shm and ucx; all that can listen "
                  "here when not given. A setting of one that is left out is refused")
      ->delimiter(',')
      ->type_name("NAMES");
  app->add_option("--shm-socket", options->shm_socket,
                  "shm: its Unix socket (DATA_DIR/quire.sock when not given)")
      ->type_name("PATH");
  app->add_flag("--shm-any-user", options->shm_any_user,
                "shm: processes of every user may connect, instead of the server's own and root; "
                "the tickets of the control channel still decide for whom");
  app->add_option("--ucx-listen", options->ucx_listen,
                  "ucx: its host:port (the host of --listen and any free port when not given)");
  app->add_flag(
      "--ucx-direct-landings", options->ucx_direct_landings,
      "ucx: where a lane writes remote memory (RDMA), write units into memory that clients "
      "register for it (their slots, or a staging area for each as workers do) and who trust "
      "this server that much (--transport ucx-direct); for fabrics on which every peer is "
      "trusted, since they get remote memory access to this process too; needs "
      "--tenant-tokens where other hosts can reach --listen");
}

/// Writes nothing when `path` is empty.
Status WritePortFile(std::string_view option, const std::string& path, int port) {
  if (path.empty()) return OkStatus();
  std::ofstream file(path, std::ios::trunc);
  file << port << "\n";
  file.close();
  if (file.good()) return OkStatus();
  return InvalidArgument("cannot write ", option, " ", path,
                         ": name a file in a writable directory");
}

/// Threads of the listener: one for each possible call, and some for health checks and gRPC itself.
StatusOr<int> Threads(const DaemonOptions& options) {
  const uint64_t needed = options.server.max_concurrent_calls + kSpareThreads;
  if (options.max_threads == 0) {
    return static_cast<int>(
        std::clamp<uint64_t>(options.server.max_calls() + kSpareThreads, needed, kMostThreads));
  }
  if (options.max_threads >= 0 && static_cast<uint64_t>(options.max_threads) >= needed) {
    return options.max_threads;
  }
  return InvalidArgument("--max-threads is ", options.max_threads, ": --max-concurrent-calls of ",
                         options.server.max_concurrent_calls, " needs at least ", needed,
                         "; 0 lets the server choose");
}

/// Data connections over gRPC.
StatusOr<int> Streams(const DaemonOptions& options) {
  const ServerOptions& server = options.server;
  const uint64_t wanted =
      options.max_streams > 0
          ? options.max_streams
          : std::min(kMostStreams,
                     server.tenants.size() * uint64_t{server.max_connections_per_tenant});
  if (wanted <= kMostThreads) return static_cast<int>(wanted);
  return InvalidArgument("--max-streams is ", wanted, ": each holds a thread, and ", kMostThreads,
                         " is the limit");
}

/// Empty when none is configured.
StatusOr<BearerToken> ReadClusterSecret(const DaemonOptions& options) {
  if (options.cluster.secret_file.empty()) return BearerToken();
  auto secret = BearerToken::ReadFile(options.cluster.secret_file);
  if (!secret.ok()) return Annotate(secret.status(), "--cluster-secret-file");
  return secret;
}

/// Null when none are configured.
StatusOr<std::shared_ptr<const TenantTokens>> ReadTenantTokens(const DaemonOptions& options,
                                                               const BearerToken& of_nodes) {
  if (options.tenant_tokens.empty()) return nullptr;
  auto tokens = TenantTokens::ReadFile(options.tenant_tokens, options.server.tenants);
  if (!tokens.ok()) return Annotate(tokens.status(), "--tenant-tokens");
  if (!of_nodes.empty()) tokens->AddForNodes(options.server.tenants, of_nodes);
  return std::make_shared<const TenantTokens>(*std::move(tokens));
}

/// Checks addresses before the store is opened, which may take a while.
Status CheckAddresses(const DaemonOptions& options) {
  QUIRE_RETURN_IF_ERROR(Annotate(NetAddress::ParseListen(options.listen).status(), "--listen"));
  if (options.ucx_listen.empty()) return OkStatus();
  const auto ucx = NetAddress::ParseListen(options.ucx_listen);
  QUIRE_RETURN_IF_ERROR(Annotate(ucx.status(), "--ucx-listen"));
  if (!ucx->is_unix()) return OkStatus();
  return InvalidArgument("--ucx-listen '", options.ucx_listen,
                         "' is a Unix socket: write host:port");
}

/// A setting of a single transport.
struct TransportSetting {
  std::string_view option;
  std::string_view transport;
  bool (*is_given)(const DaemonOptions&);
};

constexpr TransportSetting kTransportSettings[] = {
    {"--max-streams", "grpc", [](const DaemonOptions& all) { return all.max_streams != 0; }},
    {"--shm-socket", "shm", [](const DaemonOptions& all) { return !all.shm_socket.empty(); }},
    {"--shm-any-user", "shm", [](const DaemonOptions& all) { return all.shm_any_user; }},
    {"--lease-seconds", "shm",
     [](const DaemonOptions& all) {
       return all.server.lease_seconds != ServerOptions().lease_seconds;
     }},
    {"--ucx-listen", "ucx", [](const DaemonOptions& all) { return !all.ucx_listen.empty(); }},
    {"--ucx-direct-landings", "ucx",
     [](const DaemonOptions& all) { return all.ucx_direct_landings; }},
};

bool IsBuilt(std::string_view transport) {
  return transport == "grpc" || std::ranges::find(ListenerKinds(), transport,
                                                  &ListenerKind::kind) != ListenerKinds().end();
}

/// Refuses settings of transports that are not offered.
Status CheckTransportSettings(const DaemonOptions& options) {
  const ListenerOptions listeners{.transports = options.transports};
  for (const TransportSetting& setting : kTransportSettings) {
    if (!setting.is_given(options)) continue;
    if (!listeners.Wants(setting.transport)) {
      return InvalidArgument(setting.option, " is a setting of the transport ", setting.transport,
                             ", which --transports leaves out: add it there, or leave ",
                             setting.option, " away");
    }
    if (!IsBuilt(setting.transport)) {
      return Unimplemented(setting.option, ": this program was built without ", setting.transport,
                           "; leave the option away, or build where its library is installed");
    }
  }
  return OkStatus();
}

/// The failure of a transport that cannot listen here and has settings of its own. Other transports
/// that were not named are left out.
Status CheckLeftOut(const DaemonOptions& options, const std::vector<LeftOut>& left_out) {
  for (const auto& [kind, why] : left_out) {
    for (const TransportSetting& setting : kTransportSettings) {
      if (setting.transport != kind || !setting.is_given(options)) continue;
      return Annotate(why, setting.option, " is given, and ", kind, " cannot listen");
    }
  }
  return OkStatus();
}

/// Refuses options that another option makes ineffective.
Status CheckDependentSettings(const DaemonOptions& options) {
  if (options.admin_listen.empty() && !options.admin_port_file.empty()) {
    return InvalidArgument(
        "--admin-port-file is given and --admin-listen is empty: there is no port to write; give "
        "--admin-listen HOST:PORT, or leave --admin-port-file away");
  }
  const auto listen = NetAddress::ParseListen(options.listen);
  if (listen.ok() && listen->is_unix() && !options.port_file.empty()) {
    return InvalidArgument("--port-file is given and --listen ", options.listen,
                           " has no port: listen on HOST:PORT, or leave --port-file away");
  }
  if (options.server.ssd_write_bytes_per_second == 0 &&
      options.server.ssd_write_burst_bytes != ServerOptions().ssd_write_burst_bytes) {
    return InvalidArgument(
        "--ssd-write-burst-bytes is given and --ssd-write-bytes-per-second is 0, no budget: give "
        "a budget, or leave the burst away");
  }
  return OkStatus();
}

bool StaysOnThisHost(const std::string& address) {
  const auto parsed = NetAddress::ParseListen(address);
  return parsed.ok() && parsed->StaysOnThisHost();
}

/// Keys to workers' memory come over the control channel. Its callers must therefore prove their
/// tenant, or be on this host.
Status CheckDirectLandings(const DaemonOptions& options, const TenantTokens* tokens) {
  if (!options.ucx_direct_landings || tokens != nullptr || StaysOnThisHost(options.listen)) {
    return OkStatus();
  }
  return InvalidArgument("--ucx-direct-landings with --listen ", options.listen,
                         ": whoever reaches it could have this server write by any key; give "
                         "--tenant-tokens FILE, or listen on 127.0.0.1 or a Unix socket");
}

/// Logs if callers without proof are trusted or refused.
void LogTrust(const DaemonOptions& options, const TenantTokens* tokens,
              const std::string& address) {
  if (tokens == nullptr && !StaysOnThisHost(address)) {
    LogWarning("callers_are_believed",
               {{"address", address},
                {"why",
                 "whoever reaches it may act for every tenant; give --tenant-tokens FILE, or "
                 "listen on 127.0.0.1 or a Unix socket"}});
  }
  if (tokens == nullptr) return;
  for (const std::string& tenant : options.server.tenants) {
    if (!tokens->Has(tenant)) LogWarning("tenant_without_token", {{"tenant", tenant}});
  }
}

NetworkServer::Options NetworkOptions(const DaemonOptions& options, int threads, int streams,
                                      std::shared_ptr<const TenantTokens> tokens) {
  const auto or_else = [](const std::string& text, const std::string& otherwise) {
    return text.empty() ? otherwise : text;
  };
  return {.listen = options.listen,
          .max_call_threads = threads,
          .max_streams = streams,
          .tokens = std::move(tokens),
          .listeners = {
              .transports = options.transports,
              .shm_socket = or_else(options.shm_socket, DefaultShmSocket(options.server.data_dir)),
              .shm_any_user = options.shm_any_user,
              .ucx_listen = or_else(options.ucx_listen, DefaultUcxListen(options.listen)),
              .ucx = {.direct_landings = options.ucx_direct_landings}}};
}

/// Warns when the memory limits together exceed the memory: the kernel would kill the server once
/// they are used. A DRAM tier that is too large by itself is refused.
void LogMemory(const ServerOptions& server) {
  const MemoryLimit limit = ReadMemoryLimit();
  const uint64_t bytes = server.max_memory_bytes();
  if (bytes <= limit.bytes) return;
  LogWarning("memory_may_not_suffice",
             {{"may_take", std::to_string(bytes)},
              {"limit", std::to_string(limit.bytes)},
              {"whose", limit.whose},
              {"why",
               "--dram-bytes, --digest-bytes, --context-bytes of each tenant and the caches "
               "are more than that together; lower some of them"}});
}

void LogTransports(const Server& server, const NetworkServer& network) {
  for (const auto& [kind, why] : network.left_out()) {
    LogWarning("transport_left_out", {{"transport", kind}, {"why", std::string(Message(why))}});
  }
  for (const DataPlane::Way& way : server.data_plane().ways()) {
    LogInfo("transport", {{"transport", way.kind},
                          {"address", way.address.empty() ? network.address() : way.address}});
  }
}

/// Null when none is configured.
StatusOr<std::unique_ptr<AdminServer>> StartAdmin(const DaemonOptions& options,
                                                  const Health& health) {
  if (options.admin_listen.empty()) return nullptr;
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<AdminServer> admin,
      AdminServer::Start(options.admin_listen, &health, StatusSite(options.admin_names)));
  QUIRE_RETURN_IF_ERROR(WritePortFile("--admin-port-file", options.admin_port_file, admin->port()));
  return admin;
}

/// Names of documents are for those who could list them anyway.
bool ShowsDocuments(const DaemonOptions& options, const TenantTokens* tokens) {
  return options.admin_documents || (tokens == nullptr && StaysOnThisHost(options.admin_listen));
}

/// Without a tenant where other nodes ask for a token and there is none.
ClusterNode::Caller CallerBetweenNodes(const ServerOptions& options, const TenantTokens* tokens,
                                       const BearerToken& secret) {
  if (options.tenants.empty() || (tokens != nullptr && secret.empty())) return {};
  return {.tenant = options.tenants.front(), .token = secret};
}

/// Logs what the daemon offers, and to whom.
void LogStart(const DaemonOptions& options, const Server& server, const NetworkServer& listener,
              const AdminServer* admin, const TenantTokens* tokens) {
  LogInfo("listening", {{"address", listener.address()},
                        {"admin", admin != nullptr ? admin->address() : "off"},
                        {"data_dir", options.server.data_dir},
                        {"dram", server.dram_mode()},
                        {"ssd", server.ssd_mode()}});
  LogTrust(options, tokens, listener.address());
  LogMemory(options.server);
  LogTransports(server, listener);
}

/// Makes what the disk has as the cluster agreed meanwhile. Waits while etcd is away, `most` at
/// most. UNAVAILABLE after that.
Status CatchUp(Server* server, const StopSignals& stop, Duration most) {
  const TimePoint begin = SystemClock().Now();
  for (;;) {
    const Status caught_up = server->CatchUpReplicas();
    if (!IsUnavailable(caught_up)) return caught_up;
    if (stop.HasArrived()) return OkStatus();
    if (SystemClock().Now() - begin >= most) return caught_up;
    SystemClock().Sleep(kCatchUpPause);
  }
}

/// Joins where `node` is not null. OK also when a signal ends the wait.
Status JoinCluster(ClusterNode* node, const DaemonOptions& options, const std::string& address,
                   const StopSignals& stop) {
  if (node == nullptr) return OkStatus();
  const Status joined = node->Join({.data_dir = options.server.data_dir,
                                    .listen = address,
                                    .dram_bytes = options.server.dram_bytes,
                                    .ssd_bytes = options.server.ssd_bytes},
                                   [&stop] { return stop.HasArrived(); });
  if (stop.HasArrived()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(joined);
  LogInfo("joined", {{"cluster", options.cluster.cluster}, {"node", node->place().node}});
  return OkStatus();
}

}  // namespace

void AddDaemonFlags(CLI::App* app, DaemonOptions* options) {
  app->set_config("--config", "", "File with the same options, as name = value")
      ->check(CLI::ExistingFile);
  app->allow_config_extras(CLI::config_extras_mode::error);
  app->add_option("--listen", options->listen,
                  "host:port, [IPv6]:port (port 0: any free one) or unix:/path")
      ->capture_default_str();
  app->add_option("--port-file", options->port_file, "Write the port here once it is listened on");
  app->add_option("--tenant-tokens", options->tenant_tokens,
                  "File with a line per tenant: its name and the SHA-256 of each token that proves "
                  "it; calls without one are refused. Without the file callers are believed")
      ->type_name("FILE");
  app->add_option("--admin-listen", options->admin_listen,
                  "host:port of a page for people, and of /metrics (Prometheus), /healthz and "
                  "/readyz, e.g. 127.0.0.1:7411 (port 0: any free one); none when empty");
  app->add_option("--admin-port-file", options->admin_port_file,
                  "Write the port of --admin-listen here")
      ->needs("--admin-listen");
  app->add_option("--admin-name", options->admin_names,
                  "Full name under which people open the page of the admin port; addresses and "
                  "names without a dot need none; may be given several times")
      ->delimiter(',')
      ->needs("--admin-listen");
  app->add_flag("--admin-documents", options->admin_documents,
                "Show the names of documents on that page also where tenants prove themselves, and "
                "where other hosts reach the admin port")
      ->needs("--admin-listen");
  AddTransportFlags(app, options);
  AddStoreFlags(app, &options->server);
  AddLimitFlags(app, options);
  AddClusterFlags(app, &options->cluster);
}

void PrintListening(const std::string& address) {
  std::printf("quired listening on %s\n", address.c_str());
  std::fflush(stdout);
}

Status RunDaemon(const DaemonOptions& options, const ListeningObserver& listening) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  QUIRE_RETURN_IF_ERROR(CheckAddresses(options));
  QUIRE_RETURN_IF_ERROR(CheckTransportSettings(options));
  QUIRE_RETURN_IF_ERROR(CheckDependentSettings(options));
  QUIRE_ASSIGN_OR_RETURN(const int threads, Threads(options));
  QUIRE_ASSIGN_OR_RETURN(const int streams, Streams(options));
  QUIRE_ASSIGN_OR_RETURN(const BearerToken secret, ReadClusterSecret(options));
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, ReadTenantTokens(options, secret));
  QUIRE_RETURN_IF_ERROR(CheckDirectLandings(options, tokens.get()));
  // Before the store is opened, which may take a while: the process is alive and not ready.
  Health health(&SystemClock(), LogTrouble);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<AdminServer> admin, StartAdmin(options, health));
  ScrubLog scrub_log;
  ServerOptions server_options = options.server;
  server_options.scrub_observer = &scrub_log;
  server_options.health = &health;
  server_options.tracer = TracerOf(options.tracing);
  QUIRE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ClusterNode> node,
      ClusterNode::Start(options.cluster, CallerBetweenNodes(options.server, tokens.get(), secret),
                         &health));
  if (node != nullptr) {
    QUIRE_RETURN_IF_ERROR(node->CheckMayJoin(options.server.data_dir));
    server_options.cluster = node->place();
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Open(server_options));
  // Before calls are served: others may count a node as up that was away for less than its lease.
  const Status caught_up = CatchUp(server.get(), *stop, kCatchUpBeforeCalls);
  if (!IsUnavailable(caught_up)) QUIRE_RETURN_IF_ERROR(caught_up);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<NetworkServer> listener,
                         NetworkServer::Start(*server, server_options,
                                              NetworkOptions(options, threads, streams, tokens)));
  QUIRE_RETURN_IF_ERROR(CheckLeftOut(options, listener->left_out()));
  QUIRE_RETURN_IF_ERROR(WritePortFile("--port-file", options.port_file, listener->port()));
  const auto visit_metrics = [&](MetricsVisitor& visit) {
    server->VisitMetrics(visit);
    listener->VisitMetrics(visit);
    if (node != nullptr) node->VisitMetrics(visit);
    if (options.tracing != nullptr) options.tracing->VisitMetrics(visit);
  };
  StatusHistory history(visit_metrics, &SystemClock());
  std::optional<PeriodicTask> history_steps;
  std::optional<AdminServer::Serving> serving;
  if (admin != nullptr) {
    history_steps.emplace(StatusHistory::kPeriod, [&history] { history.Step(); });
    serving.emplace(admin->Serve(
        visit_metrics, StatusAnswers({.server = server.get(),
                                      .health = &health,
                                      .history = &history,
                                      .visit_metrics = visit_metrics,
                                      .tenants = options.server.tenants,
                                      .node = node != nullptr ? node->place().node : "",
                                      .shows_documents = ShowsDocuments(options, tokens.get())})));
  }
  if (!caught_up.ok()) QUIRE_RETURN_IF_ERROR(CatchUp(server.get(), *stop, Duration::max()));
  QUIRE_RETURN_IF_ERROR(JoinCluster(node.get(), options, listener->address(), *stop));
  server->StartReplication();
  if (!stop->HasArrived()) listening(listener->address());
  LogStart(options, *server, *listener, admin.get(), tokens.get());
  const int signal = stop->Wait();
  server->StopReplication();
  if (node != nullptr) node->Leave();
  if (serving) serving->Drain();
  LogInfo("shutting_down", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  listener->Shutdown(std::chrono::seconds(options.shutdown_seconds));
  LogInfo("stopped", {});
  return OkStatus();
}

}  // namespace quire::kvserver
