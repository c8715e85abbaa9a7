// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_id.h"

#include <fstream>

namespace quire {

std::string ReadHostId(const std::string& path) {
  std::ifstream file(path);
  std::string id;
  file >> id;
  return id;
}

}  // namespace quire
