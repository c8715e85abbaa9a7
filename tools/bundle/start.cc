// SPDX-License-Identifier: Apache-2.0
//
// The entry point of a bundled program, which names no loader to the kernel and starts one itself.
// It prefers the machine's loader and C library if they are at least as new as those of the build.
// Otherwise it takes the loader and the C library of the bundle (lib/glibc). In both cases the
// kernel has started the program itself: /proc/self/exe, the arguments and the environment are
// unchanged.
//
// Nothing is relocated yet and there is no C library. The code must not call other files, use
// addresses in initialised data, or use thread-local storage.
#include <elf.h>
#include <fcntl.h>
#include <features.h>
#include <linux/limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

extern "C" {
extern const Elf64_Ehdr __ehdr_start [[gnu::visibility("hidden")]];
[[gnu::visibility("hidden")]] extern Elf64_Dyn _DYNAMIC[];
[[gnu::visibility("hidden")]] void _start();
[[gnu::visibility("hidden")]] uintptr_t QuireLoad(uintptr_t* stack);
}

// The loader gets the stack as the kernel has laid it out.
asm(R"(
  .pushsection .text
  .globl quire_start
  .hidden quire_start
  .type quire_start, @function
quire_start:
  xorl %ebp, %ebp
  movq %rsp, %rdi
  call QuireLoad
  xorl %edx, %edx
  jmpq *%rax
  .size quire_start, . - quire_start
  .popsection
)");

namespace {

constexpr uintptr_t kPage = 4096;
constexpr char kHostLoader[] = "/lib64/ld-linux-x86-64.so.2";
constexpr char kCarriedLoader[] =
    "/../lib/glibc/ld-linux-x86-64.so.2";              ///< Relative to the program's folder.
constexpr char kCarriedFirst[] = QUIRE_CARRIED_FIRST;  ///< Beginning of the RPATH.
/// Text before the version in the loader's --version.
constexpr char kVersion[] = " release version ";

constexpr size_t kMaxHeaders = 32;
Elf64_Phdr headers[kMaxHeaders];  ///< Headers of the program, including those that name the loader.
char carried_loader[PATH_MAX + sizeof kCarriedLoader];

long Call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

template <typename T>
long Word(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

[[noreturn]] void Die(const char* what) {
  size_t length = 0;
  while (what[length] != '\0') ++length;
  Call(SYS_write, STDERR_FILENO, Word(what), static_cast<long>(length));
  Call(SYS_exit_group, 127);
  __builtin_unreachable();
}

uintptr_t Base() { return reinterpret_cast<uintptr_t>(&__ehdr_start); }
uintptr_t PageOf(uintptr_t address) { return address & ~(kPage - 1); }
uintptr_t PageAfter(uintptr_t address) { return PageOf(address + kPage - 1); }

/// True if `text`, of which at most `size` bytes are read, begins with `prefix`.
bool BeginsWith(const char* text, size_t size, const char* prefix) {
  for (size_t i = 0; prefix[i] != '\0'; ++i) {
    if (i == size || text[i] != prefix[i]) return false;
  }
  return true;
}

uintptr_t Map(uintptr_t address, uintptr_t size, int protection, int flags, long file = -1,
              uintptr_t offset = 0) {
  const long mapped = Call(SYS_mmap, static_cast<long>(address), static_cast<long>(size),
                           protection, flags, file, static_cast<long>(offset));
  if (mapped < 0 && mapped > -static_cast<long>(kPage)) Die("quire: no memory for the loader\n");
  return static_cast<uintptr_t>(mapped);
}

int Number(const char** digits) {
  int number = 0;
  for (; **digits >= '0' && **digits <= '9'; ++*digits) number = 10 * number + (**digits - '0');
  return number;
}

/// True if the text after kVersion names a glibc at least as new as that of this compilation.
bool SaysNewEnough(const char* version) {
  const int major = Number(&version);
  if (*version++ != '.') return false;
  const int minor = Number(&version);
  return major > __GLIBC__ || (major == __GLIBC__ && minor >= __GLIBC_MINOR__);
}

/// A loader that does not print its version (before 2.33, or not glibc's) is too old.
bool IsNewEnough(long file) {
  const long size = Call(SYS_lseek, file, 0, SEEK_END);
  if (size <= 0) return false;
  const auto bytes = static_cast<size_t>(size);
  const char* const text =
      reinterpret_cast<const char*>(Map(0, bytes, PROT_READ, MAP_PRIVATE, file));
  bool new_enough = false;
  // Leaves room for a version.
  for (size_t i = 0; i + sizeof kVersion + 8 < bytes && !new_enough; ++i) {
    new_enough =
        BeginsWith(text + i, bytes - i, kVersion) && SaysNewEnough(text + i + sizeof kVersion - 1);
  }
  Call(SYS_munmap, Word(text), size);
  return new_enough;
}

/// The path of the bundled loader; the program's file may have been deleted meanwhile.
const char* CarriedLoader() {
  const long length = Call(SYS_readlink, Word("/proc/self/exe"), Word(carried_loader), PATH_MAX);
  if (length <= 0) Die("quire: cannot read /proc/self/exe\n");
  char* end = carried_loader + length;
  while (end > carried_loader && *end != '/') --end;
  for (size_t i = 0; i < sizeof kCarriedLoader; ++i) end[i] = kCarriedLoader[i];
  return carried_loader;
}

int ProtectionOf(const Elf64_Phdr& segment) {
  return ((segment.p_flags & PF_R) != 0 ? PROT_READ : 0) |
         ((segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
         ((segment.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
}

void MapSegment(uintptr_t base, long file, const Elf64_Phdr& segment) {
  const uintptr_t begin = base + segment.p_vaddr;
  const uintptr_t end_in_file = begin + segment.p_filesz;
  const uintptr_t end = begin + segment.p_memsz;
  const int protection = ProtectionOf(segment);
  if (segment.p_filesz > 0) {
    Map(PageOf(begin), end_in_file - PageOf(begin), protection, MAP_PRIVATE | MAP_FIXED, file,
        PageOf(segment.p_offset));
  }
  if (end == end_in_file) return;
  const uintptr_t zeros = PageAfter(end_in_file);
  auto* const rest = reinterpret_cast<volatile char*>(end_in_file);
  for (uintptr_t i = 0; end_in_file + i < zeros; ++i) rest[i] = 0;
  if (zeros < end) {
    Map(zeros, end - zeros, protection, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS);
  }
}

struct Loader {
  uintptr_t base;
  uintptr_t entry;
};

/// Maps the loader as the kernel would.
Loader MapLoader(long file) {
  alignas(Elf64_Ehdr) char start[kPage];
  const long bytes = Call(SYS_pread64, file, Word(start), sizeof start, 0);
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(start);
  if (bytes < static_cast<long>(sizeof header) || !BeginsWith(start, SELFMAG, ELFMAG) ||
      header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr) > static_cast<size_t>(bytes)) {
    Die("quire: ld-linux-x86-64.so.2 is damaged\n");
  }
  const auto* const segments = reinterpret_cast<const Elf64_Phdr*>(start + header.e_phoff);
  uintptr_t size = 0;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const uintptr_t end = segments[i].p_vaddr + segments[i].p_memsz;
    if (segments[i].p_type == PT_LOAD && end > size) size = end;
  }
  const uintptr_t base = Map(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    if (segments[i].p_type == PT_LOAD) MapSegment(base, file, segments[i]);
  }
  return {base, base + header.e_entry};
}

/// Sets the loader's inputs: the program's base in PT_PHDR, and its own name in PT_INTERP.
size_t NameLoader(const char* path) {
  const auto* const own = reinterpret_cast<const Elf64_Phdr*>(Base() + __ehdr_start.e_phoff);
  if (__ehdr_start.e_phnum > kMaxHeaders - 2) Die("quire: the program has too many segments\n");
  size_t count = 2;
  for (size_t i = 0; i < __ehdr_start.e_phnum; ++i) {
    if (own[i].p_type != PT_PHDR && own[i].p_type != PT_INTERP) headers[count++] = own[i];
  }
  headers[0].p_type = PT_PHDR;
  headers[0].p_vaddr = reinterpret_cast<uintptr_t>(headers) - Base();
  headers[1].p_type = PT_INTERP;
  headers[1].p_vaddr = reinterpret_cast<uintptr_t>(path) - Base();
  return count;
}

/// Keeps the machine's loader from the bundled C library, which does not belong to it.
void LeaveOutCarriedLibraries() {
  const char* strings = nullptr;
  for (const Elf64_Dyn* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) {
      strings = reinterpret_cast<const char*>(Base() + entry->d_un.d_ptr);
    }
  }
  for (Elf64_Dyn* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_RPATH &&
        BeginsWith(strings + entry->d_un.d_val, sizeof kCarriedFirst, kCarriedFirst)) {
      entry->d_un.d_val += sizeof kCarriedFirst - 1;
    }
  }
}

long Open(const char* path) { return Call(SYS_open, Word(path), O_RDONLY | O_CLOEXEC); }

}  // namespace

/// Maps a loader, and describes the program to it in the auxiliary vector. Returns its entry point.
uintptr_t QuireLoad(uintptr_t* stack) {
  const char* path = kHostLoader;
  long file = Open(path);
  if (file >= 0 && IsNewEnough(file)) {
    LeaveOutCarriedLibraries();
  } else {
    if (file >= 0) Call(SYS_close, file);
    path = CarriedLoader();
    file = Open(path);
    if (file < 0) Die("quire: the C library here is too old, and there is no lib/glibc\n");
  }
  const Loader loader = MapLoader(file);
  Call(SYS_close, file);

  uintptr_t* word = stack + 1 + *stack + 1;  // Skip the arguments.
  while (*word != 0) ++word;                 // Skip the environment.
  for (auto* entry = reinterpret_cast<Elf64_auxv_t*>(word + 1); entry->a_type != AT_NULL; ++entry) {
    uint64_t& value = entry->a_un.a_val;
    switch (entry->a_type) {
      case AT_PHDR:
        value = reinterpret_cast<uintptr_t>(headers);
        break;
      case AT_PHNUM:
        value = NameLoader(path);
        break;
      case AT_BASE:
        value = loader.base;
        break;
      case AT_ENTRY:
        value = reinterpret_cast<uintptr_t>(&_start);
        break;
      default:
        break;
    }
  }
  return loader.entry;
}
