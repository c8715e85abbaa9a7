// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/raw_uring.h"

#include <liburing.h>

#include <cstring>

namespace quire::bench {

RawUring::RawUring(uint32_t depth, uint64_t block_bytes, std::span<std::byte> memory)
    : depth_(depth),
      block_bytes_(block_bytes),
      memory_(memory),
      ring_(std::make_unique<io_uring>()) {}

RawUring::~RawUring() {
  if (set_up_) io_uring_queue_exit(ring_.get());
}

StatusOr<std::unique_ptr<RawUring>> RawUring::Create(uint32_t depth, uint64_t block_bytes,
                                                     std::span<std::byte> memory) {
  std::unique_ptr<RawUring> raw(new RawUring(depth, block_bytes, memory));
  const int error = io_uring_queue_init(depth, raw->ring_.get(), 0);
  if (error != 0) return Unavailable("io_uring cannot be set up: ", std::strerror(-error));
  raw->set_up_ = true;
  return raw;
}

Status RawUring::Run(Kind kind, std::span<const RawTransfer> transfers) {
  const uint64_t places = memory_.size() / block_bytes_;
  auto next = transfers.begin();
  const auto push = [&] {
    io_uring_sqe* const sqe = io_uring_get_sqe(ring_.get());
    const auto number = static_cast<uint64_t>(next - transfers.begin());
    std::byte* const buffer = memory_.data() + number % places * block_bytes_;
    const auto length = static_cast<unsigned>(block_bytes_);
    if (kind == Kind::kRead) {
      io_uring_prep_read(sqe, next->fd, buffer, length, next->offset);
    } else {
      io_uring_prep_write(sqe, next->fd, buffer, length, next->offset);
    }
    ++next;
  };
  for (uint64_t i = 0; i < depth_ && next != transfers.end(); ++i) push();
  Status status;
  for (size_t done = 0; done < transfers.size();) {
    const int submitted = io_uring_submit_and_wait(ring_.get(), 1);
    if (submitted < 0) return Unavailable("io_uring: ", std::strerror(-submitted));
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
      if (cqe->res != static_cast<int>(block_bytes_)) {
        status = Unavailable("a raw transfer moved ", cqe->res, " of ", block_bytes_, " bytes");
      }
      io_uring_cqe_seen(ring_.get(), cqe);
      ++done;
      if (next != transfers.end()) push();
    }
  }
  return status;
}

}  // namespace quire::bench
