// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "cluster/replica/chain_copier.h"
#include "common/base/memory/checksum.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/v1/replica.pb.h"

namespace quire::kvserver {
namespace {

/// Most documents of one Holds.
constexpr int kMostHeld = 1000;

/// The methods and the objects that they use.
class ReplicaAdapters {
 public:
  explicit ReplicaAdapters(ReplicaAdapterDeps deps) : deps_(std::move(deps)) {}

  Status DescribeChain(const Call& call, const v1::DescribeChainRequest& request,
                       v1::DescribeChainReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto tip, wire::KeyFromBytes(request.chain_tip(), "chain_tip"));
    QUIRE_ASSIGN_OR_RETURN(const auto chain, deps_.segments->Describe(call.tenant, tip));
    wire::KvSpecToProto(chain.spec, reply->mutable_spec());
    wire::KeysToProto(chain.keys, reply->mutable_keys());
    return OkStatus();
  }

  Status ReadSegment(const Call& call, const v1::ReadSegmentRequest& request,
                     v1::ReadSegmentReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto key, wire::KeyFromBytes(request.key(), "key"));
    QUIRE_ASSIGN_OR_RETURN(auto run, deps_.segments->Read(call.tenant, key, request.first_unit(),
                                                          deps_.max_reply_bytes));
    reply->mutable_tokens()->Add(run.tokens.begin(), run.tokens.end());
    reply->set_codec(run.codec);
    reply->mutable_unit_crc32c()->Add(run.unit_crc32c.begin(), run.unit_crc32c.end());
    call.reply_payload->Append(run.units);
    return OkStatus();
  }

  Status ReadRepresentatives(const Call& call, const v1::ReadRepresentativesRequest& request,
                             v1::ReadRepresentativesReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto key, wire::KeyFromBytes(request.key(), "key"));
    QUIRE_ASSIGN_OR_RETURN(auto bytes, deps_.segments->ReadRepresentatives(call.tenant, key));
    reply->set_payload_crc32c(Crc32c(bytes));
    if (!bytes.empty()) call.reply_payload->Append(std::move(bytes));
    return OkStatus();
  }

  Status CopyChain(const Call& call, const v1::CopyChainRequest& request,
                   v1::CopyChainReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto tip, wire::KeyFromBytes(request.chain_tip(), "chain_tip"));
    QUIRE_ASSIGN_OR_RETURN(const cluster::Member from, FindMember(request.from()));
    cluster::ChainCopier copier(deps_.segments, deps_.place.peers, call.tenant, tip);
    const auto may_go = [&] {
      return SystemClock().Now() < call.context.deadline && !call.context.IsCancelled();
    };
    QUIRE_ASSIGN_OR_RETURN(const bool whole, copier.Advance({from}, may_go));
    if (!whole) return DeadlineExceeded("the chain is not copied yet; ask again for the rest");
    reply->set_copied_bytes(copier.copied_bytes());
    return OkStatus();
  }

  Status Holds(const Call& call, const v1::HoldsRequest& request, v1::HoldsReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    if (request.documents_size() > kMostHeld) {
      return InvalidArgument("documents has ", request.documents_size(), " entries: at most ",
                             kMostHeld);
    }
    for (const v1::Document& asked : request.documents()) {
      Document document;
      QUIRE_ASSIGN_OR_RETURN(document.name, wire::DocumentNameFromProto(asked.name()));
      QUIRE_ASSIGN_OR_RETURN(document.chain_tip,
                             wire::KeyFromBytes(asked.chain_tip(), "chain_tip"));
      // Asked first: what this node begins to release after that, it asks the caller about.
      const bool leaves = deps_.replicator->IsReleasing(call.tenant, document.name);
      const cluster::Held held = deps_.documents->StateOf(call.tenant, document);
      // Asked last: a version that is adopted awaits its extras already.
      reply->add_holds(!leaves && held == cluster::Held::kWhole &&
                       !deps_.replicator->AwaitsExtras(call.tenant, document.name));
      reply->add_lacks(!leaves && held == cluster::Held::kNot);
    }
    return OkStatus();
  }

  Status AdoptDocument(const Call& call, const v1::AdoptDocumentRequest& request,
                       v1::AdoptDocumentReply*) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.name()));
    QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, ReadAgreed(call.tenant, name));
    const Document& document = *agreed.Find(name.version);
    switch (deps_.documents->StateOf(call.tenant, document)) {
      case cluster::Held::kWhole:
        return OkStatus();
      case cluster::Held::kDamaged:
        return DataLoss("version ", name.version, " of ", name.name, " has lost segments here");
      case cluster::Held::kNot:
        break;
    }
    QUIRE_RETURN_IF_ERROR(deps_.documents->Adopt(call.tenant, name, agreed));
    // The version may have been removed since, and its removal told before it was here.
    QUIRE_ASSIGN_OR_RETURN(const AgreedName now, deps_.place.documents->Read(call.tenant, name));
    QUIRE_RETURN_IF_ERROR(deps_.documents->Align(call.tenant, name, now));
    return CheckAgreed(now, name);
  }

  Status CopyExtras(const Call& call, const v1::CopyExtrasRequest& request,
                    v1::CopyExtrasReply*) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    QUIRE_ASSIGN_OR_RETURN(const auto name, wire::DocumentNameFromProto(request.document()));
    QUIRE_ASSIGN_OR_RETURN(const cluster::Member from, FindMember(request.from()));
    QUIRE_ASSIGN_OR_RETURN(auto extras, deps_.place.peers->ReadExtras(from, call.tenant, name));
    return deps_.replicator->TakeExtras(call.tenant, name, {from}, std::move(extras));
  }

  Status Progress(const Call& call, const v1::ReplicaProgressRequest&,
                  v1::ReplicaProgressReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    const cluster::ReplicaProgress progress = deps_.replicator->progress();
    reply->set_epoch(progress.epoch);
    reply->set_pass_runs(progress.pass_runs);
    reply->set_passes(progress.passes);
    reply->set_names_compared(progress.names_compared);
    reply->set_copies_pending(progress.copies_pending);
    reply->set_releases_pending(progress.releases_pending);
    reply->set_copied_bytes(progress.copied_bytes);
    reply->set_failures(progress.failures);
    reply->set_last_failure(progress.last_failure);
    return OkStatus();
  }

  Status StartPass(const Call& call, const v1::StartPassRequest&, v1::StartPassReply*) const {
    QUIRE_RETURN_IF_ERROR(CheckReplicates(call));
    deps_.replicator->StartPass();
    return OkStatus();
  }

 private:
  static Status CheckAgreed(const AgreedName& agreed, const DocumentName& name) {
    if (agreed.Find(name.version) != nullptr) return OkStatus();
    return NotFound("version ", name.version, " of ", name.name, " is not agreed");
  }
  /// The agreed state of a name that has the version.
  StatusOr<AgreedName> ReadAgreed(std::string_view tenant, const DocumentName& name) const {
    QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, deps_.place.documents->Read(tenant, name));
    QUIRE_RETURN_IF_ERROR(CheckAgreed(agreed, name));
    return agreed;
  }
  StatusOr<cluster::Member> FindMember(const std::string& name) const {
    const auto view = deps_.place.membership->View();
    if (const cluster::Member* const member = view->Find(name)) return *member;
    return NotFound("from: node ", name, " is no member of cluster ", view->name);
  }
  Status CheckReplicates(const Call& call) const {
    if (!call.context.is_node) {
      return PermissionDenied(
          "only nodes of the cluster may call this: a tenant's token does not do; operators give "
          "the cluster's secret (quire: --token-file FILE)");
    }
    if (deps_.replicator != nullptr && deps_.place.keeps_replicas()) return OkStatus();
    return FailedPrecondition("this server keeps no replicas: it is in no cluster on etcd");
  }

  const ReplicaAdapterDeps deps_;
};

}  // namespace

void AddReplicaMethods(const ReplicaAdapterDeps& deps, Dispatcher* dispatcher) {
  const auto adapters = std::make_shared<const ReplicaAdapters>(deps);
  const auto bind = [&]<typename Request, typename Reply>(
                        const std::string& name, Status (ReplicaAdapters::*method)(
                                                     const Call&, const Request&, Reply*) const) {
    dispatcher->Add<Request, Reply>(
        "quire.v1.Replica/" + name,
        [adapters, method](const Call& call, const Request& request, Reply* reply) {
          return ((*adapters).*method)(call, request, reply);
        });
  };
  bind("DescribeChain", &ReplicaAdapters::DescribeChain);
  bind("ReadSegment", &ReplicaAdapters::ReadSegment);
  bind("ReadRepresentatives", &ReplicaAdapters::ReadRepresentatives);
  bind("CopyChain", &ReplicaAdapters::CopyChain);
  bind("Holds", &ReplicaAdapters::Holds);
  bind("AdoptDocument", &ReplicaAdapters::AdoptDocument);
  bind("CopyExtras", &ReplicaAdapters::CopyExtras);
  bind("Progress", &ReplicaAdapters::Progress);
  bind("StartPass", &ReplicaAdapters::StartPass);
}

}  // namespace quire::kvserver
