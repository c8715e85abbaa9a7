// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/serve_process.h"

#include <fstream>
#include <utility>

#include "apps/kit/program_beside.h"
#include "quire/connect.h"

namespace quire::bench {
namespace {

constexpr Duration kStartTime = std::chrono::seconds(60);

}  // namespace

StatusOr<std::string> AwaitAddress(Process& process, const std::string& port_file) {
  int port = 0;
  QUIRE_RETURN_IF_ERROR(process.WaitUntil(
      [&] {
        std::ifstream file(port_file);
        std::string line;  // The file is complete once it ends with a newline.
        if (!std::getline(file, line) || file.eof()) return false;
        port = std::stoi(line);
        return true;
      },
      kStartTime));
  return "127.0.0.1:" + std::to_string(port);
}

StatusOr<std::unique_ptr<ServeProcess>> ServeProcess::Start(const std::string& directory,
                                                            const std::vector<std::string>& flags) {
  auto self = std::make_unique<ServeProcess>();
  const std::string port_file = directory + "/port";
  QUIRE_ASSIGN_OR_RETURN(const std::string server, cli::ProgramBeside("quired"));
  std::vector<std::string> command = {server,        "--data-dir",  directory, "--listen",
                                      "127.0.0.1:0", "--port-file", port_file};
  command.insert(command.end(), flags.begin(), flags.end());
  QUIRE_ASSIGN_OR_RETURN(self->process_,
                         Process::Start(std::move(command), directory + "/serve.log"));
  QUIRE_ASSIGN_OR_RETURN(self->address_, AwaitAddress(*self->process_, port_file));
  QUIRE_ASSIGN_OR_RETURN(self->control_, ConnectGrpc(self->address_));
  return self;
}

StatusOr<std::shared_ptr<Transport>> ServeProcess::ConnectRecalls(const std::string& transport,
                                                                  std::string* detail,
                                                                  const std::string& tenant) const {
  QUIRE_ASSIGN_OR_RETURN(DataConnection data, ConnectData(control_, {.transport = transport,
                                                                     .ucx_within_host = true,
                                                                     .tenant = tenant,
                                                                     .control_address = address_,
                                                                     .spin = kWorkerSpin}));
  *detail = data.report.detail;
  return std::move(data.transport);
}

StatusOr<std::unique_ptr<Client>> ServeProcess::Connect(const std::string& transport,
                                                        std::string* detail,
                                                        const std::string& tenant) const {
  QUIRE_ASSIGN_OR_RETURN(auto recalls, ConnectRecalls(transport, detail, tenant));
  return Client::Create(
      {.transport = control_, .data_transport = std::move(recalls), .tenant = tenant});
}

}  // namespace quire::bench
