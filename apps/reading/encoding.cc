// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/encoding.h"

#include <array>
#include <cstdio>
#include <span>
#include <string>

#include "common/base/utf8.h"

namespace quire::cli {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

struct Signature {
  std::string_view bytes;
  std::string_view name;
};

/// Byte order marks. UTF-32 stands before UTF-16, whose mark begins like it.
constexpr std::array kOtherMarks = {
    Signature{"\xFF\xFE\0\0"sv, "UTF-32"}, Signature{"\0\0\xFE\xFF"sv, "UTF-32"},
    Signature{"\xFF\xFE"sv, "UTF-16"}, Signature{"\xFE\xFF"sv, "UTF-16"}};

constexpr std::array kFormats = {Signature{"%PDF-", "a PDF"},
                                 Signature{"PK\x03\x04", "a ZIP archive, or an office document"},
                                 Signature{"\x89PNG", "a PNG image"},
                                 Signature{"GIF8", "a GIF image"},
                                 Signature{"\xFF\xD8\xFF", "a JPEG image"},
                                 Signature{"\x1F\x8B", "gzip"},
                                 Signature{"BZh", "bzip2"},
                                 Signature{"\xFD"
                                           "7zXZ",
                                           "xz"},
                                 Signature{"7z\xBC\xAF", "a 7-Zip archive"},
                                 Signature{"\x28\xB5\x2F\xFD", "zstd"},
                                 Signature{"\x7F"
                                           "ELF",
                                           "a program"},
                                 Signature{"\xD0\xCF\x11\xE0", "an old office document"},
                                 Signature{"RIFF", "sound, video or an image"},
                                 Signature{"OggS", "Ogg sound or video"},
                                 Signature{"SQLite format 3", "an SQLite database"}};

const Signature* Find(std::span<const Signature> signatures, std::string_view bytes) {
  for (const Signature& signature : signatures) {
    if (bytes.starts_with(signature.bytes)) return &signature;
  }
  return nullptr;
}

std::string Hex(char byte) {
  std::array<char, 5> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%02X", static_cast<unsigned char>(byte));
  return text.data();
}

Status RefuseByte(std::string_view bytes, size_t at) {
  if (bytes[at] == '\0') {
    return InvalidArgument("binary: a NUL at byte ", at,
                           "; give text (UTF-16 text: iconv -f UTF-16LE -t UTF-8)");
  }
  return InvalidArgument("not UTF-8 at byte ", at, " (", Hex(bytes[at]),
                         "); convert it, e.g. iconv -f ISO-8859-1 -t UTF-8");
}

}  // namespace

StatusOr<std::string_view> TextOfBytes(std::string_view bytes) {
  if (const Signature* const mark = Find(kOtherMarks, bytes)) {
    return InvalidArgument(mark->name, " by its mark at byte 0; convert it: iconv -f ", mark->name,
                           " -t UTF-8");
  }
  const bool marked = bytes.starts_with(kUtf8Mark);
  const std::string_view text = bytes.substr(marked ? kUtf8Mark.size() : 0);
  const size_t nul = text.find('\0');
  const auto wrong = FirstInvalidUtf8(text.substr(0, nul));
  if (nul == std::string_view::npos && !wrong) return text;
  if (const Signature* const format = Find(kFormats, bytes)) {
    return InvalidArgument(format->name, " by its signature at byte 0; give its text");
  }
  return RefuseByte(bytes, wrong.value_or(nul) + (bytes.size() - text.size()));
}

}  // namespace quire::cli
