# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=file.cc -DHEADER=file.h -DNAME=kName -P embed_file.cmake
# Writes a file as an array of bytes, declared by HEADER.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n
namespace quire::bench {
namespace {
constexpr unsigned char kBytes[] = {${bytes}};
}
const std::string_view ${NAME}(reinterpret_cast<const char*>(kBytes), sizeof kBytes);
}\n")
