// SPDX-License-Identifier: Apache-2.0
//
// quired as a process: starting, serving over gRPC, failing to start, stopping on signals.
#include "apps/quired/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "apps/quired/scrub_log.h"
#include "common/base/memory/checksum.h"
#include "common/base/observe/log.h"
#include "common/base/unique_fd.h"
#include "common/metrics/testing/http_get.h"
#include "common/metrics/testing/prometheus_parser.h"
#include "common/wire/convert.h"
#include "kvserver/service/data_plane/listeners.h"
#include "kvserver/session/testing/test_pages.h"
#include "quire/layout.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/data_plane.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/child_process.h"
#include "tests/kit/look_again.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/grpc/grpc_transport.h"

namespace quire::kvserver {
namespace {

using quire::testing::ChildProcess;
using quire::testing::TcpClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One whole segment of zeros, put with the server's default durability.
struct SegmentPut {
  explicit SegmentPut(const KvSpec& spec) {
    v1::PutSegmentRequest request;
    wire::KvSpecToProto(spec, request.mutable_spec());
    for (const TokenId id : testing::TestTokens(spec.segment_tokens())) request.add_tokens(id);
    std::vector<std::byte> bytes(SegmentBytes(spec, spec.segment_pages));
    request.set_payload_crc32c(Crc32c(bytes));
    message.control = request.SerializeAsString();
    message.payload.Append(std::move(bytes));
  }
  CallMessage message;
};

class QuiredTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChildProcess> Run(std::vector<std::string> args) {
    return std::make_unique<ChildProcess>(QUIRE_BINARY_DIR "/bin/quired", std::move(args),
                                          dir_ / "stderr");
  }
  std::vector<std::string> Args(const std::string& listen = "127.0.0.1:0") {
    return {"--data-dir", dir_ / "data", "--dram-bytes", "8MiB", "--listen", listen};
  }
  /// Blocks until `quired` prints its address, or ends; empty then.
  static std::string Address(ChildProcess& quired) {
    const std::string prefix = "quired listening on ";
    std::string line;
    return quired.ReadLine(&line) && line.starts_with(prefix) ? line.substr(prefix.size()) : "";
  }
  static std::shared_ptr<Transport> Connect(const std::string& address) {
    auto transport = GrpcTransport::Create({.address = address});
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }
  static Status Call(Transport& transport, std::string_view method, CallMessage* reply,
                     const CallMessage& request = {}, const std::string& tenant = "default") {
    return transport.Call(method, request, reply,
                          {.tenant = tenant, .timeout = std::chrono::seconds(60)});
  }
  static std::map<std::string, uint64_t> Counters(Transport& transport) {
    CallMessage reply;
    EXPECT_EQ(Call(transport, "quire.v1.Admin/Stats", &reply), OkStatus());
    v1::StatsReply stats;
    EXPECT_TRUE(stats.ParseFromString(reply.control));
    std::map<std::string, uint64_t> counters;
    for (const auto& counter : stats.counters()) counters[counter.name()] = counter.value();
    return counters;
  }
  /// Expects an exit code other than 0 and `words` on standard error.
  void ExpectFailure(std::vector<std::string> args, const std::string& words) {
    const auto quired = Run(std::move(args));
    EXPECT_EQ(Address(*quired), "");
    EXPECT_GT(quired->Wait(), 0);
    EXPECT_THAT(quired->Stderr(), HasSubstr(words));
  }
  /// Writes a config file and returns its path.
  std::string Config(const std::string& more) {
    const std::string path = dir_ / "quired.ini";
    std::ofstream(path) << "data-dir = \"" << (dir_ / "data") << "\"\n"
                        << "listen = \"127.0.0.1:0\"\ndram-bytes = 8MiB\n"
                        << more;
    return path;
  }
  /// Number of database commits of a put whose segment is stored already.
  static uint64_t CommitsOfASecondPut(Transport& transport) {
    const SegmentPut put(testing::TestSpec());
    CallMessage reply;
    EXPECT_EQ(Call(transport, "quire.v1.Store/PutSegment", &reply, put.message), OkStatus());
    const uint64_t before = Counters(transport)["db_commits"];
    EXPECT_EQ(Call(transport, "quire.v1.Store/PutSegment", &reply, put.message), OkStatus());
    return Counters(transport)["db_commits"] - before;
  }

  quire::testing::TempDir dir_;
};

TEST_F(QuiredTest, ServesUntilASignalAndExitsCleanly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    auto args = Args();
    args.insert(args.end(), {"--port-file", dir_ / "port"});
    const auto quired = Run(args);
    const std::string address = Address(*quired);
    ASSERT_NE(address, "") << quired->Stderr();
    EXPECT_EQ("127.0.0.1:" + ReadFile(dir_ / "port"), address + "\n");
    auto transport = Connect(address);
    CallMessage reply;
    ASSERT_TRUE(Call(*transport, "grpc.health.v1.Health/Check", &reply).ok());
    EXPECT_EQ(reply.control, "\x08\x01");
    EXPECT_FALSE(Counters(*transport).empty());
    EXPECT_EQ(Call(*transport, "quire.v1.Store/Fetch", &reply).code(),
              StatusCode::kInvalidArgument);
    transport.reset();  // An idle client notices the end of the server late.
    quired->Signal(signal);
    EXPECT_EQ(quired->Wait(), 0);
    EXPECT_THAT(quired->Stderr(), AllOf(HasSubstr("ssd=\""), HasSubstr("info stopped")));
  }
}

TEST_F(QuiredTest, TheTenantsAndTheDurabilityOfAConfigFileTakeEffect) {
  const auto quired =
      Run({"--config", Config("tenants = [\"default\", \"team-b\"]\ndurability = \"memory\"\n")});
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  auto transport = Connect(address);
  CallMessage reply;
  EXPECT_EQ(Call(*transport, "quire.v1.Admin/Stats", &reply, {}, "team-b"), OkStatus());
  EXPECT_FALSE(Call(*transport, "quire.v1.Admin/Stats", &reply, {}, "team-c").ok());
  // A put that is stored already is acknowledged as persisted only after a sync of its own.
  EXPECT_EQ(CommitsOfASecondPut(*transport), 0u);
  transport.reset();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
}

TEST_F(QuiredTest, QuotasOfTenantsComeFromFlagsAndConfigFile) {
  DaemonOptions options;
  CLI::App app;
  AddDaemonFlags(&app, &options);
  const std::string config =
      Config("tenants = [\"default\", \"b\"]\ntenant-ssd-quota = [\"default=1GiB\", \"b=2TB\"]\n");
  const char* args[] = {"quired", "--config", config.c_str(), "--tenant-dram-quota", "b=64MiB"};
  app.parse(5, args);
  EXPECT_EQ(options.server.tenant_ssd_quota_bytes,
            (TenantBytes{{"default", 1u << 30}, {"b", 2'000'000'000'000}}));
  EXPECT_EQ(options.server.tenant_dram_quota_bytes, (TenantBytes{{"b", 64u << 20}}));
  EXPECT_EQ(options.server.Validate(), OkStatus());
}

TEST_F(QuiredTest, WithoutAWordInTheConfigFilePutsArePersisted) {
  const auto quired = Run({"--config", Config("")});
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  const auto transport = Connect(address);
  EXPECT_EQ(CommitsOfASecondPut(*transport), 1u);
  CallMessage reply;
  EXPECT_FALSE(Call(*transport, "quire.v1.Admin/Stats", &reply, {}, "team-b").ok());
}

TEST_F(QuiredTest, ACallThatRunsWhenTheSignalComesIsFinished) {
  const auto quired = Run(Args());
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  KvSpec spec = testing::TestSpec();  // Large, so that its put takes a while.
  spec.num_layers = 24;
  spec.num_kv_heads = 8;
  spec.num_query_heads = 8;
  spec.head_dim = 128;
  spec.rope.rotary_dim = 128;
  spec.page_tokens = 32;
  spec.segment_pages = 8;
  const SegmentPut put(spec);
  auto transport = Connect(address);
  uint64_t calls = Counters(*transport)["calls"];
  Status status = Internal("the call has not ended");
  CallMessage reply;
  std::thread caller([&, transport = Connect(address)] {
    status = Call(*transport, "quire.v1.Store/PutSegment", &reply, put.message);
  });
  // Each read of the counters is one more call. One more than that is the put, which has begun.
  uint64_t now = 0;
  do {
    now = Counters(*transport)["calls"];
  } while (now == ++calls);
  transport.reset();
  quired->Signal(SIGTERM);
  caller.join();
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(quired->Wait(), 0) << quired->Stderr();
  v1::PutSegmentReply answer;
  EXPECT_TRUE(answer.ParseFromString(reply.control));
  EXPECT_EQ(answer.key().size(), 32u);
}

TEST_F(QuiredTest, MetricsMoveWithCallsAndThePortsGoWithTheDaemon) {
  auto args = Args();
  args.insert(args.end(),
              {"--admin-listen", "127.0.0.1:0", "--admin-port-file", dir_ / "admin-port"});
  const auto quired = Run(args);
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  const int port = std::stoi(ReadFile(dir_ / "admin-port"));
  EXPECT_THAT(quire::testing::HttpGet(port, "/healthz"), HasSubstr(" 200 OK"));
  EXPECT_THAT(quire::testing::HttpGet(port, "/readyz"), HasSubstr(" 200 OK"));
  const auto scrape = [&](const std::string& series) {
    const auto families = quire::testing::PrometheusParser::Parse(
        quire::testing::HttpBody(quire::testing::HttpGet(port, "/metrics")));
    EXPECT_TRUE(families.ok()) << families.status();
    for (const auto& [name, family] : *families) {
      for (const auto& sample : family.samples) {
        const auto method = sample.labels.find("method");
        const bool of_put =
            method != sample.labels.end() && method->second == "quire.v1.Store/PutSegment";
        if (sample.name == series && (of_put || sample.labels.empty())) return sample.value;
      }
    }
    return -1.0;
  };
  EXPECT_EQ(scrape("quire_puts_total"), 0);
  EXPECT_EQ(scrape("quire_call_seconds_count"), 0);
  auto transport = Connect(address);
  const SegmentPut put(testing::TestSpec());
  CallMessage reply;
  EXPECT_EQ(Call(*transport, "quire.v1.Store/PutSegment", &reply, put.message), OkStatus());
  EXPECT_EQ(scrape("quire_puts_total"), 1);
  EXPECT_EQ(scrape("quire_call_seconds_count"), 1);
  EXPECT_GT(scrape("quire_call_seconds_sum"), 0);
  EXPECT_GT(scrape("quire_call_request_bytes_total"), 0);
  transport.reset();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0) << quired->Stderr();
  EXPECT_EQ(quire::testing::HttpGet(port, "/healthz"), "") << "nobody listens any more";
}

// Segments lost while the server is stopped are reported everywhere at its start. A put repairs
// them.
TEST_F(QuiredTest, AVolumeThatIsMissingAtTheStartIsSaidUntilItsSegmentsArePutAgain) {
  auto args = Args();
  args.insert(args.end(),
              {"--admin-listen", "127.0.0.1:0", "--admin-port-file", dir_ / "admin-port"});
  const SegmentPut put(testing::TestSpec());
  CallMessage reply;
  {
    const auto quired = Run(args);
    auto transport = Connect(Address(*quired));
    ASSERT_EQ(Call(*transport, "quire.v1.Store/PutSegment", &reply, put.message), OkStatus());
    transport.reset();
    quired->Signal(SIGTERM);
    ASSERT_EQ(quired->Wait(), 0);
  }
  const std::string volume = dir_ / "data/payload/00000000.vol";
  ASSERT_TRUE(std::filesystem::remove(volume));
  const auto quired = Run(args);
  auto transport = Connect(Address(*quired));
  EXPECT_THAT(
      quired->Stderr(),
      AllOf(HasSubstr("warning data_damaged detail=\"1 segments are lost"), HasSubstr(volume)));
  const auto ready = [&] {
    return quire::testing::HttpGet(std::stoi(ReadFile(dir_ / "admin-port")), "/readyz");
  };
  EXPECT_THAT(ready(), AllOf(HasSubstr(" 200 OK"), HasSubstr("degraded: data_damaged: "),
                             HasSubstr(volume)));
  ASSERT_EQ(Call(*transport, "quire.v1.Admin/Stats", &reply), OkStatus());
  v1::StatsReply stats;
  ASSERT_TRUE(stats.ParseFromString(reply.control));
  ASSERT_EQ(stats.degradations_size(), 1);
  EXPECT_EQ(stats.degradations(0).reason(), "data_damaged");
  EXPECT_GT(stats.degradations(0).since_unix_micros(), 0);
  auto counters = Counters(*transport);
  EXPECT_EQ(counters["segments_lost"], 1u);
  EXPECT_EQ(counters["degraded{reason=\"data_damaged\"}"], 1u);
  ASSERT_EQ(Call(*transport, "quire.v1.Store/PutSegment", &reply, put.message), OkStatus());
  v1::PutSegmentReply stored;
  ASSERT_TRUE(stored.ParseFromString(reply.control));
  EXPECT_FALSE(stored.existed());
  EXPECT_THAT(ready(), Not(HasSubstr("degraded")));
  transport.reset();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
  EXPECT_THAT(quired->Stderr(), HasSubstr("info data_damaged state=over"));
}

TEST_F(QuiredTest, LimitsThatAreMoreThanThereIsAreSaidAndADramTierThatIsIsRefused) {
  auto args = Args();
  args.insert(args.end(), {"--digest-bytes", "1000TiB"});
  const auto quired = Run(args);
  ASSERT_NE(Address(*quired), "") << quired->Stderr();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
  EXPECT_THAT(quired->Stderr(), HasSubstr("warning memory_may_not_suffice may_take=10995"));
  ExpectFailure(
      {"--data-dir", dir_ / "other", "--listen", "127.0.0.1:0", "--dram-bytes", "1000TiB"},
      "dram_bytes is 1099511627776000");
}

/// An idle connection.
UniqueFd SilentUnixConnection(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

/// UCX's port; nullopt where it is not built or cannot listen.
std::optional<int> UcxPort(ChildProcess& quired) {
  if (std::ranges::find(ListenerKinds(), "ucx", &ListenerKind::kind) == ListenerKinds().end()) {
    return std::nullopt;
  }
  while (quired.Stderr().find("transport=ucx") == std::string::npos)
    quire::testing::WaitToLookAgain();
  const std::string log = quired.Stderr(), before = "transport=ucx address=127.0.0.1:";
  const size_t at = log.find(before);
  if (at == std::string::npos) return std::nullopt;
  return std::stoi(log.substr(at + before.size()));
}

// The grace of a shutdown is for running calls.
TEST_F(QuiredTest, ConnectionsThatSayNothingDoNotDelayItsEnd) {
  auto args = Args();
  args.insert(args.end(), {"--admin-listen", "127.0.0.1:0", "--admin-port-file",
                           dir_ / "admin-port", "--port-file", dir_ / "port", "--shm-socket",
                           dir_ / "shm", "--shutdown-seconds", "120"});
  const auto quired = Run(args);
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  const int port = std::stoi(ReadFile(dir_ / "port"));
  const int admin_port = std::stoi(ReadFile(dir_ / "admin-port"));
  TcpClient call(port), half_a_call(port), request(admin_port), half_a_request(admin_port);
  EXPECT_TRUE(call.Send(""));
  EXPECT_TRUE(half_a_call.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  EXPECT_TRUE(request.Send(""));
  EXPECT_TRUE(half_a_request.Send("GET /metrics HTTP/1.1\r\nHost"));
  const UniqueFd over_shm = SilentUnixConnection(dir_ / "shm");
  std::optional<TcpClient> over_ucx;
  if (const auto ucx_port = UcxPort(*quired)) EXPECT_TRUE(over_ucx.emplace(*ucx_port).Send("UCX"));
  // Answered calls on later connections show that the earlier ones were accepted.
  EXPECT_THAT(quire::testing::HttpGet(admin_port, "/healthz"), HasSubstr(" 200 OK"));
  auto transport = Connect(address);
  CallMessage reply;
  ASSERT_TRUE(Call(*transport, "grpc.health.v1.Health/Check", &reply).ok());
  transport.reset();
  const TimePoint start = SystemClock().Now();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0) << quired->Stderr();
  const std::chrono::duration<double> took = SystemClock().Now() - start;
  EXPECT_LT(took.count(), 20);
  EXPECT_THAT(quired->Stderr(), HasSubstr("info stopped"));
}

TEST_F(QuiredTest, ATakenAdminPortIsNamed) {
  auto args = Args();
  args.insert(args.end(),
              {"--admin-listen", "127.0.0.1:0", "--admin-port-file", dir_ / "admin-port"});
  const auto first = Run(args);
  ASSERT_NE(Address(*first), "") << first->Stderr();
  std::string port = ReadFile(dir_ / "admin-port");
  port.pop_back();
  ExpectFailure({"--data-dir", dir_ / "other", "--listen", "127.0.0.1:0", "--admin-listen",
                 "127.0.0.1:" + port},
                "cannot listen on 127.0.0.1:" + port);
  ExpectFailure({"--data-dir", dir_ / "other", "--admin-listen", "here"}, "'here'");
}

TEST_F(QuiredTest, HelpHasExamples) {
  const auto help = quire::testing::RunChild(QUIRE_BINARY_DIR "/bin/quired", {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:\n  quired --data-dir"));
  EXPECT_THAT(help.out, HasSubstr("--config"));
}

TEST_F(QuiredTest, StartsWithTheDeployedConfigFile) {
  auto args = Args();
  args.insert(args.end(),
              {"--config", QUIRE_SOURCE_DIR "/deploy/quired.ini", "--admin-listen", "127.0.0.1:0"});
  const auto quired = Run(args);
  EXPECT_NE(Address(*quired), "") << quired->Stderr();
}

TEST_F(QuiredTest, FailsToStartWithAReason) {
  const std::string config = dir_ / "bad.ini";
  std::ofstream(config) << "data-dir = \"x\"\nno-such-key = 3\n";
  ExpectFailure({"--config", config}, "no-such-key");
  ExpectFailure({"--config", dir_ / "missing.ini"}, "missing.ini");
  ExpectFailure({}, "--data-dir");
  ExpectFailure({"--data-dir", dir_ / "d", "--dram-bytes", "lots"}, "--dram-bytes");
  ExpectFailure({"--data-dir", dir_ / "d", "--idle-seconds", "0"}, "--idle-seconds");
  ExpectFailure({"--data-dir", dir_ / "d", "--tenants", "a/b"}, "a/b");
  ExpectFailure({"--data-dir", dir_ / "d", "--max-concurrent-calls", "2"},
                "--max-concurrent-calls");
  ExpectFailure({"--data-dir", dir_ / "d", "--max-threads", "20"}, "--max-threads");
  ExpectFailure({"--data-dir", dir_ / "d", "--max-streams", "10000"}, "--max-streams");
  ExpectFailure({"--data-dir", dir_ / "d", "--stall-seconds", "0"}, "--stall-seconds");
  for (const char* empty : {"--tenant-tokens", "--port-file", "--shm-socket", "--ucx-listen"}) {
    ExpectFailure({"--data-dir", dir_ / "d", empty, ""}, std::string(empty) + " is empty");
  }
  ExpectFailure({"--config", Config("tenant-tokens = \"\"\n")}, "--tenant-tokens is empty");
  ExpectFailure({"--data-dir", dir_ / "d", "--default-codec", "int7"}, "--default-codec");
  ExpectFailure({"--data-dir", dir_ / "d", "--dram-bytes", "8MiB", "--ssd-bytes", "1MiB"},
                "at least 16777216");
  for (const char* quota : {"default", "=4GiB", "default=lots", "default=1GiB,default=2GiB"}) {
    ExpectFailure({"--data-dir", dir_ / "d", "--tenant-ssd-quota", quota}, "--tenant-ssd-quota");
  }
  ExpectFailure({"--data-dir", dir_ / "d", "--tenant-dram-quota", "nobody=4GiB"}, "nobody");
  std::ofstream(dir_ / "file") << "not a directory";
  ExpectFailure({"--data-dir", dir_ / "file", "--listen", "127.0.0.1:0"}, dir_ / "file");
  ExpectFailure({"--data-dir", "/proc/quire", "--listen", "127.0.0.1:0"}, "/proc/quire");
}

TEST_F(QuiredTest, ASettingThatWouldNotBeReadIsRefused) {
  const auto expect = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> args = Args();
    args.insert(args.end(), more.begin(), more.end());
    ExpectFailure(args, words);
  };
  const std::vector<std::vector<std::string>> of_shm = {
      {"--shm-socket", dir_ / "s"}, {"--shm-any-user"}, {"--lease-seconds", "4"}};
  for (std::vector<std::string> setting : of_shm) {
    const std::string option = setting.front();
    setting.insert(setting.end(), {"--transports", "grpc"});
    expect(setting, option + " is a setting of the transport shm, which --transports leaves out");
  }
  expect({"--transports", "grpc,shm", "--ucx-listen", "127.0.0.1:0"},
         "--ucx-listen is a setting of the transport ucx");
  expect({"--transports", "shm", "--ucx-direct-landings"}, "--ucx-direct-landings is a setting");
  expect({"--transports", "shm", "--max-streams", "3"}, "--max-streams is a setting of");
  ExpectFailure({"--config", Config("transports = [\"grpc\"]\nshm-any-user = true\n")},
                "--shm-any-user is a setting");
  // An unnamed transport would be left out; a setting of its own requests it.
  expect({"--shm-socket", dir_ / "no/such/directory"}, "--shm-socket is given, and shm cannot");
  expect({"--admin-listen", "", "--admin-port-file", dir_ / "p"}, "--admin-port-file is given");
  expect({"--ssd-write-bytes-per-second", "0", "--ssd-write-burst-bytes", "1MiB"},
         "--ssd-write-burst-bytes is given");
  std::vector<std::string> of_a_socket = Args("unix:" + (dir_ / "grpc"));
  of_a_socket.insert(of_a_socket.end(), {"--port-file", dir_ / "p"});
  ExpectFailure(of_a_socket, "--port-file is given and --listen unix:");
}

TEST_F(QuiredTest, TransportFlagsAreRead) {
  DaemonOptions options;
  CLI::App app;
  AddDaemonFlags(&app, &options);
  const char* args[] = {"quired",
                        "--data-dir",
                        "d",
                        "--transports",
                        "grpc,shm",
                        "--shm-socket",
                        "/run/quire.sock",
                        "--shm-any-user",
                        "--ucx-listen",
                        "10.0.0.1:9",
                        "--max-streams",
                        "12",
                        "--stall-seconds",
                        "3",
                        "--lease-seconds",
                        "4",
                        "--max-connections",
                        "5",
                        "--max-connections-per-tenant",
                        "6"};
  app.parse(static_cast<int>(std::size(args)), args);
  EXPECT_TRUE(options.shm_any_user);
  EXPECT_EQ(options.max_streams, 12u);
  EXPECT_EQ(options.server.stall_seconds, 3u);
  EXPECT_EQ(options.server.lease_seconds, 4u);
  EXPECT_EQ(options.server.max_connections, 5u);
  EXPECT_EQ(options.server.max_connections_per_tenant, 6u);
  EXPECT_EQ(options.transports, (std::vector<std::string>{"grpc", "shm"}));
  EXPECT_EQ(options.shm_socket, "/run/quire.sock");
  EXPECT_EQ(options.ucx_listen, "10.0.0.1:9");
}

TEST_F(QuiredTest, EachKindOfScrubHasARateOfItsOwn) {
  DaemonOptions options;
  CLI::App app;
  AddDaemonFlags(&app, &options);
  const char* args[] = {"quired", "--data-dir",
                        "d",      "--scrub-bytes-per-second",
                        "1KiB",   "--scrub-dram-bytes-per-second",
                        "2KiB",   "--scrub-digest-bytes-per-second",
                        "0"};
  app.parse(static_cast<int>(std::size(args)), args);
  const ScrubRates& rates = options.server.scrub_bytes_per_second;
  EXPECT_EQ(rates.payload, 1024u);
  EXPECT_EQ(rates.dram, 2048u);
  EXPECT_EQ(rates.digests, 0u);
  EXPECT_EQ(rates.records, ScrubRates(ServerOptions().scrub_bytes_per_second).records);
}

TEST(ScrubLogTest, DamageAndRoundsAreLines) {
  ::testing::internal::CaptureStderr();
  ScrubLog log;
  log.OnDamage("dram", "segment 12 layer 3 in DRAM: it was read from SSD again");
  ScrubRound round{"dram", {.bytes = 4096, .checked = 8, .damaged = 1, .mended = 1}};
  round.took = std::chrono::milliseconds(5);
  log.OnRound(round);
  round.status = DataLoss("the table ends here");
  log.OnRound(round);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning scrub_damage kind=dram what=\"segment 12 layer 3"),
                    HasSubstr("info scrub_round kind=dram checked=8 bytes=4096 damaged=1 mended=1 "
                              "skipped=0 errors=0 ms=5\n"),
                    HasSubstr("warning scrub_failed kind=dram why=\"the table ends here\"")));
}

TEST_F(QuiredTest, WithTenantTokensCallersHaveToProveWhoTheyAre) {
  const auto tokens =
      quire::testing::WriteSecretFile(dir_ / "tokens", quire::testing::kTenantTokens);
  const auto quired = Run({"--config", Config("tenants = [\"default\", \"other\", \"third\"]\n"
                                              "tenant-tokens = \"" +
                                              tokens + "\"\n")});
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  auto nobody = Connect(address);
  CallMessage reply;
  for (const char* const tenant : {"default", "other", "third", "nobody"}) {
    EXPECT_EQ(Call(*nobody, "quire.v1.Admin/Stats", &reply, {}, tenant).code(),
              StatusCode::kUnauthenticated);
  }
  auto proven = GrpcTransport::Create(
      {.address = address, .token = *BearerToken::Make(quire::testing::kOtherToken)});
  ASSERT_TRUE(proven.ok()) << proven.status();
  EXPECT_EQ(Call(**proven, "quire.v1.Admin/Stats", &reply, {}, "other"), OkStatus());
  EXPECT_EQ(Call(**proven, "quire.v1.Admin/Stats", &reply, {}, "default").code(),
            StatusCode::kUnauthenticated);
  nobody.reset();
  proven->reset();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
  EXPECT_THAT(quired->Stderr(), HasSubstr("warning tenant_without_token tenant=third"));
  EXPECT_THAT(quired->Stderr(), HasSubstr("warning caller_unproven detail=\"a call from "));
  EXPECT_THAT(quired->Stderr(), Not(HasSubstr("tenant_without_token tenant=other")));
}

TEST_F(QuiredTest, BadTenantTokensAreNamedByTheirLine) {
  const auto expect = [&](const std::string& text, const std::string& words) {
    const auto path = quire::testing::WriteSecretFile(dir_ / "tokens", text);
    auto args = Args();
    args.insert(args.end(), {"--tenant-tokens", path});
    ExpectFailure(args, "--tenant-tokens: " + path + ": " + words);
  };
  expect(quire::testing::kTenantTokens, "line 2: there is no such tenant");
  expect("\ndefault\n", "line 2: there is no SHA-256");
  expect("# nobody\n", "no tenant stands there");
  auto args = Args();
  args.insert(args.end(), {"--tenant-tokens", dir_ / "none"});
  ExpectFailure(args, "--tenant-tokens: cannot open " + (dir_ / "none"));
}

TEST_F(QuiredTest, WritesToMemoryOnlyByKeysOfProvenCallersOrOfThisHost) {
  auto args = Args("0.0.0.0:0");
  args.emplace_back("--ucx-direct-landings");
  ExpectFailure(args, "--ucx-direct-landings with --listen 0.0.0.0:0: ");
  const auto tokens = quire::testing::WriteSecretFile(
      dir_ / "tokens", std::string("default ") + quire::testing::kDefaultTokenHash);
  args.insert(args.end(), {"--tenant-tokens", tokens});
  const auto quired = Run(args);
  EXPECT_NE(Address(*quired), "") << quired->Stderr();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
}

TEST_F(QuiredTest, WarnsWhereCallersFromElsewhereAreBelieved) {
  const auto tokens = quire::testing::WriteSecretFile(
      dir_ / "tokens", std::string("default ") + quire::testing::kDefaultTokenHash);
  const auto log = [&](std::vector<std::string> args) {
    const auto quired = Run(std::move(args));
    EXPECT_NE(Address(*quired), "") << quired->Stderr();
    quired->Signal(SIGTERM);
    EXPECT_EQ(quired->Wait(), 0);
    return quired->Stderr();
  };
  EXPECT_THAT(log(Args("0.0.0.0:0")), HasSubstr("warning callers_are_believed"));
  EXPECT_THAT(log(Args()), Not(HasSubstr("callers_are_believed")));
  EXPECT_THAT(log(Args("unix:" + (dir_ / "grpc"))), Not(HasSubstr("callers_are_believed")));
  auto args = Args("0.0.0.0:0");
  args.insert(args.end(), {"--tenant-tokens", tokens});
  EXPECT_THAT(log(args), Not(HasSubstr("warning callers_are_believed")));
}

TEST_F(QuiredTest, OffersTheTransportsThatAreAskedFor) {
  auto args = Args();
  args.insert(args.end(), {"--transports", "grpc"});
  const auto quired = Run(args);
  const std::string address = Address(*quired);
  ASSERT_NE(address, "") << quired->Stderr();
  auto transport = Connect(address);
  CallMessage reply;
  ASSERT_EQ(Call(*transport, "quire.v1.DataPlane/Offer", &reply), OkStatus());
  v1::OfferReply offers;
  ASSERT_TRUE(offers.ParseFromString(reply.control));
  ASSERT_EQ(offers.offers_size(), 1);
  EXPECT_EQ(offers.offers(0).kind(), "grpc");
  transport.reset();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
  EXPECT_THAT(quired->Stderr(), HasSubstr("transport transport=grpc address=" + address));
  ExpectFailure({"--data-dir", dir_ / "d", "--listen", "127.0.0.1:0", "--transports", "pigeon"},
                "pigeon");
}

TEST_F(QuiredTest, ATakenPortIsNamed) {
  const auto first = Run(Args());
  const std::string address = Address(*first);
  ASSERT_NE(address, "") << first->Stderr();
  const auto second = quire::testing::RunChild(
      QUIRE_BINARY_DIR "/bin/quired",
      {"--data-dir", dir_ / "other", "--dram-bytes", "8MiB", "--listen", address});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on " + address));
}

TEST(LogTest, LinesAreOneLineAndQuoted) {
  EXPECT_EQ(LogLine(1'700'000'000'000'042, "info", "listening",
                    {{"address", "127.0.0.1:1"}, {"dir", "a b\n\"c\""}, {"none", ""}}),
            "2023-11-14T22:13:20.000042Z info listening address=127.0.0.1:1 "
            "dir=\"a b \\\"c\\\"\" none=\"\"");
}

}  // namespace
}  // namespace quire::kvserver
