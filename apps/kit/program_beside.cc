// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/program_beside.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace quire::cli {

namespace fs = std::filesystem;

StatusOr<std::string> ProgramBeside(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return Internal("cannot read /proc/self/exe: ", error.message());
  const fs::path program = self.parent_path() / name;
  if (!fs::exists(program, error)) {
    return NotFound("there is no program ", program.string(), ": install or build ", name,
                    " beside ", self.filename().string());
  }
  return program.string();
}

Status RunProgramBeside(const std::string& name, std::span<const char* const> arguments) {
  QUIRE_ASSIGN_OR_RETURN(const std::string program, ProgramBeside(name));
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const char* const argument : arguments) argv.push_back(const_cast<char*>(argument));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return Internal("cannot start ", program, ": ", std::strerror(errno));
}

}  // namespace quire::cli
