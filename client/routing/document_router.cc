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

  /// Answers of the nodes that were asked for a document.
  struct Search {
    std::shared_ptr<const cluster::Placement> placement;
    std::optional<std::string> holder = {};  ///< Address of the nearest that has it.
    std::vector<uint32_t> silent = {};       ///< Members that did not answer, nearest first.
    Status why_silent = {};                  ///< Error of the first of them.
  };
  /// Asks the nodes in the order of the placement until one has the document.
  StatusOr<Search> Find(const DocumentName& name);
  /// Address of the owner, after a search that found no holder.
  StatusOr<std::string> Owner(const DocumentName& name, const Search& search) const;

 private:
  StatusOr<std::shared_ptr<const cluster::Placement>> CurrentPlacement() QUIRE_EXCLUDES(mutex_);
  StatusOr<std::shared_ptr<const cluster::Placement>> ReadPlacement() QUIRE_EXCLUDES(mutex_);
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
  std::shared_ptr<const cluster::Placement> placement_ QUIRE_GUARDED_BY(mutex_);
  TimePoint read_at_ QUIRE_GUARDED_BY(mutex_);
  bool placement_is_old_ QUIRE_GUARDED_BY(mutex_) = false;
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
      Annotate(node->Call(method, {.control = request.SerializeAsString()}, &answer,
                          {.tenant = options_.tenant, .timeout = options_.node_timeout}),
               "node at ", address));
  Reply reply;
  if (reply.ParseFromString(answer.control)) return reply;
  return Internal("node at ", address, ": its reply is no ", reply.GetTypeName());
}

std::vector<std::string> DocumentRouter::Impl::AddressesToAsk() {
  std::vector<std::string> addresses = options_.servers;
  MutexLock lock(mutex_);
  if (placement_ == nullptr) return addresses;
  for (const cluster::Member& member : placement_->view().members) {
    if (member.Serves()) addresses.push_back(member.address);
  }
  return addresses;
}

StatusOr<std::shared_ptr<const cluster::Placement>> DocumentRouter::Impl::ReadPlacement() {
  Status failure;
  for (const std::string& address : AddressesToAsk()) {
    const auto reply =
        Ask<v1::ClusterViewReply>(address, "quire.v1.Cluster/View", v1::ClusterViewRequest());
    auto view = reply.ok() ? cluster::FromProto(reply->view()) : reply.status();
    if (!view.ok()) {
      failure.Update(view.status());
      continue;
    }
    auto placement = std::make_shared<const cluster::Placement>(
        std::make_shared<const cluster::ClusterView>(*std::move(view)));
    MutexLock lock(mutex_);
    // A node that is cut off may have an older view than the router.
    const bool is_newer =
        placement_ == nullptr || placement->view().epoch >= placement_->view().epoch;
    if (is_newer) placement_ = std::move(placement);
    read_at_ = options_.clock->Now();
    placement_is_old_ = false;
    return placement_;
  }
  return Annotate(failure, "no server tells the members of the cluster");
}

StatusOr<std::shared_ptr<const cluster::Placement>> DocumentRouter::Impl::CurrentPlacement() {
  {
    MutexLock lock(mutex_);
    if (placement_ != nullptr && !placement_is_old_ &&
        options_.clock->Now() - read_at_ < options_.view_age) {
      return placement_;
    }
  }
  return ReadPlacement();
}

StatusOr<DocumentRouter::Impl::Search> DocumentRouter::Impl::Find(const DocumentName& name) {
  Search search;
  QUIRE_ASSIGN_OR_RETURN(search.placement, CurrentPlacement());
  v1::GetDocumentRequest request;
  wire::DocumentNameToProto(name, request.mutable_name());
  for (const uint32_t member : search.placement->ReadOrder(KeyOf(name))) {
    const std::string& address = search.placement->view().members[member].address;
    const Status status =
        Ask<v1::GetDocumentReply>(address, "quire.v1.Registry/Get", request).status();
    if (status.ok()) {
      search.holder = address;
      break;
    }
    if (IsNotFound(status)) continue;
    if (!IsUnavailable(status) && !IsDeadlineExceeded(status)) return status;
    search.why_silent.Update(status);
    search.silent.push_back(member);
  }
  // The view is older than the silence of its members.
  MutexLock lock(mutex_);
  if (!search.silent.empty()) placement_is_old_ = true;
  return search;
}

StatusOr<std::string> DocumentRouter::Impl::Owner(const DocumentName& name,
                                                  const Search& search) const {
  const cluster::Owners owners = search.placement->OwnersOf(KeyOf(name), 1);
  const cluster::ClusterView& view = search.placement->view();
  if (owners.members.empty()) {
    return Unavailable("no node of cluster ", view.name, " takes documents: start or undrain one");
  }
  const uint32_t owner = owners.members[0];
  if (std::ranges::find(search.silent, owner) != search.silent.end()) {
    return Unavailable("node ", view.members[owner].name, ", which ", name.name,
                       " belongs to, does not answer: ", Message(search.why_silent));
  }
  return view.members[owner].address;
}

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
  if (search.holder) return *search.holder;
  if (search.silent.empty()) return NotFound("no node of the cluster has document ", name.name);
  return Unavailable("document ", name.name,
                     " may lie on a node that does not answer: ", Message(search.why_silent));
}

StatusOr<std::string> DocumentRouter::FindPlace(const DocumentName& name) {
  DocumentName latest = name;
  latest.version = 0;
  QUIRE_ASSIGN_OR_RETURN(const Impl::Search search, impl_->Find(latest));
  if (search.holder) return *search.holder;
  return impl_->Owner(name, search);
}

}  // namespace quire
