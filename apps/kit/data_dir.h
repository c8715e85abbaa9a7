// SPDX-License-Identifier: Apache-2.0
//
// DataDir: data directory of a command's embedded server. A given directory stays. Otherwise a
// fresh temporary one is removed with the object.
#ifndef QUIRE_APPS_KIT_DATA_DIR_H_
#define QUIRE_APPS_KIT_DATA_DIR_H_

#include <memory>
#include <string>

#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::cli {

class DataDir {
 public:
  /// A temporary directory when `given` is empty. UNAVAILABLE when none can be made.
  static StatusOr<std::unique_ptr<DataDir>> Make(const std::string& given);
  ~DataDir();
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  DataDir(std::string path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}

  const std::string path_;
  const bool temporary_;
};

/// Adds --data-dir to a command that runs an embedded server.
void AddDataDirOption(CLI::App& command, std::string* data_dir);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DATA_DIR_H_
