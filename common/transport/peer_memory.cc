// SPDX-License-Identifier: Apache-2.0
#include "common/transport/peer_memory.h"

#include <limits.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace quire {

uint64_t PeerMemory::OwnProcess() { return static_cast<uint64_t>(getpid()); }

bool PeerMemory::Has(uint64_t address, std::span<const uint8_t> bytes) const {
  std::vector<std::byte> there(bytes.size());
  const Piece piece{.from = address, .to = there};
  return !bytes.empty() && Read({&piece, 1}).ok() &&
         std::memcmp(there.data(), bytes.data(), bytes.size()) == 0;
}

Status PeerMemory::Read(std::span<const Piece> pieces) const {
  if (process_ == 0 || process_ > INT32_MAX) return Unavailable("there is no process to read");
  std::vector<iovec> from, to;
  while (!pieces.empty()) {
    const auto now = pieces.first(std::min<size_t>(pieces.size(), IOV_MAX));
    pieces = pieces.subspan(now.size());
    from.clear();
    to.clear();
    size_t bytes = 0;
    for (const Piece& piece : now) {
      from.push_back({reinterpret_cast<void*>(piece.from), piece.to.size()});
      to.push_back({piece.to.data(), piece.to.size()});
      bytes += piece.to.size();
    }
    const ssize_t read = process_vm_readv(static_cast<pid_t>(process_), to.data(), to.size(),
                                          from.data(), from.size(), 0);
    if (read == static_cast<ssize_t>(bytes)) continue;
    return Unavailable("the memory of process ", process_,
                       " cannot be read: ", read < 0 ? std::strerror(errno) : "it is not there");
  }
  return OkStatus();
}

}  // namespace quire
