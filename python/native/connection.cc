// SPDX-License-Identifier: Apache-2.0
#include "python/native/connection.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/dial.h"
#include "python/native/errors.h"
#include "python/native/objects.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// As of the command line.
constexpr double kPatienceSeconds = 5;

BearerToken TokenOf(const std::string& text) {
  return text.empty() ? BearerToken() : Take(BearerToken::Make(text));
}

/// One address, or several of nodes: divided by commas, or a sequence.
void TakeAddresses(nb::handle given, DialOptions* options) {
  if (nb::isinstance<nb::str>(given)) {
    std::istringstream words(nb::cast<std::string>(given));
    for (std::string word; std::getline(words, word, ',');) options->servers.push_back(word);
    options->is_cluster = options->servers.size() > 1;
    return;
  }
  if (!nb::try_cast(given, options->servers)) {
    throw StatusError(InvalidArgument("address: give text, or a sequence of texts"));
  }
  options->is_cluster = true;
}

using FindNode = StatusOr<Client*> (Client::*)(const DocumentName&);

/// A client, of the class of `self`, of the node that `find` says.
nb::object NodeOf(nb::handle self, nb::handle document, FindNode find) {
  const auto& whole = nb::cast<const Connection&>(self);
  const DocumentName name = DocumentOf(document);
  const auto client = whole.client();
  Client* const found = WithoutGil([&] { return Take(((*client).*find)(name)); });
  nb::object node = nb::inst_alloc(self.type());
  new (nb::inst_ptr<Connection>(node)) Connection(whole, std::shared_ptr<Client>(client, found));
  nb::inst_mark_ready(node);
  return node;
}

void AddNodeCalls(ConnectionClass& connection) {
  connection
      .def(
          "nodes", &Connection::Nodes,
          "Addresses of the nodes of a cluster that answer for what they have; that of the server\n"
          "where it is the only one.")
      .def(
          "for_put",
          [](nb::handle self, nb::handle document) {
            return NodeOf(self, document, &Client::ForPut);
          },
          nb::arg("document"), nb::sig("def for_put(self, document: DocumentRef) -> typing.Self"),
          "A client of the node that a new version of the document is put to, for all calls of\n"
          "that put. The same server where there is one.")
      .def(
          "for_document",
          [](nb::handle self, nb::handle document) {
            return NodeOf(self, document, &Client::ForDocument);
          },
          nb::arg("document"),
          nb::sig("def for_document(self, document: DocumentRef) -> typing.Self"),
          "A client of a node that has the document, for calls that one node answers. The same\n"
          "server where there is one.")
      .def(
          "note_chain",
          [](const Connection& self, nb::handle chain_tip, nb::handle document) {
            const SegmentKey tip = KeyOf(chain_tip);
            const DocumentName name = DocumentOf(document);
            self.client()->NoteChain(tip, name);
          },
          nb::arg("chain_tip"), nb::arg("document"),
          nb::sig("def note_chain(self, chain_tip: bytes, document: DocumentRef) -> None"),
          "Says that a chain was made from a document, and lies where that does.");
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

double SecondsIn(Duration time) { return std::chrono::duration<double>(time).count(); }

nb::dict SlowCallOf(const SlowCall& call) {
  nb::dict entry;
  entry["method"] = call.method;
  entry["code"] = Name(call.code);
  entry["ended_unix_micros"] = call.ended_unix_micros;
  entry["seconds"] = SecondsIn(call.time);
  for (const auto& [stage, time] : {std::pair("queue", call.queue),
                                    {"gate", call.gate},
                                    {"dram", call.dram},
                                    {"ssd", call.ssd},
                                    {"selection", call.selection},
                                    {"network", call.network}}) {
    entry[(std::string(stage) + "_seconds").c_str()] = SecondsIn(time);
  }
  entry["request_bytes"] = call.request_bytes;
  entry["reply_bytes"] = call.reply_bytes;
  return entry;
}

}  // namespace

Connection::Connection(const DialOptions& options) : servers_(options.servers) {
  WithoutGil([&] {
    dialled_ = Take(Dial(options));
    server_version_ = Take(dialled_.client->Stats()).version;
  });
}

Connection::Connection(const Connection& whole, std::shared_ptr<Client> node)
    : dialled_(whole.dialled_), servers_(whole.servers_), server_version_(whole.server_version_) {
  dialled_.client = std::move(node);
}

std::shared_ptr<Client> Connection::client() const {
  if (dialled_.client == nullptr)
    throw StatusError(FailedPrecondition("the client is closed; make another"));
  return dialled_.client;
}

void Connection::Close() {
  WithoutGil([client = std::exchange(dialled_.client, nullptr)]() mutable { client.reset(); });
}

std::vector<std::string> Connection::Nodes() const {
  if (dialled_.router == nullptr) return servers_;
  return WithoutGil([router = dialled_.router] { return Take(router->ServingNodes()); });
}

std::string Connection::transport() const {
  if (!dialled_.transport.empty()) return dialled_.transport;
  return std::string(client()->data_transport_name());
}

void BindConnection(nb::module_& module) {
  ConnectionClass connection(
      module, "Client",
      "A tenant's connection to a server or a cluster. Every method blocks without the GIL, "
      "retries what is\n"
      "safe to retry, and raises a subclass of quire.Error. Threads may share it.");
  connection
      .def(
          "__init__",
          [](Connection* self, nb::handle address, std::string transport, std::string tenant,
             const std::optional<std::string>& token, double timeout, double patience) {
            DialOptions options{.servers = {},
                                .transport = std::move(transport),
                                .tenant = std::move(tenant),
                                .token = TokenOf(token.value_or("")),
                                .timeout = SecondsOf(timeout, {}),
                                .patience = SecondsOf(patience, {})};
            TakeAddresses(address, &options);
            new (self) Connection(options);
          },
          nb::arg("address"), nb::arg("transport") = "auto", nb::kw_only(),
          nb::arg("tenant") = "default", nb::arg("token") = nb::none(), nb::arg("timeout") = 60.0,
          nb::arg("patience") = kPatienceSeconds,
          nb::sig("def __init__(self, address: str | collections.abc.Sequence[str], transport: str "
                  "= 'auto', *, tenant: str = 'default', token: str | None = None, timeout: float "
                  "= 60.0, patience: float = 5.0) -> None"),
          "Connects to \"host:port\" or \"unix:/path\", or to a cluster: a sequence of addresses "
          "of\nsome nodes, or these divided by commas. `transport` of recalls and objects is "
          "\"auto\" (the\n"
          "first that works), \"shm\", \"ucx\", \"ucx-direct\", \"grpc\" or \"control\". `token` "
          "proves the tenant "
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
      .def_prop_ro(
          "transport", &Connection::transport,
          "How recalls come: \"shm\", \"ucx\", \"grpc\" or \"control\". Of a cluster: \"mixed\"\n"
          "where nodes differ, and \"none\" before the first.")
      .def_prop_ro("transport_summary", &Connection::transport_summary,
                   "The transport, and why no faster one.")
      .def_prop_ro("server_version", &Connection::server_version,
                   "Version of the server; of one node of a cluster.")
      .def(
          "stats",
          [](const Connection& self) {
            const auto client = self.client();
            return StatsOf(WithoutGil([&] { return Take(client->Stats()); }));
          },
          nb::sig("def stats(self) -> dict[str, typing.Any]"),
          "Version, uptime_seconds, counters by name, and degradations of the server.")
      .def(
          "slow_calls",
          [](const Connection& self, uint32_t limit) {
            const auto client = self.client();
            const auto calls = WithoutGil([&] { return Take(client->SlowCalls(limit)); });
            nb::list entries;
            for (const SlowCall& call : calls) entries.append(SlowCallOf(call));
            return entries;
          },
          nb::arg("limit") = 100,
          nb::sig("def slow_calls(self, limit: int = 100) -> list[dict[str, typing.Any]]"),
          "The tenant's slowest calls of the last hour, slowest first: method, code, seconds, "
          "those\n"
          "of each stage, and bytes. `limit` is 1..1000.");
  AddNodeCalls(connection);
  AddStoreCalls(connection);
  AddConversationCalls(connection);
  AddSegmentEventCalls(connection);
  AddDocumentCalls(connection);
  AddSessionCalls(connection);
  AddObjectCalls(connection);
}

}  // namespace quire::python
