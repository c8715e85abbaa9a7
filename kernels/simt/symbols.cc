// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace quire::simt {
namespace {

constexpr char kOurs[] = "quire::kernels::cuda::";
constexpr char kLocalOfOurs[] = "_ZZN5quire7kernels4cuda";

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &free);
  return status == 0 ? text.get() : name;
}

std::string Without(std::string text, const std::string& part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}
std::string Short(const char* mangled) {
  return Without(Without(Demangled(mangled), "(anonymous namespace)::"), kOurs);
}

/// Load address of the running program.
uintptr_t Base() {
  uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // The program itself is the first entry.
      },
      &base);
  return base;
}

/// True if a segment of the program, writable or not, contains the address.
bool InProgram(uintptr_t address, bool writable) {
  struct Question {
    uintptr_t address;
    bool writable;
    bool found;
  } question{address, writable, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* asked) {
        auto* const question = static_cast<Question*>(asked);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const uintptr_t from = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD && question->address - from < segment.p_memsz &&
              ((segment.p_flags & PF_W) != 0) == question->writable) {
            question->found = true;
          }
        }
        return 1;
      },
      &question);
  return question.found;
}

/// The program's file and its symbol table, read once.
class Symbols {
 public:
  Symbols() : base_(Base()) {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    FindTable();
    FindShared();
  }

  std::string Function(uintptr_t address) const {
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && base_ + symbol.st_value == address) {
        return Short(names_ + symbol.st_name);
      }
    }
    return Code(address);
  }
  std::string Code(uintptr_t address) const {
    char text[32];
    snprintf(text, sizeof text, "program+0x%zx", static_cast<size_t>(address - base_));
    return text;
  }
  const std::vector<SharedArray>& shared() const { return shared_; }

 private:
  void FindTable() {
    Elf64_Ehdr header;
    if (image_.size() < sizeof header) return;
    memcpy(&header, image_.data(), sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
    for (int i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr section = Section(header, i);
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols_.resize(section.sh_size / sizeof(Elf64_Sym));
      memcpy(symbols_.data(), image_.data() + section.sh_offset, section.sh_size);
      names_ = image_.data() + Section(header, static_cast<int>(section.sh_link)).sh_offset;
    }
  }
  Elf64_Shdr Section(const Elf64_Ehdr& header, int i) const {
    Elf64_Shdr section;
    memcpy(&section, image_.data() + header.e_shoff + sizeof section * static_cast<size_t>(i),
           sizeof section);
    return section;
  }
  void FindShared() {
    for (const Elf64_Sym& symbol : symbols_) {
      const char* name = names_ + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT ||
          strncmp(name, kLocalOfOurs, strlen(kLocalOfOurs)) != 0) {
        continue;
      }
      const uintptr_t begin = base_ + symbol.st_value;
      if (!InProgram(begin, true)) continue;
      shared_.push_back({begin, symbol.st_size, Short(name)});
    }
    std::sort(shared_.begin(), shared_.end(),
              [](const SharedArray& a, const SharedArray& b) { return a.begin < b.begin; });
  }

  const uintptr_t base_;
  std::string image_;
  std::vector<Elf64_Sym> symbols_;
  const char* names_ = nullptr;
  std::vector<SharedArray> shared_;
};

const Symbols& TheSymbols() {
  static const Symbols* const symbols = new Symbols;
  return *symbols;
}

}  // namespace

std::string FunctionName(const void* function) {
  return TheSymbols().Function(reinterpret_cast<uintptr_t>(function));
}

std::string CodeName(const void* address) {
  return TheSymbols().Code(reinterpret_cast<uintptr_t>(address));
}

bool IsProgramConstant(uintptr_t address) { return InProgram(address, false); }

const std::vector<SharedArray>& SharedArrays() { return TheSymbols().shared(); }

}  // namespace quire::simt
