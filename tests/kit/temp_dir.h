// SPDX-License-Identifier: Apache-2.0
//
// TempDir: a fresh directory, removed with everything in it at destruction.
#ifndef QUIRE_TESTS_KIT_TEMP_DIR_H_
#define QUIRE_TESTS_KIT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace quire::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot create a temporary directory");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;  // A test that made something unremovable has failed already.
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_TEMP_DIR_H_
