// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_pipe.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <thread>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "quire/v1/data_plane.grpc.pb.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/no_calls.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

/// Keeps received frames, and can be told to block.
class Inbox final : public FrameReceiver {
 public:
  ~Inbox() override { Hold(false); }
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    while (held_) changed_.Wait(mutex_);
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
  }
  void OnClosed(const Status& why) override {
    MutexLock lock(mutex_);
    closed_.push_back(why);
    changed_.NotifyAll();
  }
  /// The next frame; one with the head "closed" after the end.
  Frame Take() {
    MutexLock lock(mutex_);
    while (frames_.empty() && closed_.empty()) changed_.Wait(mutex_);
    if (frames_.empty()) return {.head = "closed", .payload = {}};
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  Status WaitUntilClosed() {
    MutexLock lock(mutex_);
    while (closed_.empty()) changed_.Wait(mutex_);
    EXPECT_EQ(closed_.size(), 1u);
    return closed_.front();
  }
  /// Blocks OnFrame while held.
  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  std::vector<Status> closed_ QUIRE_GUARDED_BY(mutex_);
  bool held_ QUIRE_GUARDED_BY(mutex_) = false;
};

/// A pipe and its received frames. The pipe is destroyed first.
struct End {
  Inbox inbox;
  std::unique_ptr<FramePipe> pipe;
};

class GrpcPipeTest : public ::testing::Test {
 protected:
  ~GrpcPipeTest() override {
    // Ends the acceptor, the only writer of accepted_.
    if (server_ != nullptr) server_->Shutdown(Duration::zero());
  }

  void Serve(int max_streams = 8) {
    auto server = GrpcServer::Start({.accept_pipe =
                                         [this](std::unique_ptr<FramePipe> pipe) {
                                           auto end = std::make_unique<End>();
                                           end->pipe = std::move(pipe);
                                           end->pipe->Start(&end->inbox);
                                           MutexLock lock(mutex_);
                                           accepted_.push_back(std::move(end));
                                           changed_.NotifyAll();
                                         },
                                     .max_streams = max_streams},
                                    &no_calls_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<End> Connect() {
    auto pipe = ConnectGrpcPipe({.address = server_->address()});
    EXPECT_TRUE(pipe.ok()) << pipe.status();
    auto end = std::make_unique<End>();
    end->pipe = *std::move(pipe);
    end->pipe->Start(&end->inbox);
    return end;
  }
  /// The server end of connection `index`, in the order of acceptance.
  End& Accepted(size_t index) {
    MutexLock lock(mutex_);
    while (accepted_.size() <= index) changed_.Wait(mutex_);
    return *accepted_[index];
  }
  static Frame FrameOf(const std::string& head, size_t payload_bytes) {
    Frame frame{.head = head, .payload = {}};
    if (payload_bytes > 0) frame.payload.Append(std::vector<std::byte>(payload_bytes));
    return frame;
  }

  NoCalls no_calls_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<End>> accepted_ QUIRE_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcPipeTest, AnOrdinaryGrpcClientSpeaksFrames) {
  Serve();
  const auto stub = v1::DataPlane::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Frames(&context);
  v1::Frame message;
  message.set_head("hello");
  message.set_payload(std::string(3, '\0'));
  ASSERT_TRUE(stream->Write(message));
  const Frame received = Accepted(0).inbox.Take();
  EXPECT_EQ(received.head, "hello");
  EXPECT_EQ(received.payload.size_bytes(), 3u);
  ASSERT_EQ(Accepted(0).pipe->Send(FrameOf("answer", 100000)), OkStatus());
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.head(), "answer");
  EXPECT_EQ(message.payload(), std::string(100000, '\0'));
  stream->WritesDone();
  EXPECT_EQ(Accepted(0).inbox.WaitUntilClosed().code(), StatusCode::kUnavailable);
}

TEST_F(GrpcPipeTest, AMessageThatIsNoFrameEndsTheConnection) {
  Serve();
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(),
          grpc::internal::RpcMethod(kGrpcPipePath, grpc::internal::RpcMethod::BIDI_STREAMING),
          &context));
  const grpc::Slice noise("\xff\xff\xff");
  ASSERT_TRUE(stream->Write(grpc::ByteBuffer(&noise, 1)));
  EXPECT_EQ(Accepted(0).inbox.WaitUntilClosed().code(), StatusCode::kInvalidArgument);
  grpc::ByteBuffer answer;
  EXPECT_FALSE(stream->Read(&answer));
}

TEST_F(GrpcPipeTest, AStalledClientDoesNotBlockAnother) {
  Serve();
  const auto stalled = Connect(), other = Connect();
  // The first frame identifies the connection.
  ASSERT_EQ(stalled->pipe->Send(FrameOf("stalled", 0)), OkStatus());
  ASSERT_EQ(other->pipe->Send(FrameOf("other", 0)), OkStatus());
  End* to_stalled = &Accepted(0);
  End* to_other = &Accepted(1);
  if (to_stalled->inbox.Take().head == "other") std::swap(to_stalled, to_other);
  stalled->inbox.Hold(true);
  uint64_t taken = 0;
  Status last;
  std::thread flood([&] {
    while (last.ok()) {
      last = to_stalled->pipe->Send(FrameOf("flood", 1 << 20));
      if (last.ok()) ++taken;
    }
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(to_other->pipe->Send(FrameOf("page", 1 << 20)), OkStatus());
    EXPECT_EQ(other->inbox.Take().payload.size_bytes(), 1u << 20);
  }
  to_stalled->pipe->Close();
  flood.join();
  EXPECT_EQ(last.code(), StatusCode::kUnavailable);
  EXPECT_LT(taken, 100u) << "what a stalled client does not take is not kept for it";
  stalled->inbox.Hold(false);
}

TEST_F(GrpcPipeTest, OneStreamTooManyIsRefusedUntilAnotherEnds) {
  Serve(/*max_streams=*/1);
  auto first = Connect();
  (void)Accepted(0);
  {
    const auto second = Connect();
    const Status refused = second->inbox.WaitUntilClosed();
    EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(Message(refused)), HasSubstr("1 gRPC streams open"));
    EXPECT_TRUE(RetryAfter(refused)) << refused;
  }
  first.reset();
  EXPECT_EQ(Accepted(0).inbox.WaitUntilClosed().code(), StatusCode::kUnavailable);
  std::string head;
  do {  // The first stream's thread leaves with a delay.
    const auto next = Connect();
    (void)next->pipe->Send(FrameOf("next", 0));
    MutexLock lock(mutex_);
    if (accepted_.size() > 1) head = accepted_.back()->inbox.Take().head;
  } while (head != "next");
}

TEST_F(GrpcPipeTest, OneChannelCannotTakeTheStreamsOfOthers) {
  Serve(/*max_streams=*/8);
  const auto stub = v1::DataPlane::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::Frame, v1::Frame>>> streams;
  for (size_t i = 0; i < 4; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub->Frames(contexts.back().get()));
    (void)Accepted(i);
  }
  grpc::ClientContext fifth;
  EXPECT_EQ(stub->Frames(&fifth)->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto other = Connect();
  (void)Accepted(4);
  for (size_t i = 0; i < streams.size(); ++i) {
    contexts[i]->TryCancel();
    (void)streams[i]->Finish();
  }
}

TEST_F(GrpcPipeTest, AServerWithoutStreamsSaysSo) {
  auto server = GrpcServer::Start({}, &no_calls_);
  ASSERT_TRUE(server.ok());
  server_ = *std::move(server);
  const Status status = Connect()->inbox.WaitUntilClosed();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("UNIMPLEMENTED"));
}

TEST_F(GrpcPipeTest, ShutdownEndsStreamsThatAreOpen) {
  Serve();
  const auto client = Connect();
  (void)Accepted(0);
  server_->Shutdown(Duration::zero());
  EXPECT_EQ(client->inbox.WaitUntilClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Accepted(0).inbox.WaitUntilClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client->pipe->Send(FrameOf("late", 0)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Accepted(0).pipe->Send(FrameOf("late", 0)).code(), StatusCode::kUnavailable);
}

TEST_F(GrpcPipeTest, NobodyThereIsUnavailable) {
  Serve();
  const std::string address = server_->address();
  server_->Shutdown(Duration::zero());
  const auto pipe = ConnectGrpcPipe({.address = address});
  EXPECT_EQ(pipe.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(pipe.status())), HasSubstr(address));
}

TEST_F(GrpcPipeTest, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(ConnectGrpcPipe({.address = ""}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ConnectGrpcPipe({.address = "a:1", .max_message_bytes = 0}).status().code(),
            StatusCode::kInvalidArgument);
  for (const int streams : {-1, 61}) {
    EXPECT_EQ(GrpcServer::Start({.max_streams = streams}, &no_calls_).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(GrpcPipeTest, AKilledClientIsNoticed) {
  Serve();
  TempDir dir;
  ChildProcess client(QUIRE_BINARY_DIR "/bin/grpc_pipe_peer", {server_->address()}, dir / "stderr");
  EXPECT_EQ(Accepted(0).inbox.Take().head, "here");
  client.Signal(SIGKILL);
  EXPECT_EQ(client.Wait(), -SIGKILL);
  EXPECT_EQ(Accepted(0).inbox.WaitUntilClosed().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::testing
