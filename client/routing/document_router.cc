// SPDX-License-Identifier: Apache-2.0
#include "quire/document_router.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cluster/placement/placement.h"
#include "cluster/view/view_proto.h"
#include "common/base/threads/mutex.h"
#include "common/wire/convert_context.h"
#include "quire/v1/cluster.pb.h"
#include "quire/v1/registry.pb.h"
#include "transport/transport.h"

namespace quire {

class DocumentRouter::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  /// Members of the cluster, as a server told them.
  struct Members {
    std::shared_ptr<const cluster::Placement> placement;
    std::string frozen = {};  ///< Why the view may be old; empty when it is current.
    uint64_t epoch() const { return placement->view().epoch; }
  };
  /// Answers of the members that may have a document. Members that are away count as silent.
  struct Search {
    Members members;
    std::vector<uint32_t> order = {};   ///< Members, nearest first.
    std::optional<size_t> holder = {};  ///< Place in `order` of the nearest that has it.
    std::optional<size_t> silent = {};  ///< Place of the nearest silent one before the holder.
    Status why_silent = {};             ///< Error of that one.
    const cluster::Member& At(size_t place) const {
      return members.placement->view().members[order[place]];
    }
    /// Place of the owner of a new document. Nullopt when no member takes any.
    std::optional<size_t> Owner() const {
      for (size_t place = 0; place < order.size(); ++place) {
        if (At(place).TakesNewRuns()) return place;
      }
      return std::nullopt;
    }
  };
  /// Asks the members in the order of the placement until one has the document.
  StatusOr<Search> Find(const DocumentName& name);

 private:
  StatusOr<Members> CurrentMembers() QUIRE_EXCLUDES(mutex_);
  StatusOr<Members> ReadMembers() QUIRE_EXCLUDES(mutex_);
  /// Asks one server. FAILED_PRECONDITION when it is of another cluster than `known`.
  StatusOr<Members> MembersFrom(const std::string& address, const std::optional<Members>& known);
  std::optional<Members> Known() QUIRE_EXCLUDES(mutex_);
  std::vector<std::string> AddressesToAsk() QUIRE_EXCLUDES(mutex_);
  StatusOr<std::shared_ptr<Transport>> NodeAt(const std::string& address) QUIRE_EXCLUDES(mutex_);
  template <typename Reply>
  StatusOr<Reply> Ask(const std::string& address, std::string_view method,
                      const google::protobuf::Message& request);
  cluster::PlacementKey KeyOf(const DocumentName& name) const {
    return cluster::KeyOfDocument(options_.tenant, name.collection, name.name);
  }

  const Options options_;
  Mutex mutex_;
  std::optional<Members> known_ QUIRE_GUARDED_BY(mutex_);
  TimePoint read_at_ QUIRE_GUARDED_BY(mutex_);
  bool known_is_old_ QUIRE_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Transport>> nodes_ QUIRE_GUARDED_BY(mutex_);
};

StatusOr<std::shared_ptr<Transport>> DocumentRouter::Impl::NodeAt(const std::string& address) {
  MutexLock lock(mutex_);
  std::shared_ptr<Transport>& node = nodes_[address];
  if (node != nullptr) return node;
  auto made =
      options_.connect ? options_.connect(address) : ConnectGrpc(address, options_.connect_options);
  if (made.ok()) node = *made;
  return made;
}

template <typename Reply>
StatusOr<Reply> DocumentRouter::Impl::Ask(const std::string& address, std::string_view method,
                                          const google::protobuf::Message& request) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<Transport> node, NodeAt(address));
  CallMessage answer;
  QUIRE_RETURN_IF_ERROR(
      Annotate(node->Call(method, {.control = request.SerializeAsString(), .payload = {}}, &answer,
                          {.tenant = options_.tenant, .timeout = options_.node_timeout}),
               "node at ", address));
  Reply reply;
  if (reply.ParseFromString(answer.control)) return reply;
  return Internal("node at ", address, ": its reply is no ", reply.GetTypeName());
}

std::vector<std::string> DocumentRouter::Impl::AddressesToAsk() {
  std::vector<std::string> addresses = options_.servers;
  MutexLock lock(mutex_);
  if (!known_) return addresses;
  for (const cluster::Member& member : known_->placement->view().members) {
    if (member.Serves()) addresses.push_back(member.address);
  }
  return addresses;
}

std::optional<DocumentRouter::Impl::Members> DocumentRouter::Impl::Known() {
  MutexLock lock(mutex_);
  return known_;
}

StatusOr<DocumentRouter::Impl::Members> DocumentRouter::Impl::MembersFrom(
    const std::string& address, const std::optional<Members>& known) {
  QUIRE_ASSIGN_OR_RETURN(
      const auto reply,
      Ask<v1::ClusterViewReply>(address, "quire.v1.Cluster/View", v1::ClusterViewRequest()));
  QUIRE_ASSIGN_OR_RETURN(cluster::ClusterView view, cluster::FromProto(reply.view()));
  if (view.id.empty() && !reply.frozen().empty()) {
    return Unavailable("node at ", address, " knows no members yet: ", reply.frozen());
  }
  if (known && known->placement->view().id != view.id) {
    return FailedPrecondition("node at ", address, " is of another cluster named ", view.name, " (",
                              view.id, " instead of ", known->placement->view().id,
                              "): make a new DocumentRouter to use that one");
  }
  return Members{.placement = std::make_shared<const cluster::Placement>(
                     std::make_shared<const cluster::ClusterView>(std::move(view))),
                 .frozen = reply.frozen()};
}

StatusOr<DocumentRouter::Impl::Members> DocumentRouter::Impl::ReadMembers() {
  const std::optional<Members> known = Known();
  Status failure;
  std::optional<Members> best;
  const auto is_settled = [&] {
    return best && best->frozen.empty() && (!known || best->epoch() >= known->epoch());
  };
  for (const std::string& address : AddressesToAsk()) {
    auto told = MembersFrom(address, known);
    if (!told.ok()) {
      if (failure.ok() || IsFailedPrecondition(told.status())) failure = told.status();
      continue;
    }
    const bool is_better = !best || std::pair(told->frozen.empty(), told->epoch()) >
                                        std::pair(best->frozen.empty(), best->epoch());
    if (is_better) best = *std::move(told);
    if (is_settled()) break;
  }
  if (!best) return Annotate(failure, "no server tells the members of the cluster");
  // A frozen view may be older than what is known. Where all current ones are, etcd was set back.
  if (known && !best->frozen.empty() && best->epoch() < known->epoch()) {
    best->placement = known->placement;
  }
  MutexLock lock(mutex_);
  known_ = best;
  read_at_ = options_.clock->Now();
  known_is_old_ = false;
  return *best;
}

StatusOr<DocumentRouter::Impl::Members> DocumentRouter::Impl::CurrentMembers() {
  {
    MutexLock lock(mutex_);
    if (known_ && !known_is_old_ && options_.clock->Now() - read_at_ < options_.view_age) {
      return *known_;
    }
  }
  return ReadMembers();
}

StatusOr<DocumentRouter::Impl::Search> DocumentRouter::Impl::Find(const DocumentName& name) {
  Search search;
  QUIRE_ASSIGN_OR_RETURN(search.members, CurrentMembers());
  search.order = search.members.placement->MayHold(KeyOf(name));
  v1::GetDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  bool unanswered = false;
  for (size_t place = 0; place < search.order.size() && !search.holder; ++place) {
    const cluster::Member& member = search.At(place);
    Status status = Unavailable("node ", member.name, " is ", Name(member.state));
    if (member.Serves()) {
      status = Ask<v1::GetDocumentReply>(member.address, "quire.v1.Registry/Get", request).status();
      if (status.ok()) search.holder = place;
      if (status.ok() || IsNotFound(status)) continue;
      if (!IsUnavailable(status) && !IsDeadlineExceeded(status)) return status;
      unanswered = true;
    }
    if (!search.silent) search.silent = place;
    search.why_silent.Update(status);
  }
  // The view is older than the silence of its members.
  MutexLock lock(mutex_);
  if (unanswered) known_is_old_ = true;
  return search;
}

namespace {

Status MayLieElsewhere(const DocumentName& name, const Status& why) {
  return Unavailable("document ", name.name,
                     " may lie on a node that does not answer: ", Message(why));
}

}  // namespace

StatusOr<std::unique_ptr<DocumentRouter>> DocumentRouter::Create(Options options) {
  if (options.servers.empty()) {
    return InvalidArgument("DocumentRouter::Options::servers is empty; name a node of the cluster");
  }
  if (options.clock == nullptr) options.clock = &SystemClock();
  return std::unique_ptr<DocumentRouter>(
      new DocumentRouter(std::make_unique<Impl>(std::move(options))));
}

DocumentRouter::DocumentRouter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DocumentRouter::~DocumentRouter() = default;

StatusOr<std::string> DocumentRouter::FindHolder(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const Impl::Search search, impl_->Find(name));
  if (search.silent) return MayLieElsewhere(name, search.why_silent);
  if (search.holder) return search.At(*search.holder).address;
  if (search.members.frozen.empty()) {
    return NotFound("no node of the cluster has document ", name.name);
  }
  return Unavailable("document ", name.name,
                     " may lie on a node that joined meanwhile: ", search.members.frozen);
}

StatusOr<std::string> DocumentRouter::FindPlace(const DocumentName& name) {
  DocumentName latest = name;
  latest.version = 0;
  QUIRE_ASSIGN_OR_RETURN(const Impl::Search search, impl_->Find(latest));
  const std::optional<size_t> place = search.holder ? search.holder : search.Owner();
  if (!place) {
    return Unavailable("no node of cluster ", search.members.placement->view().name,
                       " takes documents: start or undrain one");
  }
  if (search.silent && *search.silent <= *place) return MayLieElsewhere(name, search.why_silent);
  return search.At(*place).address;
}

}  // namespace quire
