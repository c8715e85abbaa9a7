// SPDX-License-Identifier: Apache-2.0
//
// EtcdProcess: an etcd of one member for tests, on loopback ports and with a data directory of its
// own. It can be killed and started again, with or without its data. The destructor ends it.
// Thread-safety: none.
#ifndef QUIRE_CLUSTER_ETCD_TESTING_ETCD_PROCESS_H_
#define QUIRE_CLUSTER_ETCD_TESTING_ETCD_PROCESS_H_

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/etcd/etcd_client.h"
#include "common/base/random.h"
#include "etcd/etcd.grpc.pb.h"
#include "tests/kit/child_process.h"
#include "tests/kit/temp_dir.h"

namespace quire::cluster::testing {

/// A loopback port that nothing listens on now. It is below those that the system gives out, so
/// that no program gets it by chance while etcd is down.
inline int FreePort() {
  constexpr uint64_t kFirst = 15000, kNumber = 17000;
  for (int tries = 0; tries < 100; ++tries) {
    const int port = static_cast<int>(kFirst + SystemRandom().Below(kNumber));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (is_free) return port;
  }
  throw std::runtime_error("cannot find a free port");
}

class EtcdProcess {
 public:
  EtcdProcess()
      : address_("127.0.0.1:" + std::to_string(FreePort())),
        peer_("127.0.0.1:" + std::to_string(FreePort())) {
    Start();
  }

  const std::string& address() const { return address_; }

  /// Starts it and waits until it answers.
  void Start() {
    const std::string client_url = "http://" + address_, peer_url = "http://" + peer_;
    const std::vector<std::string> args = {
        "--data-dir", dir_ / "data", "--name", "test", "--listen-client-urls", client_url,
        "--advertise-client-urls", client_url, "--listen-peer-urls", peer_url,
        "--initial-advertise-peer-urls", peer_url, "--initial-cluster", "test=" + peer_url,
        // Tests kill processes, and never the machine.
        "--heartbeat-interval", "20", "--election-timeout", "100", "--logger", "zap",
        "--log-outputs", "stderr"};
    process_ = std::make_unique<quire::testing::ChildProcess>("/usr/bin/etcd", args, dir_ / "err");
    const auto client =
        EtcdClient::Create({.endpoints = {address_}, .call_timeout = std::chrono::seconds(20)});
    if (const auto range = client.value()->ReadPrefix("/"); !range.ok()) {
      throw std::runtime_error(range.status().ToString() + process_->Stderr());
    }
  }
  void Kill() {
    process_->Signal(SIGKILL);
    process_->Wait();
  }
  /// Forgets the history before its newest revision.
  void Compact() const {
    const auto kv = etcdserverpb::KV::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    grpc::ClientContext read, compact;
    etcdserverpb::RangeRequest nothing;
    nothing.set_key("/");
    etcdserverpb::RangeResponse newest;
    grpc::Status status = kv->Range(&read, nothing, &newest);
    etcdserverpb::CompactionRequest request;
    request.set_revision(newest.header().revision());
    request.set_physical(true);
    etcdserverpb::CompactionResponse response;
    if (status.ok()) status = kv->Compact(&compact, request, &response);
    if (!status.ok()) throw std::runtime_error("compaction: " + status.error_message());
  }
  /// Removes all that it stored, while it is stopped.
  void LoseData() { std::filesystem::remove_all(dir_ / "data"); }

 private:
  const quire::testing::TempDir dir_;
  const std::string address_;
  const std::string peer_;
  std::unique_ptr<quire::testing::ChildProcess> process_;
};

}  // namespace quire::cluster::testing

#endif  // QUIRE_CLUSTER_ETCD_TESTING_ETCD_PROCESS_H_
