// SPDX-License-Identifier: Apache-2.0
//
// UcxPipe: a UcxConnection as a FramePipe.
#ifndef QUIRE_TRANSPORT_UCX_UCX_PIPE_H_
#define QUIRE_TRANSPORT_UCX_UCX_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/frame_pipe.h"
#include "transport/ucx/ucx_connection.h"

namespace quire {

class UcxPipe final : public FramePipe {
 public:
  explicit UcxPipe(std::shared_ptr<UcxConnection> connection)
      : connection_(std::move(connection)) {}
  ~UcxPipe() override { Close(); }

  PipeCapabilities capabilities() const override { return connection_->capabilities(); }
  void Start(FrameReceiver* receiver) override { connection_->Start(receiver); }
  Status Send(Frame frame) override { return connection_->Send(std::move(frame)); }
  StatusOr<std::string> AddLanding(uint64_t id, std::span<std::byte> memory) override {
    return connection_->AddLanding(id, memory);
  }
  void RemoveLanding(uint64_t id) override { connection_->RemoveLanding(id); }
  Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) override {
    return connection_->OpenLanding(id, key, bytes);
  }
  void CloseLanding(uint64_t id) override { connection_->CloseLanding(id); }
  void Close() override { connection_->Close(); }

  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override {
    return connection_->AllocateLandingMemory(bytes);
  }

 private:
  const std::shared_ptr<UcxConnection> connection_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_PIPE_H_
