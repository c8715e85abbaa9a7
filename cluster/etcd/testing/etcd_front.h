// SPDX-License-Identifier: Apache-2.0
//
// EtcdFront: stands before a real etcd for tests. It hands calls for keys on, and can lose replies.
// A watch ends as at a member without a leader. Thread-safety: the fields may be used at any time.
#ifndef QUIRE_CLUSTER_ETCD_TESTING_ETCD_FRONT_H_
#define QUIRE_CLUSTER_ETCD_TESTING_ETCD_FRONT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <string>

#include "etcd/etcd.grpc.pb.h"

namespace quire::cluster::testing {

class EtcdFront final : private etcdserverpb::KV::Service, private etcdserverpb::Watch::Service {
 public:
  explicit EtcdFront(const std::string& etcd)
      : etcd_(etcdserverpb::KV::NewStub(
            grpc::CreateChannel(etcd, grpc::InsecureChannelCredentials()))) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Watch::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~EtcdFront() override { server_->Shutdown(); }

  const std::string& address() const { return address_; }

  std::atomic<int> replies_to_lose{0};    ///< Changes that are carried out without an answer.
  std::atomic<bool> needs_leader{false};  ///< The last watch asked for a member with a leader.

 private:
  grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* response) override {
    grpc::ClientContext context;
    return etcd_->Range(&context, *request, response);
  }
  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    grpc::ClientContext context;
    const grpc::Status status = etcd_->Txn(&context, *request, response);
    const bool is_change = request->compare_size() > 0;
    if (!is_change || replies_to_lose == 0) return status;
    --replies_to_lose;
    return {grpc::StatusCode::UNAVAILABLE, "the reply was lost"};
  }
  grpc::Status Watch(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<etcdserverpb::WatchResponse, etcdserverpb::WatchRequest>*) override {
    const auto asked = context->client_metadata().find("hasleader");
    needs_leader = asked != context->client_metadata().end() && asked->second == "true";
    return {grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader"};
  }

  const std::unique_ptr<etcdserverpb::KV::Stub> etcd_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quire::cluster::testing

#endif  // QUIRE_CLUSTER_ETCD_TESTING_ETCD_FRONT_H_
