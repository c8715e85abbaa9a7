// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/testing/fault_engine.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {

void FaultEngine::Inject(Kind kind, IoFault fault, uint64_t skip) {
  MutexLock lock(mutex_);
  injected_.push_back({kind, fault, skip});
}

void FaultEngine::FailNextSync(int error) {
  MutexLock lock(mutex_);
  sync_error_ = error;
}

std::optional<IoFault> FaultEngine::Next(Kind kind) {
  MutexLock lock(mutex_);
  for (auto it = injected_.begin(); it != injected_.end(); ++it) {
    if (it->kind != kind) continue;
    if (it->skip-- > 0) return std::nullopt;
    const IoFault fault = it->fault;
    injected_.erase(it);
    return fault;
  }
  return std::nullopt;
}

void FaultEngine::FailEverything(int error) { gone_error_.store(error); }

void FaultEngine::Run(IoStream& stream) {
  while (IoRequest* const request = stream.Next()) {
    RunNext(*request);
    stream.Ended(*request);
  }
}

void FaultEngine::RunNext(IoRequest& request) {
  if (const int error = gone_error_.load(); error != 0) {
    request.error = error;
    hits_.Add();
    return;
  }
  std::vector<Replaced> replaced;
  if (request.kind == Kind::kWrite) replaced = BlocksUnder(request);
  if (const auto fault = Next(request.kind)) {
    RunFaulty(request, *fault);
  } else {
    RunOne(request);
  }
  MutexLock lock(mutex_);
  std::ranges::move(replaced, std::back_inserter(replaced_));
}

void FaultEngine::RunOne(IoRequest& request) { inner_->RunAll({&request, 1}); }

void FaultEngine::RunHalf(IoRequest& request) {
  IoRequest half = request;
  half.length = RoundDown(request.length / 2, kBlockBytes);
  RunOne(half);
  request.done = half.done;
  request.error = half.error;
}

void FaultEngine::RunFaulty(IoRequest& request, IoFault fault) {
  if (fault != IoFault::kPause) hits_.Add();
  switch (fault) {
    case IoFault::kIoError:
      request.error = EIO;
      return;
    case IoFault::kNoSpace:
      request.error = ENOSPC;
      return;
    case IoFault::kShortWrite:
      RunHalf(request);
      request.error = ENOSPC;
      return;
    case IoFault::kTornWrite:
      RunHalf(request);
      request.done = request.length;
      return;
    case IoFault::kBitFlip:
      RunOne(request);
      if (request.done > 0) request.buffer[request.done / 2] ^= std::byte{0x10};
      return;
    case IoFault::kPause:
      Pause();
      RunOne(request);
      return;
  }
}

void FaultEngine::Pause() {
  MutexLock lock(mutex_);
  ++paused_;
  changed_.NotifyAll();
  const uint64_t resumed = resumed_;
  while (resumed_ == resumed) changed_.Wait(mutex_);
  --paused_;
}

void FaultEngine::AwaitPaused(uint64_t count) {
  MutexLock lock(mutex_);
  while (paused_ < count) changed_.Wait(mutex_);
}

void FaultEngine::Resume() {
  MutexLock lock(mutex_);
  ++resumed_;
  changed_.NotifyAll();
}

std::vector<FaultEngine::Replaced> FaultEngine::BlocksUnder(const IoRequest& write) {
  AlignedBufferPool pool({});
  const AlignedBuffer buffer = pool.Take(write.length).value();
  IoRequest before = IoRequest::Read(write.fd, write.offset, buffer.bytes());
  RunOne(before);
  std::vector<Replaced> blocks;
  for (uint64_t at = 0; at < before.done; at += kBlockBytes) {
    const auto block = buffer.bytes().subspan(at, std::min(kBlockBytes, before.done - at));
    blocks.push_back({write.fd, write.offset + at, {block.begin(), block.end()}});
  }
  return blocks;
}

int FaultEngine::Sync(int fd) {
  {
    MutexLock lock(mutex_);
    const int gone = gone_error_.load();
    if (const int error = gone != 0 ? gone : std::exchange(sync_error_, 0); error != 0) {
      hits_.Add();
      return error;
    }
    std::erase_if(replaced_, [fd](const Replaced& block) { return block.fd == fd; });
  }
  return inner_->Sync(fd);
}

void FaultEngine::LosePower(uint64_t seed) {
  MutexLock lock(mutex_);
  SeededRandom random(seed);
  AlignedBufferPool pool({});
  // Newest first, so that a block written twice ends with its contents at the sync.
  for (auto block = replaced_.rbegin(); block != replaced_.rend(); ++block) {
    if (random.Below(3) == 0) continue;
    const AlignedBuffer buffer = pool.Take(block->bytes.size()).value();
    std::copy(block->bytes.begin(), block->bytes.end(), buffer.bytes().begin());
    IoRequest restore = IoRequest::Write(block->fd, block->offset, buffer.bytes());
    RunOne(restore);
  }
  replaced_.clear();
}

}  // namespace quire::kvserver
