// SPDX-License-Identifier: Apache-2.0
//
// OtlpCollector: a collector of spans over gRPC, for tests. Thread-safety: all methods may be
// called concurrently.
#ifndef QUIRE_TRANSPORT_TESTING_OTLP_COLLECTOR_H_
#define QUIRE_TRANSPORT_TESTING_OTLP_COLLECTOR_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/threads/mutex.h"
#include "otlp/trace.grpc.pb.h"
#include "quire/clock.h"

namespace quire::testing {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

/// A span and the service of its process.
struct CollectedSpan {
  std::string service;
  otlp::Span span;
};

class OtlpCollector final : public otlp::TraceService::Service {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(30);

  /// Listens on `port` of this host; 0: any free one. Answers with `answer`.
  explicit OtlpCollector(int port = 0, grpc::Status answer = grpc::Status::OK,
                         otlp::ExportTraceServiceResponse response = {})
      : answer_(std::move(answer)), response_(std::move(response)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) throw std::runtime_error("the collector cannot listen");
  }
  ~OtlpCollector() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    // Orders the last call before the end of the members: gRPC is not instrumented.
    const MutexLock lock(mutex_);
  }

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Export(grpc::ServerContext* context, const otlp::ExportTraceServiceRequest* request,
                      otlp::ExportTraceServiceResponse* response) override {
    MutexLock lock(mutex_);
    ++calls_;
    for (const auto& [key, value] : context->client_metadata()) {
      metadata_[{key.data(), key.size()}] = {value.data(), value.size()};
    }
    for (const otlp::ResourceSpans& process : request->resource_spans()) Keep(process);
    changed_.NotifyAll();
    *response = response_;
    return answer_;
  }

  /// All spans so far, once there are `count`.
  std::vector<CollectedSpan> Await(size_t count) QUIRE_EXCLUDES(mutex_) {
    const TimePoint end = SystemClock().Now() + kPatience;
    MutexLock lock(mutex_);
    while (spans_.size() < count && SystemClock().Now() < end) {
      (void)changed_.WaitFor(mutex_, end - SystemClock().Now());
    }
    return spans_;
  }
  uint64_t calls() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return calls_;
  }
  /// Metadata of all calls.
  std::map<std::string, std::string> metadata() const QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return metadata_;
  }

 private:
  void Keep(const otlp::ResourceSpans& process) QUIRE_REQUIRES(mutex_) {
    std::string service;
    for (const otlp::KeyValue& attribute : process.resource().attributes()) {
      if (attribute.key() == "service.name") service = attribute.value().string_value();
    }
    for (const otlp::ScopeSpans& scope : process.scope_spans()) {
      for (const otlp::Span& span : scope.spans()) spans_.push_back({service, span});
    }
  }

  const grpc::Status answer_;
  const otlp::ExportTraceServiceResponse response_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t calls_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::vector<CollectedSpan> spans_ QUIRE_GUARDED_BY(mutex_);
  std::map<std::string, std::string> metadata_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_OTLP_COLLECTOR_H_
