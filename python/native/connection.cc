// SPDX-License-Identifier: Apache-2.0
#include "python/native/connection.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/objects.h"
#include "quire/connect.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// As of the command line.
constexpr double kPatienceSeconds = 5;

BearerToken TokenOf(const std::string& text) {
  return text.empty() ? BearerToken() : Take(BearerToken::Make(text));
}

nb::dict StatsOf(const ServerStats& stats) {
  nb::dict counters;
  for (const auto& [name, value] : stats.counters) counters[name.c_str()] = value;
  nb::list degradations;
  for (const Degradation& trouble : stats.degradations) {
    nb::dict entry;
    entry["reason"] = trouble.reason;
    entry["detail"] = trouble.detail;
    entry["since_unix_micros"] = trouble.since_unix_micros;
    degradations.append(entry);
  }
  nb::dict all;
  all["version"] = stats.version;
  all["uptime_seconds"] = stats.uptime_seconds;
  all["counters"] = counters;
  all["degradations"] = degradations;
  return all;
}

}  // namespace

Connection::Connection(const Options& options) {
  WithoutGil([&] { Connect(options); });
}

void Connection::Connect(const Options& options) {
  if (options.address.find(',') != std::string::npos) {
    throw StatusError(InvalidArgument("'", options.address, "' names several servers; give one"));
  }
  const BearerToken token = TokenOf(options.token);
  const auto control = Take(ConnectGrpc(options.address, {.token = token}));
  std::shared_ptr<Transport> data;
  if (options.transport != "control") {
    const Duration step = std::min<Duration>(options.timeout, options.patience);
    auto connected = ConnectData(control, {.transport = options.transport,
                                           .tenant = options.tenant,
                                           .token = token,
                                           .control_address = options.address,
                                           .timeout = step});
    if (connected.ok()) {
      data = connected->transport;
      transport_ = connected->report.taken;
      summary_ = connected->report.Summary();
    } else if (options.transport != "auto") {
      throw StatusError(connected.status());
    } else {
      summary_ = "control (" + std::string(connected.status().message()) + ")";
    }
  }
  client_ = Take(Client::Create(
      {.transport = control,
       .data_transport = data,
       .tenant = options.tenant,
       .deadline = options.timeout,
       .retry = {.unreachable_for = std::min<Duration>(options.timeout, options.patience)}}));
  server_version_ = Take(client_->Stats()).version;
}

std::shared_ptr<Client> Connection::client() const {
  if (client_ == nullptr)
    throw StatusError(FailedPrecondition("the client is closed; make another"));
  return client_;
}

void Connection::Close() {
  WithoutGil([client = std::exchange(client_, nullptr)]() mutable { client.reset(); });
}

void BindConnection(nb::module_& module) {
  ConnectionClass connection(
      module, "Client",
      "A tenant's connection to a server. Every method blocks without the GIL, retries what is\n"
      "safe to retry, and raises a subclass of quire.Error. Threads may share it.");
  connection
      .def(
          "__init__",
          [](Connection* self, std::string address, std::string transport, std::string tenant,
             const std::optional<std::string>& token, double timeout, double patience) {
            new (self) Connection({.address = std::move(address),
                                   .transport = std::move(transport),
                                   .tenant = std::move(tenant),
                                   .token = token.value_or(""),
                                   .timeout = SecondsOf(timeout, {}),
                                   .patience = SecondsOf(patience, {})});
          },
          nb::arg("address"), nb::arg("transport") = "auto", nb::kw_only(),
          nb::arg("tenant") = "default", nb::arg("token") = nb::none(), nb::arg("timeout") = 60.0,
          nb::arg("patience") = kPatienceSeconds,
          "Connects to \"host:port\" or \"unix:/path\". `transport` of recalls and objects is "
          "\"auto\" (the\n"
          "first that works), \"shm\", \"ucx\", \"grpc\" or \"control\". `token` proves the tenant "
          "to a\n"
          "server that asks for it. `timeout` is the limit of one call in seconds, and `patience` "
          "the\ntime for which a server that cannot be reached is tried again.")
      .def("close", &Connection::Close, "Closes; contexts and sessions stay usable.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> typing.Self"))
      .def(
          "__exit__", [](Connection& self, const nb::args&) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def_prop_ro("transport", &Connection::transport,
                   "How recalls come: \"shm\", \"ucx\", \"grpc\" or \"control\".")
      .def_prop_ro("transport_summary", &Connection::transport_summary,
                   "The transport, and why no faster one.")
      .def_prop_ro("server_version", &Connection::server_version, "Version of the server.")
      .def(
          "stats",
          [](const Connection& self) {
            const auto client = self.client();
            return StatsOf(WithoutGil([&] { return Take(client->Stats()); }));
          },
          nb::sig("def stats(self) -> dict[str, typing.Any]"),
          "Version, uptime_seconds, counters by name, and degradations of the server.");
  AddStoreCalls(connection);
  AddConversationCalls(connection);
  AddSegmentEventCalls(connection);
  AddDocumentCalls(connection);
  AddSessionCalls(connection);
  AddObjectCalls(connection);
}

}  // namespace quire::python
