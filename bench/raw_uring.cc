// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_uring.h"

#include <liburing.h>

#include <cstdlib>
#include <cstring>

namespace quire::bench {

void RawUring::FreeDeleter::operator()(std::byte* memory) const { std::free(memory); }

RawUring::RawUring(uint32_t depth, uint64_t block_bytes)
    : depth_(depth),
      block_bytes_(block_bytes),
      ring_(std::make_unique<io_uring>()),
      buffers_(static_cast<std::byte*>(std::aligned_alloc(4096, depth * block_bytes))) {
  std::memset(buffers_.get(), 1, depth * block_bytes);
}

RawUring::~RawUring() {
  if (set_up_) io_uring_queue_exit(ring_.get());
}

StatusOr<std::unique_ptr<RawUring>> RawUring::Create(uint32_t depth, uint64_t block_bytes) {
  std::unique_ptr<RawUring> raw(new RawUring(depth, block_bytes));
  const int error = io_uring_queue_init(depth, raw->ring_.get(), 0);
  if (error != 0) return Unavailable("io_uring cannot be set up: ", std::strerror(-error));
  raw->set_up_ = true;
  return raw;
}

Status RawUring::Run(Kind kind, std::span<const RawTransfer> transfers) {
  auto next = transfers.begin();
  const auto push = [&](uint64_t slot) {
    io_uring_sqe* const sqe = io_uring_get_sqe(ring_.get());
    std::byte* const buffer = buffers_.get() + slot * block_bytes_;
    const auto length = static_cast<unsigned>(block_bytes_);
    if (kind == Kind::kRead) {
      io_uring_prep_read(sqe, next->fd, buffer, length, next->offset);
    } else {
      io_uring_prep_write(sqe, next->fd, buffer, length, next->offset);
    }
    io_uring_sqe_set_data64(sqe, slot);
    ++next;
  };
  for (uint64_t slot = 0; slot < depth_ && next != transfers.end(); ++slot) push(slot);
  Status status;
  for (size_t done = 0; done < transfers.size();) {
    const int submitted = io_uring_submit_and_wait(ring_.get(), 1);
    if (submitted < 0) return Unavailable("io_uring: ", std::strerror(-submitted));
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
      const uint64_t slot = io_uring_cqe_get_data64(cqe);
      if (cqe->res != static_cast<int>(block_bytes_)) {
        status = Unavailable("a raw transfer moved ", cqe->res, " of ", block_bytes_, " bytes");
      }
      io_uring_cqe_seen(ring_.get(), cqe);
      ++done;
      if (next != transfers.end()) push(slot);
    }
  }
  return status;
}

}  // namespace quire::bench
