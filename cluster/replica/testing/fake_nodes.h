// SPDX-License-Identifier: Apache-2.0
//
// FakeNodes: nodes of a cluster in memory, each with documents and segments, that reach each other
// unless a test says otherwise. Only tests use it. Thread-safety: none.
#ifndef QUIRE_CLUSTER_REPLICA_TESTING_FAKE_NODES_H_
#define QUIRE_CLUSTER_REPLICA_TESTING_FAKE_NODES_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/replica/local_documents.h"
#include "cluster/replica/local_segments.h"
#include "cluster/replica/peer_nodes.h"

namespace quire::cluster::testing {

/// A chain of `segments` segments, named by `seed`.
inline ChainDescription FakeChain(uint8_t seed, uint8_t segments = 2) {
  ChainDescription chain;
  for (uint8_t i = 0; i < segments; ++i) {
    SegmentKey key;
    key.bytes = {seed, static_cast<uint8_t>(i + 1)};
    chain.keys.push_back(key);
  }
  return chain;
}

class FakeNode final : public LocalDocuments, public LocalSegments {
 public:
  static constexpr uint64_t kSegmentBytes = 100;
  using Version = std::tuple<std::string, std::string, uint64_t>;  // Tenant, name, version.

  static Version KeyOf(std::string_view tenant, const DocumentName& name) {
    return {std::string(tenant), name.name, name.version};
  }
  /// Stores a chain, as a put does.
  void PutChain(const ChainDescription& chain) {
    chains_[chain.keys.back()] = chain;
    segments_.insert(chain.keys.begin(), chain.keys.end());
  }
  void Damage(const SegmentKey& key) { damaged_.insert(key); }
  void LoseEverything() {
    documents_.clear();
    segments_.clear();
    chains_.clear();
  }
  bool HasSegment(const SegmentKey& key) const {
    return segments_.contains(key) && !damaged_.contains(key);
  }
  const std::map<Version, Document>& documents() const { return documents_; }

  // LocalDocuments.
  std::vector<std::string> Tenants() const override { return tenants_; }
  StatusOr<LocalNames> HeldNames(std::string_view) override {
    std::set<std::pair<std::string, std::string>> names;
    for (const auto& [key, document] : documents_)
      names.insert({std::get<0>(key), std::get<1>(key)});
    LocalNames all;
    for (const auto& [tenant, name] : names) all.names.push_back({tenant, {.name = name}});
    return all;
  }
  Status Align(std::string_view tenant, const DocumentName& name,
               const AgreedName& agreed) override {
    for (auto it = documents_.begin(); it != documents_.end();) {
      const auto& [of_tenant, of_name, version] = it->first;
      const Document* const said = agreed.Find(version);
      if (of_tenant != tenant || of_name != name.name) {
        ++it;
      } else if (said != nullptr && said->chain_tip == it->second.chain_tip) {
        (it++)->second = *said;
      } else {
        it = documents_.erase(it);
      }
    }
    return OkStatus();
  }
  Held StateOf(std::string_view tenant, const Document& document) override {
    const auto found = documents_.find(KeyOf(tenant, document.name));
    if (found == documents_.end()) return Held::kNot;
    const ChainDescription& chain = chains_.at(document.chain_tip);
    const bool whole =
        std::ranges::all_of(chain.keys, [this](const SegmentKey& key) { return HasSegment(key); });
    return whole ? Held::kWhole : Held::kDamaged;
  }
  Status Adopt(std::string_view tenant, const DocumentName& name,
               const AgreedName& agreed) override {
    const Document& document = *agreed.Find(name.version);
    if (!chains_.contains(document.chain_tip)) return NotFound("the chain is not here");
    documents_[KeyOf(tenant, document.name)] = document;
    return OkStatus();
  }
  Status PutExtras(std::string_view, const DocumentName& name,
                   const std::vector<ExtraCopy>& extras) override {
    for (const ExtraCopy& extra : extras) {
      extras_[name.name].push_back(extra.extra.name);
      extra_segments_[extra.extra.name] = extra.segments;
    }
    return OkStatus();
  }
  Status Release(std::string_view tenant, const DocumentName& name) override {
    return documents_.erase(KeyOf(tenant, name)) > 0 ? OkStatus() : NotFound("not here");
  }

  // LocalSegments.
  StatusOr<ChainDescription> Describe(std::string_view, const SegmentKey& tip) override {
    if (const auto found = chains_.find(tip); found != chains_.end()) return found->second;
    return NotFound("no such chain");
  }
  StatusOr<UnitRun> Read(std::string_view, const SegmentKey& key, uint64_t, uint64_t) override {
    if (!HasSegment(key)) return NotFound("no such segment");
    return UnitRun();
  }
  StatusOr<std::vector<std::byte>> ReadRepresentatives(std::string_view,
                                                       const SegmentKey&) override {
    return std::vector<std::byte>();
  }
  std::unique_ptr<ChainPut> Begin(std::string_view, ChainDescription chain) override {
    return std::make_unique<FakeChainPut>(this, std::move(chain));
  }
  uint64_t NumDamaged() const override { return damaged_.size(); }

  std::vector<std::string> tenants_ = {"default"};
  std::map<std::string, std::vector<std::string>> extras_;         ///< Names of extras by document.
  std::map<std::string, std::vector<SegmentKey>> extra_segments_;  ///< By names of extras.

 private:
  class FakeChainPut final : public ChainPut {
   public:
    FakeChainPut(FakeNode* node, ChainDescription chain) : node_(*node), chain_(std::move(chain)) {}
    bool Has(uint32_t index) override { return node_.HasSegment(chain_.keys[index]); }
    Status Put(uint32_t index, const SegmentCopy&) override {
      node_.segments_.insert(chain_.keys[index]);
      node_.damaged_.erase(chain_.keys[index]);
      if (index + 1 == chain_.keys.size()) node_.chains_[chain_.keys.back()] = chain_;
      return OkStatus();
    }

   private:
    FakeNode& node_;
    const ChainDescription chain_;
  };

  std::map<Version, Document> documents_;
  std::map<SegmentKey, ChainDescription> chains_;  ///< By tip.
  std::set<SegmentKey> segments_, damaged_;
};

/// Calls between fake nodes. Calls to nodes of `silent` fail, and reads of keys of `failing`.
class FakePeers final : public PeerNodes {
 public:
  StatusOr<ChainDescription> Describe(const Member& member, std::string_view tenant,
                                      const SegmentKey& tip) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    return node->Describe(tenant, tip);
  }
  StatusOr<SegmentCopy> Read(const Member& member, std::string_view tenant, const KvSpec&,
                             const SegmentKey& key) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    if (failing.contains(key)) return DataLoss("the segment is damaged");
    QUIRE_RETURN_IF_ERROR(node->Read(tenant, key, 0, 1).status());
    ++reads;
    SegmentCopy segment;
    segment.units.resize(FakeNode::kSegmentBytes);
    return segment;
  }
  StatusOr<std::vector<ExtraCopy>> ReadExtras(const Member& member, std::string_view,
                                              const DocumentName& name) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    std::vector<ExtraCopy> extras;
    for (const std::string& extra : node->extras_[name.name]) {
      extras.push_back(
          {.extra = {.name = extra}, .bytes = "", .segments = node->extra_segments_[extra]});
    }
    return extras;
  }
  StatusOr<std::vector<Held>> Holds(const Member& member, std::string_view tenant,
                                    std::span<const Document> documents) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    std::vector<Held> holds;
    for (const Document& document : documents) {
      const bool leaves = is_releasing && is_releasing(member.name, tenant, document.name);
      holds.push_back(leaves ? Held::kDamaged : node->StateOf(tenant, document));
    }
    if (after_holds) after_holds(member.name);
    return holds;
  }
  Status CopyChain(const Member& member, std::string_view tenant, const SegmentKey& tip,
                   std::string_view from, TimePoint) override {
    if (before_copy) before_copy(member.name);
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    QUIRE_ASSIGN_OR_RETURN(const auto chain, nodes.at(std::string(from))->Describe(tenant, tip));
    node->PutChain(chain);
    return OkStatus();
  }
  Status Adopt(const Member& member, std::string_view tenant, const DocumentName& name,
               TimePoint) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    QUIRE_ASSIGN_OR_RETURN(const AgreedName agreed, agreement->Read(tenant, name));
    return node->Adopt(tenant, name, agreed);
  }

  Status CopyExtras(const Member& member, std::string_view, const DocumentName& name,
                    std::string_view from, TimePoint) override {
    QUIRE_ASSIGN_OR_RETURN(FakeNode* const node, Find(member));
    node->extras_[name.name] = nodes.at(std::string(from))->extras_[name.name];
    return OkStatus();
  }

  std::map<std::string, FakeNode*> nodes;
  DocumentAgreement* agreement = nullptr;
  /// Called between a member's answer what it holds and its arrival. Empty: nothing happens.
  std::function<void(const std::string& member)> after_holds;
  /// Runs before a copy of a put, maybe in several threads.
  std::function<void(const std::string& member)> before_copy;
  /// Tells what a member releases. Empty: nothing.
  std::function<bool(const std::string& member, std::string_view tenant, const DocumentName&)>
      is_releasing;
  std::set<std::string> silent;
  std::set<SegmentKey> failing;
  uint64_t reads = 0;

 private:
  StatusOr<FakeNode*> Find(const Member& member) const {
    if (silent.contains(member.name)) return Unavailable("node ", member.name, " is away");
    return nodes.at(member.name);
  }
};

}  // namespace quire::cluster::testing

#endif  // QUIRE_CLUSTER_REPLICA_TESTING_FAKE_NODES_H_
