// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/raw_grpc.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/kit/filled_pages.h"
#include "common/base/random.h"
#include "transport/net/local_sockets.h"

namespace quire::bench {
namespace {

constexpr std::chrono::seconds kConnectTime(10);
constexpr char kMethod[] = "/quire.bench.Raw/Read";
using Writer = grpc::ServerWriter<grpc::ByteBuffer>;

uint64_t UnitsPerMessage(const RawGrpcShape& shape) {
  return std::max<uint64_t>(1, shape.message_bytes / shape.unit_bytes);
}

std::vector<uint64_t> Shuffled(uint64_t count, SeededRandom& random) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

class RawService final : public grpc::Service {
 public:
  explicit RawService(const RawGrpcShape& shape)
      : shape_(shape), memory_(shape.num_units * shape.unit_bytes) {
    for (uint64_t i = 0; i < shape.num_units; ++i) {
      std::memcpy(Unit(i), &i, sizeof i);
    }
    using Handler =
        grpc::internal::ServerStreamingHandler<RawService, grpc::ByteBuffer, grpc::ByteBuffer>;
    const auto read = [](RawService* self, grpc::ServerContext* context,
                         const grpc::ByteBuffer* request, Writer* writer) {
      DoNotPaceLocalConnectionsTo(PortOf(context->peer()));  // As the transport's server does.
      return self->Read(*request, writer);
    };
    AddMethod(new grpc::internal::RpcServiceMethod(  // The service takes ownership.
        kMethod, grpc::internal::RpcMethod::SERVER_STREAMING, new Handler(read, this)));
  }

 private:
  grpc::Status Read(const grpc::ByteBuffer& request, Writer* writer) const {
    grpc::Slice bytes;
    uint64_t seed = 0;
    if (!request.DumpToSingleSlice(&bytes).ok() || bytes.size() != sizeof seed) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "a seed is 8 bytes"};
    }
    std::memcpy(&seed, bytes.begin(), sizeof seed);
    SeededRandom random(seed);
    std::vector<uint64_t> order = Shuffled(shape_.num_units, random);
    order.resize(shape_.units_per_read);
    const std::vector<uint64_t> places = Shuffled(shape_.units_per_read, random);
    const uint64_t step = UnitsPerMessage(shape_);
    for (uint64_t first = 0; first < order.size(); first += step) {
      const uint64_t count = std::min<uint64_t>(step, order.size() - first);
      if (!writer->Write(Message(std::span(order).subspan(first, count),
                                 std::span(places).subspan(first, count)))) {
        return grpc::Status::CANCELLED;
      }
    }
    return grpc::Status::OK;
  }

  std::byte* Unit(uint64_t unit) const { return memory_.bytes().data() + unit * shape_.unit_bytes; }

  grpc::ByteBuffer Message(std::span<const uint64_t> units,
                           std::span<const uint64_t> places) const {
    std::vector<grpc::Slice> slices;
    slices.emplace_back(places.data(), places.size_bytes());
    for (const uint64_t unit : units) {
      slices.emplace_back(Unit(unit), shape_.unit_bytes, grpc::Slice::STATIC_SLICE);
    }
    return grpc::ByteBuffer(slices.data(), slices.size());
  }

  const RawGrpcShape shape_;
  const FilledPages memory_;
};

/// Reads a message's bytes in order, across its slices.
class MessageReader {
 public:
  explicit MessageReader(const grpc::ByteBuffer& buffer) : bytes_(buffer.Length()) {
    if (!buffer.Dump(&slices_).ok()) bytes_ = 0;
  }
  uint64_t bytes() const { return bytes_; }
  void Read(std::byte* out, uint64_t bytes) {
    while (bytes > 0) {
      const grpc::Slice& slice = slices_[slice_];
      const uint64_t part = std::min<uint64_t>(bytes, slice.size() - offset_);
      std::memcpy(out, slice.begin() + offset_, part);
      out += part;
      bytes -= part;
      offset_ += part;
      if (offset_ < slice.size()) continue;
      ++slice_;
      offset_ = 0;
    }
  }

 private:
  uint64_t bytes_;
  std::vector<grpc::Slice> slices_;
  size_t slice_ = 0;
  uint64_t offset_ = 0;
};

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return arguments;
}

}  // namespace

RawGrpcServer::RawGrpcServer() = default;

StatusOr<std::unique_ptr<RawGrpcServer>> RawGrpcServer::Start(const RawGrpcShape& shape) {
  std::unique_ptr<RawGrpcServer> self(new RawGrpcServer());
  self->service_ = std::make_unique<RawService>(shape);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &self->port_);
  builder.RegisterService(self->service_.get());
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return Unavailable("cannot listen on loopback");
  return self;
}

RawGrpcServer::~RawGrpcServer() {
  if (server_ != nullptr) server_->Shutdown();
}

RawGrpcClient::RawGrpcClient(const RawGrpcShape& shape, const std::string& address,
                             std::span<std::byte> places)
    : shape_(shape),
      channel_(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), Arguments())),
      places_(places) {
  if (channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectTime)) {
    DoNotPaceLocalConnectionsTo(PortOf(address));  // As the transport's client does.
  }
}

Status RawGrpcClient::Read(uint64_t seed) {
  const grpc::Slice seed_slice(&seed, sizeof seed);
  const grpc::ByteBuffer request(&seed_slice, 1);
  const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::SERVER_STREAMING);
  grpc::ClientContext context;
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel_.get(), method,
                                                                    &context, request));
  uint64_t placed = 0;
  std::vector<uint64_t> places;
  for (grpc::ByteBuffer message; reader->Read(&message);) {
    MessageReader bytes(message);
    const uint64_t count = bytes.bytes() / (shape_.unit_bytes + sizeof(uint64_t));
    places.resize(count);
    bytes.Read(reinterpret_cast<std::byte*>(places.data()), count * sizeof(uint64_t));
    for (const uint64_t place : places) {
      if (place >= shape_.units_per_read) return Internal("the raw gRPC server named no place");
      bytes.Read(places_.data() + place * shape_.unit_bytes, shape_.unit_bytes);
    }
    placed += count;
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return Unavailable("the raw gRPC stream ended: ", status.error_message());
  return placed == shape_.units_per_read ? OkStatus() : Internal("the raw gRPC stream ended early");
}

}  // namespace quire::bench
