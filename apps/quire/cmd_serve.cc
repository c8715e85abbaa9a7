// SPDX-License-Identifier: Apache-2.0
//
// quire serve: the server in the foreground; the same as `quired`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/kit/output/json_output.h"
#include "apps/quire/commands.h"
#include "apps/quired/daemon.h"
#include "common/base/memory/heap.h"

namespace quire::cli {
namespace {

/// Takes from the file that --config names what the command line did not give. CLI11 itself reads a
/// configuration file for the top of a program only, not for a command of it.
void ApplyConfig(CLI::App& command) {
  const CLI::Option& config = *command.get_config_ptr();
  if (config.empty()) return;
  for (const CLI::ConfigItem& item :
       command.get_config_formatter()->from_file(config.as<std::string>())) {
    CLI::Option* const option =
        item.parents.empty() ? command.get_option_no_throw("--" + item.name) : nullptr;
    if (option == nullptr) throw CLI::ConfigError::Extras(item.fullname());
    if (!option->empty()) continue;
    option->add_result(item.inputs);
    option->run_callback();
  }
}

Status RunServe(const kvserver::DaemonOptions& options, const CommandContext& context) {
  ReturnLargeAllocations();
  kvserver::DaemonOptions traced = options;
  traced.tracing = context.tracing;
  if (!context.options.json) return kvserver::RunDaemon(traced);
  return kvserver::RunDaemon(traced, [&](const std::string& address) {
    PrintJsonLine(context.out, {{"listening", address}, {"data_dir", options.server.data_dir}});
  });
}

}  // namespace

void AddServeCommand(Commands& commands) {
  const auto options = std::make_shared<kvserver::DaemonOptions>();
  CLI::App& command = commands.Add(
      {.name = "serve",
       .summary = "Run a server in the foreground (the same as quired)",
       .examples =
           "  quire serve --data-dir ~/quire-data\n"
           "  quire serve --data-dir ~/quire-data --json   one line of JSON when ready\n"
           "  quire serve --data-dir ~/quire-data --listen 0.0.0.0:7410 --dram-bytes 16GiB\n"
           "  quire serve --data-dir /tmp/q --listen 127.0.0.1:0 --port-file /tmp/q.port\n"
           "  quire serve --config quired.ini\n"
           "  quire serve --data-dir ~/quire-data --tenants team-a --tenant-tokens tenant-tokens\n"
           "A tenant's token, and its line in that file:\n"
           "  (umask 077; head -c 32 /dev/urandom | base64 -w 0 > team-a.token)\n"
           "  echo \"team-a $(sha256sum < team-a.token | cut -c 1-64)\" >> tenant-tokens\n"
           "Stop it with Ctrl-C: what runs is finished and the store is closed.",
       .calls_no_server = true,
       .service = "quired"},
      options, &RunServe);
  kvserver::AddDaemonFlags(&command, options.get());
  commands.MayBeEmpty(command.get_option("--admin-listen"));
  CLI::Option* const data_dir = command.get_option("--data-dir")->required(false);
  command.parse_complete_callback([&command, data_dir] {
    ApplyConfig(command);
    if (data_dir->empty()) throw CLI::RequiredError("--data-dir");
  });
}

}  // namespace quire::cli
