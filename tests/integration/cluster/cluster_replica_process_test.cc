// SPDX-License-Identifier: Apache-2.0
//
// Documents with two replicas in a cluster of real processes. A killed node costs no document. One
// that comes back is repaired. Documents move to a node that is added and away from one that is
// drained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "quire/cluster_connection.h"
#include "tests/integration/cluster/cluster_fixture.h"
#include "tests/kit/caller_tokens.h"

namespace quire {
namespace {

using cluster::MemberState;
using nlohmann::json;
using testing::ChildResult;
using ::testing::HasSubstr;

constexpr int kDocuments = 8;

class ClusterReplicaProcessTest : public testing::ClusterFixture {
 protected:
  void StartReplicated() {
    StartAll();
    ASSERT_EQ(ClusterJson({"settings", "--replicas", "2", "--min-replicas", "2"})["replicas"], 2);
    ASSERT_TRUE(WaitForReplicas(2));
  }
  static std::string NameOf(int i) { return "document-" + std::to_string(i); }
  /// A segment whose bytes follow from the document's number.
  static std::vector<std::byte> BytesOf(int i) {
    std::vector<std::byte> bytes;
    const KvSpec spec = testing::FaultSpec();
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      for (uint32_t page = 0; page < spec.segment_pages; ++page) {
        for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
          const auto unit = testing::FaultUnit(page + 100 * i, layer, head);
          bytes.insert(bytes.end(), unit.begin(), unit.end());
        }
      }
    }
    return bytes;
  }
  Status PutNumber(int i) {
    QUIRE_ASSIGN_OR_RETURN(const std::string place, router_->FindPlace({.name = NameOf(i)}));
    return PutAt(place, i);
  }
  Status PutAt(const std::string& address, int i) {
    const auto client = ClientOf(address);
    const KvSpec spec = testing::FaultSpec();
    std::vector<TokenId> tokens(spec.segment_tokens());
    std::iota(tokens.begin(), tokens.end(), 1000 * i);
    Payload payload;
    payload.Append(BytesOf(i));
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip,
                           client->PutSegment(spec, kRootKey, tokens, payload));
    return client->RegisterDocument({.name = NameOf(i)}, tip).status();
  }
  /// Checks that the node answers with the document's bytes.
  Status ReadFrom(const std::string& address, int i) {
    const auto client = ClientOf(address);
    const KvSpec spec = testing::FaultSpec();
    std::vector<uint32_t> pages(spec.segment_pages);
    std::iota(pages.begin(), pages.end(), 0u);
    std::vector<UnitRange> ranges;
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      ranges.push_back({.layer = layer, .pages = pages});
    }
    QUIRE_ASSIGN_OR_RETURN(const Payload read,
                           client->Fetch(DocumentName{.name = NameOf(i)}, ranges));
    std::vector<std::byte> bytes(read.size_bytes());
    read.CopyTo(bytes.data());
    return bytes == BytesOf(i) ? OkStatus() : DataLoss("other bytes of ", NameOf(i));
  }
  /// Nodes that run and answer with the document's bytes.
  std::set<std::string> HoldersOf(int i) {
    std::set<std::string> holders;
    for (const auto& [name, node] : nodes_) {
      if (!node.runs) continue;
      const Status read = ReadFrom(node.address, i);
      EXPECT_NE(read.code(), StatusCode::kDataLoss) << name << ": " << read;
      if (read.ok()) holders.insert(name);
    }
    return holders;
  }
  std::set<std::string> OwnersOf(int i) {
    const json where = ClusterJson({"where", NameOf(i)});
    return where["owners"].get<std::set<std::string>>();
  }
  bool AllAtOwners() {
    for (int i = 0; i < kDocuments; ++i) {
      if (HoldersOf(i) != OwnersOf(i)) return false;
    }
    return true;
  }
  void PutAll() {
    for (int i = 0; i < kDocuments; ++i) {
      const Status put = PutNumber(i);
      ASSERT_TRUE(put.ok()) << put;
      EXPECT_EQ(HoldersOf(i), OwnersOf(i)) << "both have it when the put returns";
    }
  }
  /// A client of the cluster, as a program has that reads one document.
  std::unique_ptr<Client> OpenReader(int i) {
    std::vector<std::string> servers;
    for (const auto& [name, node] : nodes_) servers.push_back(node.address);
    std::shared_ptr<DocumentRouter> router =
        DocumentRouter::Create({.servers = servers, .view_age = std::chrono::seconds(1)}).value();
    const auto connection =
        ClusterConnection::Open({.router = router, .documents = {{.name = NameOf(i)}}}).value();
    return Client::Create({.transport = connection->control()}).value();
  }
  /// Logs of all nodes.
  std::string Errors() {
    std::string errors;
    for (const auto& [name, node] : nodes_) errors += name + ":\n" + node.process->Stderr();
    return errors;
  }
  /// Bytes of fetches of a document that each node answered since it started.
  std::map<std::string, uint64_t> ServedOf(int i) {
    std::map<std::string, uint64_t> served;
    for (const auto& [name, node] : nodes_) {
      const auto document = ClientOf(node.address)->GetDocument({.name = NameOf(i)});
      served[name] = document.ok() ? document->statistics.bytes_served : 0;
    }
    return served;
  }
  /// Waits for some megabytes of reads. Returns the smallest share of them that a node answered.
  double SmallestShare(int i) {
    constexpr uint64_t kBytes = 4 << 20;
    const std::map<std::string, uint64_t> before = ServedOf(i);
    uint64_t all = 0, smallest = 0;
    EXPECT_TRUE(WaitUntil([&] {
      all = 0;
      smallest = UINT64_MAX;
      for (const auto& [name, served] : ServedOf(i)) {
        all += served - before.at(name);
        smallest = std::min(smallest, served - before.at(name));
      }
      return all >= kBytes;
    }));
    return static_cast<double>(smallest) / static_cast<double>(all);
  }
  /// Options that people give to reach the cluster's records.
  ChildResult Cluster(std::vector<std::string> args) {
    args.insert(args.begin(), "cluster");
    args.insert(args.end(), {"--etcd", etcd_.address()});
    return Quire(std::move(args));
  }
};

/// Threads that each read a page of document 0 some hundred times a second.
class HotReaders {
 public:
  HotReaders(int number, const std::function<std::unique_ptr<Client>()>& open) {
    for (int i = 0; i < number; ++i) {
      threads_.emplace_back([this, client = std::shared_ptr<Client>(open())] { Read(*client); });
    }
  }
  ~HotReaders() { Stop(); }
  void Stop() {
    stops_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  Status failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void Read(Client& client) {
    const std::vector<UnitRange> range = {{.layer = 1, .pages = {3}}};
    std::vector<std::byte> expected = testing::FaultUnit(3, 1, 0);
    const std::vector<std::byte> second = testing::FaultUnit(3, 1, 1);
    expected.insert(expected.end(), second.begin(), second.end());
    while (!stops_) {
      const auto read = client.Fetch(DocumentName{.name = "document-0"}, range);
      std::vector<std::byte> bytes(read.ok() ? read->size_bytes() : 0);
      if (read.ok()) read->CopyTo(bytes.data());
      const bool right = bytes == expected;
      MutexLock lock(mutex_);
      failure_.Update(read.status());
      if (read.ok() && !right) failure_.Update(DataLoss("other bytes"));
      if (!failure_.ok()) return;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
    }
  }

  std::atomic<bool> stops_ = false;
  Mutex mutex_;
  CondVar changed_;
  Status failure_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

TEST_F(ClusterReplicaProcessTest, AKilledNodeCostsNoDocumentAndIsRepairedWhenItIsBack) {
  StartReplicated();
  PutAll();
  Kill("b");
  for (int i = 0; i < kDocuments; ++i) EXPECT_FALSE(HoldersOf(i).empty()) << NameOf(i);
  ASSERT_TRUE(WaitForState("b", MemberState::kLost));
  EXPECT_TRUE(WaitUntil([this] { return AllAtOwners(); })) << "the others make new copies";

  // It misses a deletion and a new document.
  ASSERT_TRUE(
      ClientOf(nodes_[*HoldersOf(0).begin()].address)->DeleteDocument({.name = NameOf(0)}).ok());
  const Status put = PutAt(nodes_[*OwnersOf(kDocuments).begin()].address, kDocuments);
  ASSERT_TRUE(put.ok()) << put;
  Start("b");
  EXPECT_TRUE(IsNotFound(ReadFrom(nodes_["b"].address, 0))) << "it was deleted meanwhile";
  EXPECT_EQ(Cluster({"repair"}).exit_code, 0);
  for (int i = 1; i <= kDocuments; ++i) EXPECT_EQ(HoldersOf(i), OwnersOf(i)) << NameOf(i);
  EXPECT_TRUE(HoldersOf(0).empty());
}

TEST_F(ClusterReplicaProcessTest, DocumentsMoveToANewNodeAndAwayFromADrainedOne) {
  StartReplicated();
  PutAll();
  Start("d");
  const ChildResult rebalanced = Cluster({"rebalance"});
  EXPECT_EQ(rebalanced.exit_code, 0) << rebalanced.err;
  EXPECT_TRUE(AllAtOwners());

  const ChildResult drained = Cluster({"drain", "a", "--wait"});
  EXPECT_EQ(drained.exit_code, 0) << drained.err;
  for (int i = 0; i < kDocuments; ++i) EXPECT_FALSE(HoldersOf(i).contains("a")) << NameOf(i);
  EXPECT_TRUE(AllAtOwners());
  EXPECT_EQ(End("a", SIGTERM), 0);
  ASSERT_TRUE(WaitForState("a", MemberState::kLeft));
  EXPECT_EQ(Cluster({"remove", "a"}).exit_code, 0);
  EXPECT_TRUE(AllAtOwners()) << "nothing is lost";
}

TEST_F(ClusterReplicaProcessTest, ADocumentThatIsReadMuchIsReadAtOneMoreNodeUntilItCools) {
  StartReplicated();
  ASSERT_TRUE(PutNumber(0).ok());
  const std::set<std::string> owners = HoldersOf(0);
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(ClusterJson({"settings", "--hot-reads-per-second", "20", "--hot-replicas", "1",
                         "--hot-keep-seconds", "3"})["hot_replicas"],
            1);
  {
    HotReaders readers(2, [this] { return OpenReader(0); });
    ASSERT_TRUE(WaitUntil([this] { return OwnersOf(0).size() == 3; })) << readers.failure() << "\n"
                                                                       << Errors();
    ASSERT_TRUE(WaitUntil([this] { return HoldersOf(0).size() == 3; })) << Errors();
    const json hot = ClusterJson({"status"})["hot_documents"];
    ASSERT_EQ(hot.size(), 1u) << hot;
    EXPECT_EQ(hot[0]["document"], "default/" + NameOf(0));
    EXPECT_EQ(hot[0]["owners"].size(), 3u);
    // The readers learn of the third owner within some seconds.
    EXPECT_TRUE(WaitUntil([this] { return SmallestShare(0) > 0.15; }));
    readers.Stop();
    EXPECT_EQ(readers.failure(), OkStatus());
  }
  EXPECT_TRUE(WaitUntil([this] { return ClusterJson({"status"})["hot_documents"].empty(); }));
  EXPECT_TRUE(WaitUntil([&] { return HoldersOf(0) == owners; })) << "the others keep theirs";
}

TEST_F(ClusterReplicaProcessTest, APutThatCannotHaveItsCopiesSaysSo) {
  StartReplicated();
  Kill("b");
  Kill("c");
  Status refused;
  for (int i = 0; i < kDocuments && !IsUnavailable(refused); ++i) {
    refused = PutAt(nodes_["a"].address, i);
    EXPECT_FALSE(refused.ok()) << NameOf(i);
  }
  EXPECT_THAT(refused.ToString(), HasSubstr("min_replicas"));
}

TEST_F(ClusterReplicaProcessTest, AnEtcdThatLostItsDataIsRestoredAndNoDocumentIsLost) {
  StartReplicated();
  PutAll();
  const std::string file = dir_ / "registry.backup";
  const ChildResult backup = Cluster({"backup", file});
  ASSERT_EQ(backup.exit_code, 0) << backup.err;
  ASSERT_TRUE(PutNumber(kDocuments).ok()) << "after the backup";
  EXPECT_NE(Cluster({"restore", file}).exit_code, 0) << "nodes are up";

  EXPECT_EQ(End("a", SIGTERM), 0);
  etcd_.Kill();
  etcd_.LoseData();
  etcd_.Start();
  const ChildResult restored = Cluster({"restore", file});
  ASSERT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_THAT(restored.out, HasSubstr("of cluster demo"));
  Start("a");
  for (const char* name : {"b", "c"}) EXPECT_TRUE(WaitForState(name, MemberState::kUp)) << name;
  const auto all_are_there = [this] {
    for (int i = 0; i <= kDocuments; ++i) {
      if (HoldersOf(i) != OwnersOf(i)) return false;
    }
    return true;
  };
  EXPECT_TRUE(WaitUntil(all_are_there)) << "those of after the backup, too";
  EXPECT_EQ(Cluster({"repair"}).exit_code, 0);
  EXPECT_TRUE(all_are_there()) << "and they stay";
  Status again;
  EXPECT_TRUE(WaitUntil([&] { return (again = PutNumber(kDocuments)).ok(); })) << again;
  const auto client = ClientOf(nodes_[*OwnersOf(kDocuments).begin()].address);
  const auto document = client->GetDocument({.name = NameOf(kDocuments)});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->name.version, 2u) << "versions do not go back";
}

TEST_F(ClusterReplicaProcessTest, ACommandThatWaitsForACopyThatCannotBeMadeSaysWhatIsMissing) {
  StartAll();
  ASSERT_TRUE(PutNumber(0).ok());
  const std::string owner = *OwnersOf(0).begin();
  Kill(owner);
  ASSERT_TRUE(WaitForState(owner, MemberState::kLost));
  ASSERT_EQ(Cluster({"remove", owner}).exit_code, 0);
  const ChildResult stuck = Cluster({"rebalance", "--stall-seconds", "2"});
  EXPECT_NE(stuck.exit_code, 0);
  EXPECT_THAT(stuck.err, HasSubstr("nothing has moved for 2 s"));
  EXPECT_THAT(stuck.err, HasSubstr("1 to copy, 0 to hand over; last failure"));
}

TEST_F(ClusterReplicaProcessTest, WithTenantTokensNodesProveThemselvesByTheirSecret) {
  const std::string tokens = testing::WriteSecretFile(dir_ / "tokens", testing::kTenantTokens);
  const std::string secret =
      testing::WriteSecretFile(dir_ / "secret", "the-secret-by-which-nodes-know-each-other");
  more_flags_ = {"--tenants", "default,other",         "--tenant-tokens",
                 tokens,      "--cluster-secret-file", secret};
  connect_.token = BearerToken::Make(testing::kDefaultToken).value();
  StartReplicated();
  const Status put = PutAt(nodes_[*OwnersOf(0).begin()].address, 0);
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(HoldersOf(0), OwnersOf(0));

  const std::string tenants = testing::WriteSecretFile(dir_ / "tenant", testing::kDefaultToken);
  const ChildResult as_tenant = Cluster({"rebalance", "--token-file", tenants});
  EXPECT_NE(as_tenant.exit_code, 0);
  EXPECT_THAT(as_tenant.err, HasSubstr("only nodes of the cluster may call this"));
  const ChildResult as_operator = Cluster({"rebalance", "--token-file", secret});
  EXPECT_EQ(as_operator.exit_code, 0) << as_operator.err;
}

}  // namespace
}  // namespace quire
