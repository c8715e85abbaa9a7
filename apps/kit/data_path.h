// SPDX-License-Identifier: Apache-2.0
//
// --transport: how pages come from the server to a command that opens sessions.
#ifndef QUIRE_APPS_KIT_DATA_PATH_H_
#define QUIRE_APPS_KIT_DATA_PATH_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "kvserver/service/data_plane/listeners.h"
#include "quire/connect.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// Adds the flag; "auto" when it is not given, unless `*transport` says otherwise by then.
/// `loopback` also allows "loopback": no connection at all, for a server in this process.
void AddTransportFlag(CLI::App& command, std::string* transport, bool loopback = false);

/// Listeners of a server in this process, for a command with this --transport.
kvserver::ListenerOptions ListenersFor(const std::string& transport);

/// How pages come.
struct DataPath {
  std::shared_ptr<Transport> transport = nullptr;  ///< Null: over the control channel.
  std::string name = {};     ///< "shm", "ucx", "grpc"; "control": over that channel.
  std::string summary = {};  ///< For people: the name, and why not the others.
};

/// Opens a connection for recalls, as quire::ConnectData does.
using DataConnector = std::function<StatusOr<DataConnection>(
    const DataOptions& options, std::function<void(const DataReport&)> on_other_way)>;

/// Connects with the offers that come over `control`.
DataConnector ConnectorOver(std::shared_ptr<Transport> control);

/// Chooses as `options.transport` says; "ucx-direct" is ucx, also on the server's host, with
/// DataOptions::direct_landings. A transport that is named must work; without one ("auto") the
/// control channel is good enough where nothing else works. A connection that is made after a loss
/// chooses anew; when it takes another way, that is said on `notes`, which outlives the transport.
StatusOr<DataPath> ChooseDataPath(const DataConnector& connect, const DataOptions& options,
                                  std::ostream& notes);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DATA_PATH_H_
