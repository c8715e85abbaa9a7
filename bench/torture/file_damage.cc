// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/file_damage.h"

#include <fstream>
#include <ios>

namespace quire::torture {

Status Overwrite(const std::string& file, uint64_t offset, std::string_view bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  return stream.good() ? OkStatus() : Unavailable("cannot damage ", file);
}

Status FlipBit(const std::string& file, uint64_t offset, uint64_t bit) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  const int byte = in.get();
  if (!in.good()) return Unavailable("cannot read byte ", offset, " of ", file);
  in.close();
  return Overwrite(file, offset, std::string(1, static_cast<char>(byte ^ (1 << bit))));
}

}  // namespace quire::torture
