// SPDX-License-Identifier: Apache-2.0
//
// NodeDisk: what a node stores on, and what can happen to it. It is a directory, or a file system
// of its own in a file, which can also be full and fail. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_NODE_DISK_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_NODE_DISK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/random.h"
#include "quire/status.h"

namespace quire::torture {

class NodeDisk {
 public:
  enum class Kind : uint8_t {
    kDirectory,
    kMounted,  ///< ext4, mounted with `mount -o loop`. Make it in a private system only.
  };
  /// Makes the disk at `path`, where nothing is. Errors of all methods are UNAVAILABLE.
  static StatusOr<std::unique_ptr<NodeDisk>> Make(std::string path, Kind kind);

  /// Directory for the node's data, which may not exist yet.
  std::string data_dir() const { return path_ + "/data"; }

  /// Takes all space that is free, of a mounted disk.
  [[nodiscard]] Status Fill();
  /// Gives it back.
  [[nodiscard]] Status Free();
  /// From now on every access to a mounted disk fails, and unsynced bytes are lost.
  [[nodiscard]] Status Break();
  /// Takes a mounted disk into use again, once no process uses it.
  [[nodiscard]] Status Mend();
  /// Flips a bit in each of up to `most` blocks of payload, of a node that does not run. Returns
  /// the number of bits.
  StatusOr<uint32_t> FlipBits(uint32_t most, Random& random) const;
  /// Removes all data, of a node that does not run.
  [[nodiscard]] Status Lose();

 private:
  NodeDisk(std::string path, Kind kind) : path_(std::move(path)), kind_(kind) {}
  std::string image() const { return path_ + ".img"; }
  std::string ballast() const { return path_ + "/ballast"; }
  Status Mount() const;
  Status Unmount() const;

  const std::string path_;
  const Kind kind_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_NODE_DISK_H_
