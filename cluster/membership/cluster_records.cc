// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/cluster_records.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

namespace quire::cluster {
namespace {

constexpr std::string_view kNodesPrefix = "nodes/";
constexpr std::string_view kLivePrefix = "live/";
constexpr std::string_view kHotPrefix = "hot/";

template <typename Record>
Status Parse(const std::string& key, const EtcdKey& value, Revised<Record>* revised) {
  const Status status = FromJsonText(key, value.value, &revised->record);
  if (!status.ok()) return DataLoss("etcd's record ", Message(status));
  revised->mod_revision = value.mod_revision;
  return OkStatus();
}

Status ParseKey(const std::string& key, const EtcdKey& value, ClusterRecords* records) {
  if (key == kClusterKey) return Parse(key, value, &records->cluster.emplace());
  if (key == kSettingsKey) return Parse(key, value, &records->settings);
  if (key.starts_with(kNodesPrefix)) {
    return Parse(key, value, &records->nodes[key.substr(kNodesPrefix.size())]);
  }
  if (key.starts_with(kLivePrefix)) {
    return Parse(key, value, &records->live[key.substr(kLivePrefix.size())]);
  }
  if (key.starts_with(kHotPrefix)) {
    return Parse(key, value, &records->hot[key.substr(kHotPrefix.size())]);
  }
  return OkStatus();  // A later version's.
}

MemberState StateOf(const v1::NodeRecord& node, bool is_live) {
  if (is_live) return node.draining() ? MemberState::kDraining : MemberState::kUp;
  return node.left() ? MemberState::kLeft : MemberState::kLost;
}

/// The first documents in order of their keys, so that all nodes take the same ones.
std::vector<HotDocument> HotDocumentsOf(const ClusterRecords& records) {
  std::vector<HotDocument> documents;
  for (const auto& [hash, hot] : records.hot) {
    auto document = FromProto(hot.record);
    const bool is_sound = document.ok() && document->lease != 0 &&
                          HotKey(document->placement_hash) == std::string(kHotPrefix) + hash;
    if (!is_sound) continue;
    document->revision = hot.mod_revision;
    documents.push_back(*std::move(document));
    if (documents.size() == kMaxHotDocuments) break;
  }
  return documents;
}

}  // namespace

std::string ClusterPrefix(std::string_view cluster_name) {
  return std::string(kAllClusters) + std::string(cluster_name) + "/";
}
std::string NodeKey(std::string_view node) { return std::string(kNodesPrefix) + std::string(node); }
std::string LiveKey(std::string_view node) { return std::string(kLivePrefix) + std::string(node); }
std::string HotKey(uint64_t placement_hash) {
  std::ostringstream key;
  key << kHotPrefix << std::hex << std::setw(16) << std::setfill('0') << placement_hash;
  return key.str();
}

StatusOr<ClusterRecords> ParseRecords(const EtcdSnapshot& snapshot) {
  ClusterRecords records;
  records.revision = snapshot.revision;
  for (const auto& [key, value] : snapshot.keys) {
    QUIRE_RETURN_IF_ERROR(ParseKey(key, value, &records));
  }
  return records;
}

uint64_t RevisionBase(const v1::ClusterRecord& cluster) {
  return cluster.restores().empty() ? 0 : cluster.restores().rbegin()->revision_base();
}

bool HasLost(const v1::ClusterRecord& cluster, uint64_t revision) {
  return std::ranges::any_of(cluster.restores(), [&](const v1::ClusterRestore& restore) {
    return revision > restore.backup_revision() && revision < restore.revision_base();
  });
}

ClusterView ViewOf(std::string_view cluster_name, const ClusterRecords& records) {
  ClusterView view{.name = std::string(cluster_name),
                   .id = records.cluster ? records.cluster->record.cluster_id() : "",
                   .epoch = static_cast<uint64_t>(records.revision)};
  if (records.cluster) view.epoch += RevisionBase(records.cluster->record);
  // Records that a later version wrote out of our ranges do not stop the view.
  view.settings = FromProto(records.settings.record).value_or(ClusterSettings());
  for (const auto& [name, node] : records.nodes) {
    const auto live = records.live.find(name);
    const bool is_live =
        live != records.live.end() && live->second.record.node_id() == node.record.node_id();
    const auto member = FromProto(is_live ? live->second.record : node.record.last());
    if (!member.ok() || member->name != name) continue;
    view.members.push_back(*member);
    view.members.back().state = StateOf(node.record, is_live);
  }
  view.hot_documents = HotDocumentsOf(records);
  return view;
}

std::string ToJsonText(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  // Messages of strings and numbers always have a text.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

Status FromJsonText(std::string_view name, std::string_view text,
                    google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(text), message, options);
  if (status.ok()) return OkStatus();
  return InvalidArgument(name, ": is no JSON of a ", message->GetTypeName(), ": ",
                         std::string(status.message()));
}

}  // namespace quire::cluster
