// SPDX-License-Identifier: Apache-2.0
#include "quire/document_router.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "client/routing/cluster_members.h"
#include "client/routing/nearest_answer.h"
#include "cluster/placement/placement_key.h"
#include "common/base/random.h"
#include "common/wire/convert_context.h"
#include "quire/v1/registry.pb.h"

namespace quire {
namespace {

using cluster::Member;

using internal::IsSilence;

/// Looks at all members before an absence is believed. A document that moves is for a moment where
/// it was not when the first of them was asked.
constexpr int kLooks = 2;

/// The answers of members about some documents. Pure.
class Answers {
 public:
  explicit Answers(std::span<const DocumentName> names) : names_(names), nearest_(names.size()) {}

  /// A member that is away, or did not answer.
  void AddSilent(const Status& why) { silence_.Update(why); }
  /// The answer of the node at `address` about document `index`.
  void Add(size_t index, const std::string& address, const Status& status) {
    if (status.ok() && nearest_[index].empty()) nearest_[index] = address;
    if (!status.ok() && !IsNotFound(status)) refusal_.Update(status);
  }
  /// A node that has all documents. `whole`: it lacks none of their segments.
  void AddHolder(const std::string& address, bool whole) {
    if (holder_.empty() || whole) holder_ = address;
  }

  /// `frozen`: why the view may be old; empty when it is current.
  StatusOr<std::string> Holder(const std::string& frozen) const {
    if (!holder_.empty()) return holder_;
    const size_t missing = std::ranges::find(nearest_, std::string()) - nearest_.begin();
    const std::string& name = names_[std::min(missing, names_.size() - 1)].name;
    if (!silence_.ok()) {
      return Unavailable("document ", name,
                         " may lie on a node that does not answer: ", Message(silence_));
    }
    QUIRE_RETURN_IF_ERROR(refusal_);
    if (missing == names_.size()) {
      return InvalidArgument("the documents lie on several nodes (", nearest_.front(), ", ",
                             nearest_.back(),
                             "): name those of one node at a time; `quire cluster where` tells");
    }
    if (frozen.empty()) return NotFound("no node of the cluster has document ", name);
    return Unavailable("document ", name, " may lie on a node that joined meanwhile: ", frozen);
  }

 private:
  const std::span<const DocumentName> names_;
  std::vector<std::string> nearest_;  ///< For each document its nearest node; empty without one.
  std::string holder_;
  Status silence_;
  Status refusal_;
};

/// Owners of a hot document, in an order by chance; none while it is not hot.
std::vector<uint32_t> ShuffledHotOwners(const cluster::Placement& placement,
                                        cluster::PlacementKey key) {
  if (!placement.IsHot(key)) return {};
  std::vector<uint32_t> owners = placement.OwnersOf(key, placement.CopiesOf(key)).members;
  for (size_t left = owners.size(); left > 1; --left) {
    std::swap(owners[left - 1], owners[SystemRandom().Below(left)]);
  }
  return owners;
}

/// Members in the order to ask: `first`, the owners of a hot document, the others by distance,
/// `last`.
std::vector<const Member*> OrderToAsk(const cluster::Placement& placement,
                                      cluster::PlacementKey key, const HolderSearch& search) {
  std::vector<uint32_t> members = ShuffledHotOwners(placement, key);
  for (const uint32_t member : placement.MayHold(key)) {
    if (std::ranges::find(members, member) == members.end()) members.push_back(member);
  }
  std::vector<const Member*> order;
  order.reserve(members.size());
  for (const uint32_t member : members) order.push_back(&placement.view().members[member]);
  const auto rank = [&](const Member* member) -> ptrdiff_t {
    const auto last = std::ranges::find(search.last, member->address);
    if (last != search.last.end()) return 2 + (last - search.last.begin());
    return member->address == search.first ? 0 : 1;
  };
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

}  // namespace

class DocumentRouter::Impl {
 public:
  explicit Impl(Options options) : members(std::move(options)) {}

  cluster::PlacementKey KeyOf(const DocumentName& name) const {
    return cluster::KeyOfDocument(members.options().tenant, name.collection, name.name);
  }
  /// Asks the node at `address` for a document. True when the node lacks none of its segments.
  StatusOr<bool> HasWhole(const std::string& address, const DocumentName& name, TimePoint end) {
    v1::GetDocumentRequest request;
    wire::DocumentNameToProto(name, request.mutable_name());
    const auto reply =
        members.Ask<v1::GetDocumentReply>(address, "quire.v1.Registry/Get", request, end);
    if (IsSilence(reply.status())) members.NoteDoubt();
    QUIRE_RETURN_IF_ERROR(reply.status());
    return reply->document().segments_lost() == 0;
  }
  /// Asks `member` about all documents. True when no other member need be asked.
  bool AskAbout(std::span<const DocumentName> names, const Member& member, TimePoint end,
                Answers* answers) {
    if (!member.Serves()) {
      answers->AddSilent(Unavailable("node ", member.name, " is ", Name(member.state)));
      return false;
    }
    bool has_all = true, has_whole = true;
    for (size_t i = 0; i < names.size(); ++i) {
      const StatusOr<bool> whole = HasWhole(member.address, names[i], end);
      if (IsSilence(whole.status())) {
        answers->AddSilent(whole.status());
        return false;
      }
      answers->Add(i, member.address, whole.status());
      has_all = has_all && whole.ok();
      has_whole = has_whole && whole.ok() && *whole;
    }
    if (has_all) answers->AddHolder(member.address, has_whole);
    return has_whole;
  }

  /// Asks the members once.
  StatusOr<std::string> Look(std::span<const DocumentName> names, const HolderSearch& search,
                             TimePoint end) {
    QUIRE_ASSIGN_OR_RETURN(const auto told, members.Current(end));
    Answers answers(names);
    for (const Member* const member : OrderToAsk(*told.placement, KeyOf(names.front()), search)) {
      if (AskAbout(names, *member, end, &answers)) break;
    }
    return answers.Holder(told.frozen);
  }

  internal::ClusterMembers members;
};

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

StatusOr<std::string> DocumentRouter::FindHolder(std::span<const DocumentName> names,
                                                 const HolderSearch& search) {
  if (names.empty()) return InvalidArgument("there is no document to find a node for; name one");
  const TimePoint end = impl_->members.EndOf(search.timeout);
  StatusOr<std::string> holder = std::string();
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) impl_->members.NoteDoubt();
    holder = impl_->Look(names, search, end);
    const bool is_absent = IsNotFound(holder.status()) || IsFailedPrecondition(holder.status());
    if (!is_absent) break;
  }
  return holder;
}

StatusOr<std::vector<std::string>> DocumentRouter::FindHotOwners(
    std::span<const DocumentName> names) {
  QUIRE_ASSIGN_OR_RETURN(const auto told, impl_->members.Current(TimePoint::max()));
  const cluster::Placement& placement = *told.placement;
  std::vector<std::string> addresses;
  const bool any_is_hot = std::ranges::any_of(
      names, [&](const DocumentName& name) { return placement.IsHot(impl_->KeyOf(name)); });
  if (!any_is_hot) return addresses;
  std::map<uint32_t, size_t> owned;  // By member, the number of documents that it owns.
  for (const DocumentName& name : names) {
    const cluster::PlacementKey key = impl_->KeyOf(name);
    for (const uint32_t member : placement.OwnersOf(key, placement.CopiesOf(key)).members) {
      ++owned[member];
    }
  }
  for (const auto& [member, documents] : owned) {
    if (documents == names.size()) addresses.push_back(placement.view().members[member].address);
  }
  return addresses;
}

StatusOr<std::string> DocumentRouter::FindPlace(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(const auto told, impl_->members.Current(TimePoint::max()));
  const cluster::ClusterView& view = told.placement->view();
  const auto owners = told.placement->OwnersOf(impl_->KeyOf(name), view.settings.replicas);
  if (owners.members.empty()) {
    return Unavailable("no node of cluster ", view.name, " takes documents: start or undrain one");
  }
  std::vector<std::string> addresses;
  for (const uint32_t owner : owners.members) addresses.push_back(view.members[owner].address);
  DocumentName latest = name;
  latest.version = 0;
  v1::GetDocumentRequest request;
  wire::DocumentNameToProto(latest, request.mutable_name());
  auto nearest =
      internal::NearestToAnswer(&impl_->members, addresses, "quire.v1.Registry/Get", request);
  if (nearest.ok()) return nearest;
  return Unavailable("no node that document ", name.name,
                     " belongs to answers: ", Message(nearest.status()));
}

StatusOr<std::vector<std::string>> DocumentRouter::ServingNodes() {
  QUIRE_ASSIGN_OR_RETURN(const auto told, impl_->members.Current(TimePoint::max()));
  std::vector<std::string> addresses;
  for (const Member& member : told.placement->view().members) {
    if (member.Serves()) addresses.push_back(member.address);
  }
  return addresses;
}

StatusOr<std::shared_ptr<Transport>> DocumentRouter::ConnectTo(const std::string& address) {
  return impl_->members.ConnectTo(address);
}

}  // namespace quire
