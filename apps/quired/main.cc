// SPDX-License-Identifier: Apache-2.0
//
// quired: the Quire server.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "apps/quired/daemon.h"
#include "common/base/memory/heap.h"
#include "common/flags/given.h"
#include "quire/version.h"
#include "transport/otlp/tracing.h"

namespace {

constexpr char kExamples[] = R"help(Examples:
  quired --data-dir /var/lib/quire
  quired --data-dir /tmp/quire --listen 127.0.0.1:0 --port-file /tmp/quire.port
  quired --data-dir /var/lib/quire --listen 10.0.0.1:7410 --tenant-tokens /etc/quire/tenant-tokens
  quired --config /etc/quire/quired.ini
with, in quired.ini:
  data-dir = "/var/lib/quire"
  listen = "0.0.0.0:7410"
  dram-bytes = 16GiB
  tenants = ["default", "team-a"]
  admin-listen = "127.0.0.1:7411"

A tenant's token, and its line in the file of --tenant-tokens:
  (umask 077; head -c 32 /dev/urandom | base64 -w 0 > team-a.token)
  echo "team-a $(sha256sum < team-a.token | cut -c 1-64)" >> /etc/quire/tenant-tokens

SIGTERM and SIGINT finish what runs and close the store.
OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4317 sends traces of calls there, over gRPC.
)help";

}  // namespace

int main(int argc, char** argv) {
  quire::ReturnLargeAllocations();
  CLI::App app("quired stores KV pages of language models and serves them to workers.", "quired");
  quire::kvserver::DaemonOptions options;
  quire::kvserver::AddDaemonFlags(&app, &options);
  app.set_version_flag("--version", QUIRE_VERSION);
  app.footer(kExamples);
  CLI11_PARSE(app, argc, argv);
  quire::Status status = quire::CheckGiven(app, {app.get_option("--admin-listen")}, nullptr);
  const auto tracing = quire::Tracing::Start("quired", std::getenv);
  status.Update(tracing.status());
  if (tracing.ok()) options.tracing = tracing->get();
  if (status.ok()) status = quire::kvserver::RunDaemon(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "quired: %s\n", std::string(quire::Message(status)).c_str());
  return 1;
}
