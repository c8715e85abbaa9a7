// SPDX-License-Identifier: Apache-2.0
//
// ShmServerPipe: the server end of a shared-memory connection. It lends payload where possible
// (shm_lender.h). It receives through the socket into memory of its own, except large payload that
// the client lends (shm_client_memory.h).
#ifndef QUIRE_TRANSPORT_SHM_SHM_SERVER_PIPE_H_
#define QUIRE_TRANSPORT_SHM_SHM_SERVER_PIPE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "transport/frame_pipe.h"
#include "transport/shm/shm_client_memory.h"
#include "transport/shm/shm_lender.h"
#include "transport/shm/shm_loop.h"
#include "transport/shm/shm_regions.h"
#include "transport/shm/shm_stream.h"

namespace quire {

class ShmServerPipe final : public FramePipe, private ShmStream::Receiver {
 public:
  struct Options {
    uint64_t max_frame_bytes = 0;
    ShmLender::Options lender;
    uint64_t max_queued_bytes = 0;
    Duration stall_timeout = Duration::zero();
    std::string detail = {};  ///< See PipeCapabilities.
  };

  /// Greets the client.
  ShmServerPipe(std::shared_ptr<ShmLoop> loop, UniqueFd socket,
                std::shared_ptr<const ShmRegions> regions, std::shared_ptr<ShmUse> use,
                const Options& options);
  ~ShmServerPipe() override;

  PipeCapabilities capabilities() const override;
  void Start(FrameReceiver* receiver) override;
  Status Send(Frame frame) override;
  void Close() override;

 private:
  Status OnPacket(ShmPacket& packet) override;
  void OnEnd(const Status& why) override;

  const Options options_;
  const std::shared_ptr<ShmLoop> loop_;
  const std::shared_ptr<ShmUse> use_;
  const bool in_place_;
  const std::shared_ptr<ShmStream> stream_;
  ShmLender lender_;
  ShmClientMemory client_memory_;
  FrameReceiver* receiver_ = nullptr;  ///< Set before the stream starts.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_SERVER_PIPE_H_
