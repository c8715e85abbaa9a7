// SPDX-License-Identifier: Apache-2.0
#include "quire/cluster_client.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/caller.h"
#include "client/retry.h"
#include "client/routing/document_places.h"
#include "client/spanning/session_nodes.h"
#include "client/spanning/spanning_session.h"
#include "common/base/observe/counters.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "transport/transport.h"

namespace quire {

using namespace internal;

namespace {

/// Other nodes that one call goes to after the first.
constexpr int kMostOtherNodes = 3;

/// Transport of calls that no node was chosen for.
class NoNode final : public Transport {
 public:
  TransportCapabilities capabilities() const override {
    return {.name = "none", .max_message_bytes = kDefaultMaxMessageBytes};
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage,
                                               const CallOptions&) override {
    return Refusal(method);
  }
  Status Call(std::string_view method, const CallMessage&, CallMessage*,
              const CallOptions&) override {
    return Refusal(method);
  }

 private:
  static Status Refusal(std::string_view method) {
    return Unimplemented(method,
                         " is a call to one node, and this client is of a whole cluster: take the "
                         "client of a node (Client::ForDocument, ForPut)");
  }
};

/// The cure of a call that failed.
enum class OnFailure : uint8_t {
  kRepeat,   ///< A read: ask other nodes, and wait for the node where there is no other.
  kMove,     ///< It opens something: ask other nodes.
  kMoveOnly  ///< Ask another node only when the first one has surely not done it.
};

/// True for an error that another node with the document may not have.
bool MayBeElsewhere(const Status& status, OnFailure on_failure) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return on_failure != OnFailure::kMoveOnly;
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kDataLoss:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

template <typename Call>
using ResultOf = std::invoke_result_t<const Call&, Client&, const std::string&>;

const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& result) {
  return result.status();
}

}  // namespace

class ClusterClient::Impl final : public SessionNodes {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        places_(options_.router, options_.clock),
        reach_(options_.health) {}

  const Options& options() const { return options_; }
  DocumentPlaces& places() { return places_; }

  StatusOr<Node> NodeOf(const ContextRef& context) override {
    return NodeUntil(context, NewDeadline());
  }
  void NoteEnd(const std::string& address, const Status& status) override {
    Count(status);
    places_.NoteEnd(address, status);
  }
  void NoteEndOf(const ContextRef& context, const std::string& address,
                 const Status& status) override {
    Count(status);
    places_.NoteEndOf(context, address, status);
  }
  StatusOr<Client*> ClientOf(const std::string& address) QUIRE_EXCLUDES(mutex_);
  std::vector<Client*> Connected() QUIRE_EXCLUDES(mutex_);
  Counters counters() const {
    return {.node_changes = node_changes_.Get(), .calls_failed = calls_failed_.Get()};
  }
  /// Any node that can be connected to, each time another one.
  StatusOr<Node> AnyNode();

  TimePoint NewDeadline() const {
    return std::min(options_.clock->Now() + options_.deadline, options_.limit);
  }
  /// The result of `call(client, address)` at a node that has `context`.
  template <typename Call>
  auto Route(const ContextRef& context, OnFailure on_failure, const Call& call) {
    return RouteUntil(context, on_failure, NewDeadline(), call);
  }
  template <typename Call>
  auto RouteUntil(const ContextRef& context, OnFailure on_failure, TimePoint deadline,
                  const Call& call) -> ResultOf<Call> {
    const auto ask = [&] { return AskNodes(context, on_failure, deadline, call); };
    return on_failure == OnFailure::kRepeat ? UntilReached(deadline, ask) : ask();
  }
  /// The result of `attempt()`, which is made again while no node answers.
  template <typename Attempt>
  auto UntilReached(TimePoint deadline, const Attempt& attempt) -> decltype(attempt()) {
    SeededRandom random(SystemRandom().Next());
    Attempts attempts(options_.retry, random, reach_, deadline);
    for (;;) {
      auto result = attempt();
      const Status& status = StatusOf(result);
      const TimePoint now = options_.clock->Now();
      reach_.Note(status, now);
      if (!IsUnavailable(status)) return result;
      const auto next = attempts.Next(status, now);
      if (!next.ok()) return next.status();
      options_.clock->Sleep(*next - options_.clock->Now());
    }
  }
  /// The result of `call(client)` at the node of an open context.
  template <typename Call>
  auto AtContext(uint64_t id, const Call& call) {
    return AskNodes(ContextRef(id), OnFailure::kMoveOnly, NewDeadline(),
                    [&](Client& client, const std::string&) { return call(client); });
  }

 private:
  void Count(const Status& status) {
    if (IsUnavailable(status) || IsDeadlineExceeded(status)) calls_failed_.Add();
  }
  struct Connection {
    Mutex mutex;
    std::unique_ptr<Client> client QUIRE_GUARDED_BY(mutex);
  };

  /// Asks the nodes that have `context` one after the other, each once.
  template <typename Call>
  auto AskNodes(const ContextRef& context, OnFailure on_failure, TimePoint deadline,
                const Call& call) -> ResultOf<Call> {
    std::vector<std::string> asked;
    std::optional<ResultOf<Call>> last;
    while (asked.size() <= kMostOtherNodes) {
      const StatusOr<Node> node = NodeUntil(context, deadline);
      if (!node.ok() && !last) return node.status();
      if (!node.ok() || std::ranges::find(asked, node->address) != asked.end()) break;
      if (last) node_changes_.Add();
      last.emplace(call(*node->client, node->address));
      NoteEndOf(context, node->address, StatusOf(*last));
      if (StatusOf(*last).ok() || !MayBeElsewhere(StatusOf(*last), on_failure)) break;
      asked.push_back(node->address);
    }
    return *std::move(last);
  }
  /// A node of `context` that can be connected to.
  StatusOr<Node> NodeUntil(const ContextRef& context, TimePoint deadline);

  const Options options_;
  DocumentPlaces places_;
  Reachability reach_;
  std::atomic<uint32_t> next_node_{0};  ///< The next node of AnyNode.
  Counter node_changes_, calls_failed_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Connection>> connections_ QUIRE_GUARDED_BY(mutex_);
};

StatusOr<Client*> ClusterClient::Impl::ClientOf(const std::string& address) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<Connection>& known = connections_[address];
    if (known == nullptr) known = std::make_shared<Connection>();
    connection = known;
  }
  MutexLock lock(connection->mutex);
  if (connection->client != nullptr) return connection->client.get();
  QUIRE_ASSIGN_OR_RETURN(auto control, options_.router->ConnectTo(address));
  auto made = options_.connect(address, std::move(control));
  if (!made.ok()) return Annotate(made.status(), "node at ", address);
  connection->client = *std::move(made);
  return connection->client.get();
}

std::vector<Client*> ClusterClient::Impl::Connected() {
  std::vector<std::shared_ptr<Connection>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [address, connection] : connections_) all.push_back(connection);
  }
  std::vector<Client*> clients;
  for (const auto& connection : all) {
    MutexLock lock(connection->mutex);
    if (connection->client != nullptr) clients.push_back(connection->client.get());
  }
  return clients;
}

StatusOr<SessionNodes::Node> ClusterClient::Impl::NodeUntil(const ContextRef& context,
                                                            TimePoint deadline) {
  Status failure;
  for (int tries = 0; tries <= kMostOtherNodes; ++tries) {
    auto address = places_.Find(context, deadline - options_.clock->Now());
    if (!address.ok()) return failure.ok() ? address.status() : failure;
    const auto client = ClientOf(*address);
    if (client.ok()) return Node{*std::move(address), *client};
    NoteEnd(*address, client.status());
    failure = client.status();
  }
  return failure;
}

StatusOr<SessionNodes::Node> ClusterClient::Impl::AnyNode() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, options_.router->ServingNodes());
  Status failure = Unavailable("no node of the cluster is up; start one");
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string& address = nodes[next_node_++ % nodes.size()];
    const auto client = ClientOf(address);
    if (client.ok()) return Node{address, *client};
    failure = client.status();
  }
  return failure;
}

StatusOr<std::unique_ptr<Client>> ClusterClient::Create(Options options) {
  if (options.router == nullptr || !options.connect) {
    return InvalidArgument(
        "ClusterClient::Options needs a router (DocumentRouter::Create) and a function that "
        "connects to a node");
  }
  if (options.clock == nullptr) options.clock = &SystemClock();
  const auto nowhere = std::make_shared<NoNode>();
  auto no_node = std::make_unique<Caller>(
      Client::Options{.transport = nowhere, .data_transport = nowhere, .clock = options.clock});
  return std::unique_ptr<Client>(
      new ClusterClient(std::move(no_node), std::make_unique<Impl>(std::move(options))));
}

ClusterClient::ClusterClient(std::unique_ptr<internal::Caller> no_node, std::unique_ptr<Impl> impl)
    : Client(std::move(no_node)), impl_(std::move(impl)) {}
ClusterClient::~ClusterClient() = default;

ClusterClient::Counters ClusterClient::counters() const { return impl_->counters(); }

StatusOr<OpenedContext> ClusterClient::OpenContext(const KvSpec& spec,
                                                   const std::optional<ContextRef>& continues,
                                                   const ContextOptions& options) {
  const auto open = [&](Client& client, const std::string& address) {
    auto opened = client.OpenContext(spec, continues, options);
    if (opened.ok()) impl_->places().NoteContext(opened->id, address);
    return opened;
  };
  if (continues) return impl_->Route(*continues, OnFailure::kMove, open);
  QUIRE_ASSIGN_OR_RETURN(const SessionNodes::Node node, impl_->AnyNode());
  return open(*node.client, node.address);
}

StatusOr<uint64_t> ClusterClient::AppendPages(uint64_t context_id, uint32_t first_page,
                                              std::span<const TokenId> tokens,
                                              const Payload& payload) {
  return impl_->AtContext(context_id, [&](Client& client) {
    return client.AppendPages(context_id, first_page, tokens, payload);
  });
}

StatusOr<uint64_t> ClusterClient::AppendLayers(uint64_t context_id, uint32_t first_page,
                                               std::span<const TokenId> tokens,
                                               std::span<const uint32_t> layers,
                                               const Payload& payload) {
  return impl_->AtContext(context_id, [&](Client& client) {
    return client.AppendLayers(context_id, first_page, tokens, layers, payload);
  });
}

StatusOr<SealedContext> ClusterClient::Seal(uint64_t context_id,
                                            std::span<const TokenId> tail_tokens,
                                            const Payload& tail_payload, PutDurability durability) {
  auto sealed = impl_->AtContext(context_id, [&](Client& client) {
    return client.Seal(context_id, tail_tokens, tail_payload, durability);
  });
  if (sealed.ok()) impl_->places().ForgetContext(context_id);
  return sealed;
}

Status ClusterClient::DropContext(uint64_t context_id) {
  const Status dropped =
      impl_->AtContext(context_id, [&](Client& client) { return client.DropContext(context_id); });
  impl_->places().ForgetContext(context_id);
  return dropped;
}

StatusOr<Payload> ClusterClient::Fetch(const ContextRef& context,
                                       std::span<const UnitRange> ranges) {
  return impl_->Route(context, OnFailure::kRepeat, [&](Client& client, const std::string&) {
    return client.Fetch(context, ranges);
  });
}

StatusOr<FetchedUnits> ClusterClient::FetchUnits(const ContextRef& context,
                                                 std::span<const UnitRange> ranges,
                                                 const KvSpec& spec, const CodecSet& codecs) {
  return impl_->Route(context, OnFailure::kRepeat, [&](Client& client, const std::string&) {
    return client.FetchUnits(context, ranges, spec, codecs);
  });
}

StatusOr<ContextStat> ClusterClient::Stat(const ContextRef& context) {
  return impl_->Route(context, OnFailure::kRepeat,
                      [&](Client& client, const std::string&) { return client.Stat(context); });
}

StatusOr<std::vector<TokenId>> ClusterClient::ReadTokens(const ContextRef& context) {
  return impl_->Route(context, OnFailure::kRepeat, [&](Client& client, const std::string&) {
    return client.ReadTokens(context);
  });
}

StatusOr<Document> ClusterClient::GetDocument(const DocumentName& name, TimePoint limit) {
  const TimePoint deadline = std::min(impl_->NewDeadline(), limit);
  return impl_->RouteUntil(ContextRef(name), OnFailure::kRepeat, deadline,
                           [&](Client& client, const std::string& address) {
                             auto document = client.GetDocument(name, limit);
                             if (document.ok() && document->chain_tip != kRootKey) {
                               impl_->places().NoteFound(address, document->name,
                                                         document->chain_tip);
                             }
                             return document;
                           });
}

StatusOr<RemovedDocuments> ClusterClient::InvalidateDocument(const DocumentName& name) {
  return impl_->Route(
      ContextRef(name), OnFailure::kMoveOnly,
      [&](Client& client, const std::string&) { return client.InvalidateDocument(name); });
}

StatusOr<Document> ClusterClient::UpdateDocument(const DocumentName& name,
                                                 const DocumentChange& change) {
  return impl_->Route(
      ContextRef(name), OnFailure::kMoveOnly,
      [&](Client& client, const std::string&) { return client.UpdateDocument(name, change); });
}

StatusOr<Extra> ClusterClient::PutExtra(const DocumentName& document, std::string_view name,
                                        uint32_t version, const Payload& payload,
                                        std::span<const SegmentKey> segments) {
  return impl_->Route(ContextRef(document), OnFailure::kRepeat,
                      [&](Client& client, const std::string&) {
                        return client.PutExtra(document, name, version, payload, segments);
                      });
}

StatusOr<ExtraBytes> ClusterClient::GetExtra(const DocumentName& document, std::string_view name) {
  return impl_->Route(
      ContextRef(document), OnFailure::kRepeat,
      [&](Client& client, const std::string&) { return client.GetExtra(document, name); });
}

StatusOr<std::vector<Extra>> ClusterClient::ListExtras(const DocumentName& document) {
  return impl_->Route(
      ContextRef(document), OnFailure::kRepeat,
      [&](Client& client, const std::string&) { return client.ListExtras(document); });
}

StatusOr<PageUses> ClusterClient::GetPageUses(const DocumentName& document) {
  return impl_->Route(
      ContextRef(document), OnFailure::kRepeat,
      [&](Client& client, const std::string&) { return client.GetPageUses(document); });
}

StatusOr<std::unique_ptr<ClientSession>> ClusterClient::OpenSession(
    std::span<const SequenceSpec> sequences, const SessionOptions& options) {
  return SpanningSession::Open(impl_.get(), impl_->options().clock, sequences, options);
}

StatusOr<Client*> ClusterClient::ForPut(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string address, impl_->options().router->FindPlace(name));
  return impl_->ClientOf(address);
}

StatusOr<Client*> ClusterClient::ForDocument(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const SessionNodes::Node node, impl_->NodeOf(ContextRef(name)));
  return node.client;
}

void ClusterClient::NoteChain(const SegmentKey& chain_tip, const DocumentName& document) {
  impl_->places().NoteChain(chain_tip, document);
}

StatusOr<ServerStats> ClusterClient::Stats() {
  return impl_->UntilReached(impl_->NewDeadline(), [&]() -> StatusOr<ServerStats> {
    QUIRE_ASSIGN_OR_RETURN(const SessionNodes::Node node, impl_->AnyNode());
    return node.client->Stats();
  });
}

StatusOr<std::vector<SlowCall>> ClusterClient::SlowCalls(uint32_t limit) {
  return impl_->UntilReached(impl_->NewDeadline(), [&]() -> StatusOr<std::vector<SlowCall>> {
    QUIRE_ASSIGN_OR_RETURN(const SessionNodes::Node node, impl_->AnyNode());
    return node.client->SlowCalls(limit);
  });
}

std::string_view ClusterClient::data_transport_name() const {
  std::string_view name = "none";
  for (const Client* const client : impl_->Connected()) {
    const std::string_view other = client->data_transport_name();
    if (name != "none" && name != other) return "mixed";
    name = other;
  }
  return name;
}

}  // namespace quire
