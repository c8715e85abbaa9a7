// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/ingest_target.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "client/retry.h"
#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "common/wire/message.h"
#include "gpuworker/ingest/document_hash.h"
#include "quire/v1/worker.grpc.pb.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::cli {
namespace {

using Documents = std::vector<worker::IngestedDocument>;
using Stream = grpc::ClientReaderWriter<v1::IngestRequest, v1::IngestReply>;

constexpr size_t kPieceBytes = size_t{256} << 10;
/// A full worker cuts calls off without an answer when many wait for one.
constexpr Duration kRetryAfterCutOff = std::chrono::milliseconds(100);

class LocalTarget final : public IngestTarget {
 public:
  explicit LocalTarget(const LocalWorker* local) : ingest_(local->engine.get(), local->text()) {}

  StatusOr<Documents> Ingest(worker::DocumentToIngest what, std::string_view text,
                             const worker::IngestObserver& observer) override {
    what.text_hash = worker::HashText(text);
    QUIRE_ASSIGN_OR_RETURN(auto unchanged, ingest_.FindUnchanged(what));
    if (!unchanged.empty()) return unchanged;
    return ingest_.Store(what, text, observer);
  }

 private:
  const worker::DocumentIngest ingest_;
};

v1::IngestRequest HeaderOf(const worker::DocumentToIngest& what, std::string_view text,
                           const std::string& tenant) {
  v1::IngestRequest request;
  v1::IngestHeader* const header = request.mutable_header();
  wire::DocumentNameToProto(what.name, header->mutable_document());
  header->set_text_hash(worker::HashText(text));
  header->set_text_bytes(text.size());
  header->set_reader(what.reader);
  header->set_source(what.source);
  wire::TagsToProto(what.tags, header->mutable_tags());
  header->set_ttl_seconds(what.ttl_seconds.value_or(0));
  header->set_split(what.split);
  header->set_tenant(tenant);
  return request;
}

/// An error of writing is told by the end of the call.
void SendText(std::string_view text, Stream* stream) {
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kPieceBytes))) {
    v1::IngestRequest piece;
    piece.set_text(std::string(text.substr(0, kPieceBytes)));
    if (!stream->Write(piece)) return;
  }
}

StatusOr<Documents> ResultOf(const v1::IngestResult& result) {
  Documents documents;
  for (const v1::IngestedDocument& part : result.documents()) {
    worker::IngestedDocument& document = documents.emplace_back();
    QUIRE_ASSIGN_OR_RETURN(document.document, wire::DocumentFromProto(part.document()));
    document.unchanged = part.unchanged();
    document.reused_tokens = part.reused_tokens();
    document.bytes_sent = part.bytes_sent();
    document.warning = part.warning();
  }
  if (documents.empty()) return DataLoss("the worker's result has no document");
  return documents;
}

/// One attempt.
class IngestCall {
 public:
  IngestCall(const std::shared_ptr<grpc::Channel>& channel, const BearerToken& token,
             TimePoint deadline)
      : channel_(channel), stub_(v1::Worker::NewStub(channel)) {
    context_.set_deadline(DeadlineAfter(deadline - SystemClock().Now()));
    AddToken(token, &context_);
    stream_ = stub_->Ingest(&context_);
  }

  StatusOr<Documents> Run(const v1::IngestRequest& header, std::string_view text,
                          const worker::IngestObserver& observer) {
    stream_->Write(header);
    v1::IngestReply reply;
    while (stream_->Read(&reply)) {
      if (reply.has_wanted()) SendText(text, stream_.get());
      if (reply.has_progress() && !Tell(reply.progress(), observer)) return Cancel();
      if (reply.has_result()) return End(reply.result());
    }
    return Failure(stream_->Finish());
  }
  bool answered() const { return answered_; }

 private:
  static bool Tell(const v1::IngestProgress& progress, const worker::IngestObserver& observer) {
    return !observer || observer({.done_tokens = progress.done_tokens(),
                                  .reused_tokens = progress.reused_tokens(),
                                  .total_tokens = progress.total_tokens()});
  }
  Status Cancel() {
    context_.TryCancel();
    (void)stream_->Finish();
    answered_ = true;
    return MakeStatus(StatusCode::kCancelled,
                      "stopped; whole segments stay stored, and are not computed again");
  }
  StatusOr<Documents> End(const v1::IngestResult& result) {
    stream_->WritesDone();
    (void)stream_->Finish();
    answered_ = true;
    return ResultOf(result);
  }
  Status Failure(const grpc::Status& status) {
    answered_ = WasAnswered(context_);
    if (!answered_ && status.error_code() == grpc::StatusCode::CANCELLED) {
      return WithRetryAfter(ResourceExhausted("the worker is full"), kRetryAfterCutOff);
    }
    if (status.ok()) return DataLoss("the ingest ended without a result");
    return UnreachedAtDeadline(EndOfCall(status, context_), *channel_);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Worker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  bool answered_ = false;
};

class RemoteTarget final : public IngestTarget {
 public:
  RemoteTarget(const IngestThereOptions& options, std::shared_ptr<grpc::Channel> channel)
      : options_(options), channel_(std::move(channel)) {}

  StatusOr<Documents> Ingest(worker::DocumentToIngest what, std::string_view text,
                             const worker::IngestObserver& observer) override {
    const v1::IngestRequest header = HeaderOf(what, text, options_.tenant);
    QUIRE_RETURN_IF_ERROR(wire::CheckText(header));
    Clock& clock = SystemClock();
    const TimePoint deadline = clock.Now() + options_.timeout;
    const RetryOptions retry{.unreachable_for = options_.unreachable_for};
    internal::Reachability worker;
    internal::Attempts attempts(retry, SystemRandom(), worker, deadline);
    for (;;) {
      IngestCall call(channel_, options_.token, deadline);
      auto documents = call.Run(header, text, observer);
      if (documents.ok()) return documents;
      const Status status = Advise(documents.status(), call.answered());
      // Repeating is safe: what is stored is found.
      if (!IsRetriable(status, internal::Repeat::kSafe)) return attempts.End(status);
      QUIRE_ASSIGN_OR_RETURN(const TimePoint next, attempts.Next(status, clock.Now()));
      clock.Sleep(next - clock.Now());
    }
  }

 private:
  Status Advise(const Status& status, bool answered) const {
    if (answered) return status;
    const Status named = Annotate(status, "the worker at ", options_.address);
    if (!IsUnavailable(named)) return named;
    return Unavailable(Message(named), "\nStart one with: quire worker --listen ",
                       options_.address);
  }

  const IngestThereOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace

std::unique_ptr<IngestTarget> IngestHere(const LocalWorker* local) {
  return std::make_unique<LocalTarget>(local);
}

StatusOr<std::unique_ptr<IngestTarget>> IngestThere(const IngestThereOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto channel,
                         MakeGrpcChannel(options.address, wire::kDefaultMaxMessageBytes));
  return std::make_unique<RemoteTarget>(options, std::move(channel));
}

}  // namespace quire::cli
