// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/node_disk.h"

#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/torture/cluster/await.h"
#include "bench/torture/file_damage.h"
#include "bench/torture/network/system_tool.h"
#include "common/base/unique_fd.h"

namespace quire::torture {
namespace {

namespace fs = std::filesystem;

constexpr off_t kDiskBytes = off_t{448} << 20;
constexpr off_t kLargestPiece = off_t{64} << 20;
constexpr size_t kBlock = 4096;
/// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of Linux's fs/ext4/ext4.h.
constexpr unsigned long kShutDown = _IOR('X', 125, uint32_t);
constexpr uint32_t kWithoutFlush = 2;

Status Failed(const std::string& what) {
  return Unavailable("cannot ", what, ": ", std::strerror(errno));
}

struct Block {
  std::string file;
  uint64_t offset;
};

/// Appends the blocks of a volume that hold payload; the first one is its header.
Status FindPayload(const std::string& file, std::vector<Block>* blocks) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Failed("open " + file);
  std::array<char, kBlock> bytes;
  for (off_t at = kBlock; (at = lseek(fd.get(), at, SEEK_DATA)) >= 0;
       at += static_cast<off_t>(kBlock)) {
    if (pread(fd.get(), bytes.data(), kBlock, at) != static_cast<ssize_t>(kBlock)) break;
    const bool is_used = std::ranges::any_of(bytes, [](char c) { return c != 0; });
    if (is_used) blocks->push_back({file, static_cast<uint64_t>(at)});
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<NodeDisk>> NodeDisk::Make(std::string path, Kind kind) {
  std::unique_ptr<NodeDisk> disk(new NodeDisk(std::move(path), kind));
  if (mkdir(disk->path_.c_str(), S_IRWXU) != 0) return Failed("make " + disk->path_);
  if (kind == Kind::kDirectory) return disk;
  const UniqueFd image(
      open(disk->image().c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!image.valid() || ftruncate(image.get(), kDiskBytes) != 0) {
    return Failed("make " + disk->image());
  }
  QUIRE_RETURN_IF_ERROR(RunTool({"mkfs.ext4", "-q", "-m", "0", disk->image()}));
  QUIRE_RETURN_IF_ERROR(disk->Mount());
  return disk;
}

Status NodeDisk::Mount() const { return RunTool({"mount", "-o", "loop", image(), path_}); }

Status NodeDisk::Unmount() const {
  // The kernel may still close files of a process that was killed.
  return Await("unmounting " + path_,
               [this] { return umount(path_.c_str()) == 0 || errno == EINVAL; });
}

Status NodeDisk::Fill() {
  const UniqueFd fd(open(ballast().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.valid()) return Failed("make " + ballast());
  off_t size = 0;
  for (off_t piece = kLargestPiece; piece >= static_cast<off_t>(kBlock);) {
    if (fallocate(fd.get(), 0, size, piece) == 0) {
      size += piece;
    } else if (errno == ENOSPC) {
      piece /= 2;
    } else {
      return Failed("fill " + path_);
    }
  }
  return OkStatus();
}

Status NodeDisk::Free() {
  return unlink(ballast().c_str()) == 0 ? OkStatus() : Failed("remove " + ballast());
}

Status NodeDisk::Break() {
  const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  uint32_t how = kWithoutFlush;
  if (fd.valid() && ioctl(fd.get(), kShutDown, &how) == 0) return OkStatus();
  return Failed("shut down " + path_);
}

Status NodeDisk::Mend() {
  QUIRE_RETURN_IF_ERROR(Unmount());
  return Mount();
}

StatusOr<uint32_t> NodeDisk::FlipBits(uint32_t most, Random& random) const {
  std::vector<std::string> volumes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data_dir() + "/payload", error)) {
    if (entry.path().extension() == ".vol") volumes.push_back(entry.path().string());
  }
  if (error) return Unavailable("cannot read ", data_dir(), "/payload: ", error.message());
  std::ranges::sort(volumes);
  std::vector<Block> blocks;
  for (const std::string& volume : volumes) QUIRE_RETURN_IF_ERROR(FindPayload(volume, &blocks));
  uint32_t flipped = 0;
  for (; flipped < most && !blocks.empty(); ++flipped) {
    std::swap(blocks[random.Below(blocks.size())], blocks.back());
    const Block& block = blocks.back();
    QUIRE_RETURN_IF_ERROR(
        FlipBit(block.file, block.offset + random.Below(kBlock), random.Below(8)));
    blocks.pop_back();
  }
  return flipped;
}

Status NodeDisk::Lose() {
  if (kind_ == Kind::kMounted) QUIRE_RETURN_IF_ERROR(Unmount());
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) return Unavailable("cannot remove the disk ", path_, ": ", error.message());
  return OkStatus();
}

}  // namespace quire::torture
