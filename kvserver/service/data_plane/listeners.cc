// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/listeners.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "common/base/memory/checksum.h"
#include "common/base/net_address.h"
#include "common/base/utf8.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/server.h"
#include "transport/shm/shm_listener.h"
#include "transport/ucx/ucx.h"

namespace quire::kvserver {
namespace {

constexpr std::array<std::string_view, 3> kKnown = {"grpc", "shm", "ucx"};

Status CheckKnown(const ListenerOptions& options) {
  for (const std::string& name : options.transports) {
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      return InvalidArgument("--transports: there is no '", name, "'; there are grpc, shm and ucx");
    }
  }
  return OkStatus();
}

/// UNIMPLEMENTED for a named transport that is not built.
Status CheckBuilt(const ListenerOptions& options, std::span<const ListenerKind> kinds) {
  for (const std::string& name : options.transports) {
    if (name != "grpc" && std::ranges::find(kinds, name, &ListenerKind::kind) == kinds.end()) {
      return Unimplemented("--transports: this program was built without ", name,
                           "; leave it away, or build where its library is installed");
    }
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<PipeListener>> ListenShm(const ListenerContext& context,
                                                  PipeListener::Accept accept) {
  if (FirstInvalidUtf8(context.options.shm_socket)) {
    return InvalidArgument("--shm-socket is no UTF-8 text, which clients are told it in");
  }
  ShmListener::Options options;
  options.path = context.options.shm_socket;
  options.max_frame_bytes = context.server_options.max_message_bytes + kMaxFrameHeadBytes;
  // A client that maps the arena sees all of it.
  options.share_memory = context.server_options.tenants.size() == 1;
  options.max_connections = context.server_options.max_connections;
  options.stall_timeout = std::chrono::seconds(context.server_options.stall_seconds);
  options.max_lease = std::chrono::seconds(context.server_options.lease_seconds);
  options.same_user_only = !context.options.shm_any_user;
  options.health = context.server_options.health;
  if (const auto memory = context.server.shared_memory()) options.memory.push_back(*memory);
  return ShmListener::Listen(options, std::move(accept));
}

StatusOr<std::unique_ptr<PipeListener>> ListenUcxPipes(const ListenerContext& context,
                                                       PipeListener::Accept accept) {
  UcxOptions options = context.options.ucx;
  options.max_frame_bytes = context.server_options.max_message_bytes + kMaxFrameHeadBytes;
  return ListenUcx(context.options.ucx_listen, options, std::move(accept));
}

}  // namespace

bool ListenerOptions::Wants(std::string_view kind) const {
  return transports.empty() || std::ranges::find(transports, kind) != transports.end();
}

std::span<const ListenerKind> ListenerKinds() {
  static constexpr std::array<ListenerKind, 2> kAll = {
      {{"shm", &ListenShm}, {"ucx", &ListenUcxPipes}}};
  return std::span(kAll).first(UcxAvailable() ? 2 : 1);
}

StatusOr<std::vector<LeftOut>> StartListeners(const ListenerContext& context,
                                              std::span<const ListenerKind> kinds) {
  const ListenerOptions& options = context.options;
  QUIRE_RETURN_IF_ERROR(CheckKnown(options));
  QUIRE_RETURN_IF_ERROR(CheckBuilt(options, kinds));
  DataPlane& data_plane = context.server.data_plane();
  std::vector<LeftOut> left_out;
  for (const ListenerKind& kind : kinds) {
    if (!options.Wants(kind.kind)) continue;
    auto listener = kind.listen(context, data_plane.accept());
    if (listener.ok()) {
      data_plane.Add(*std::move(listener));
    } else if (options.transports.empty()) {
      left_out.emplace_back(kind.kind, listener.status());
    } else {
      return Annotate(listener.status(), "--transports ", kind.kind);
    }
  }
  return left_out;
}

std::string DefaultShmSocket(const std::string& data_dir) {
  constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
  std::string path = (std::filesystem::path(data_dir) / "quire.sock").string();
  if (path.size() <= kLongestPath && !FirstInvalidUtf8(path)) return path;
  char name[32];
  std::snprintf(name, sizeof name, "quire-%08" PRIx32 ".sock",
                Crc32c(std::as_bytes(std::span(data_dir))));
  return (std::filesystem::temp_directory_path() / name).string();
}

std::string DefaultUcxListen(const std::string& listen) {
  const auto address = NetAddress::ParseListen(listen);
  return address.ok() && !address->is_unix() ? address->WithPort(0).Text() : "127.0.0.1:0";
}

}  // namespace quire::kvserver
