// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/node_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cluster/membership/cluster_records.h"
#include "common/base/random.h"
#include "common/base/small_file.h"
#include "common/base/unique_fd.h"

namespace quire::cluster {
namespace {

constexpr size_t kMaxIdentityBytes = 4096;

std::string IdentityPath(const std::string& data_dir) { return data_dir + "/cluster.json"; }

Status Failed(const std::string& path) {
  return Unavailable("cannot write ", path, ": ", std::strerror(errno));
}

Status WriteAndSync(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return Failed(path);
  const ssize_t written = write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fsync(file.get()) != 0) return Failed(path);
  return OkStatus();
}

}  // namespace

std::string NewId() {
  std::array<uint8_t, 16> bytes;
  SystemRandom().Fill(bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const uint8_t byte : bytes) id.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return id;
}

StatusOr<std::optional<v1::NodeIdentity>> ReadIdentity(const std::string& data_dir) {
  const std::string path = IdentityPath(data_dir);
  const auto file = ReadSmallFile(path, kMaxIdentityBytes);
  if (IsNotFound(file.status())) return std::optional<v1::NodeIdentity>();
  QUIRE_RETURN_IF_ERROR(file.status());
  v1::NodeIdentity identity;
  const Status status = FromJsonText(path, file->text, &identity);
  if (!status.ok() || identity.node_id().empty()) {
    return DataLoss(path, " names no node: restore it from a backup, or empty the data directory ",
                    "and remove the node from the cluster");
  }
  return std::optional(std::move(identity));
}

Status WriteIdentity(const std::string& data_dir, const v1::NodeIdentity& identity) {
  const std::string path = IdentityPath(data_dir), draft = path + ".new";
  QUIRE_RETURN_IF_ERROR(WriteAndSync(draft, ToJsonText(identity) + "\n"));
  if (std::rename(draft.c_str(), path.c_str()) != 0) return Failed(path);
  const UniqueFd directory(open(data_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) return Failed(path);
  return OkStatus();
}

}  // namespace quire::cluster
