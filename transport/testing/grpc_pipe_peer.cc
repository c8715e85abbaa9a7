// SPDX-License-Identifier: Apache-2.0
//
// A process for tests to kill: the client end of a gRPC pipe to the address in its argument. It
// sends the frame "here" and stays.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "transport/grpc/grpc_pipe.h"

namespace {

class Ignore final : public quire::FrameReceiver {
 public:
  void OnFrame(quire::Frame) override {}
  void OnClosed(const quire::Status&) override {}
};

int Fail(const quire::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(quire::Message(status)).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return Fail(quire::InvalidArgument("usage: grpc_pipe_peer ADDRESS"));
  const auto pipe = quire::ConnectGrpcPipe({.address = argv[1]});
  if (!pipe.ok()) return Fail(pipe.status());
  Ignore receiver;
  (*pipe)->Start(&receiver);
  const quire::Status sent = (*pipe)->Send({.head = "here", .payload = {}});
  if (!sent.ok()) return Fail(sent);
  pause();
  return 0;
}
