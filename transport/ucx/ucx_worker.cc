// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/threads/mutex.h"
#include "transport/ucx/frames/buffer_pool.h"
#include "transport/ucx/sockets/ucx_sockets.h"
#include "transport/ucx/ucx_status.h"

namespace quire {
namespace {

/// The largest message that is left in UCX's memory until its reader is done with it.
constexpr size_t kMostKeptBytes = 64 << 10;

/// A thread that has received this much since its latest task is in the middle of a large reply. It
/// sleeps instead of polling: polling takes processor time from the sender, and a socket holds what
/// arrives meanwhile.
constexpr uint64_t kLargeReplyBytes = uint64_t{2} << 20;

/// Most bytes of unused buffers: what a call may have in flight, and the copies of it that wait.
constexpr uint64_t kMostUnusedBytes = 64 << 20;

/// How many times in a row UCX may progress before posted tasks have their turn.
constexpr int kProgressBurst = 16;

}  // namespace

/// State of the thread, which holds it too. The last reference to the worker may therefore be
/// dropped on the thread itself.
struct UcxWorker::State {
  State(std::shared_ptr<UcxContext> the_context, const UcxOptions& the_options)
      : context(std::move(the_context)), options(the_options) {}
  ~State() {
    if (worker != nullptr) ucp_worker_destroy(worker);
    if (wake_fd >= 0) close(wake_fd);
  }

  Status Open();
  void Loop();
  void Post(Task task) QUIRE_EXCLUDES(mutex);
  bool RunPosted() QUIRE_EXCLUDES(mutex);
  void RunDue();
  void Sleep() QUIRE_EXCLUDES(mutex);
  int SleepMillis() const;
  ucs_status_t Receive(std::span<const std::byte> header, void* data, size_t bytes,
                       const ucp_am_recv_param_t& param);
  ucs_status_t ReceiveRendezvous(const UcxHeader& header, void* descriptor, size_t bytes);
  void Deliver(UcxMessage message);

  const std::shared_ptr<UcxContext> context;
  const UcxOptions options;
  ucp_worker_h worker = nullptr;
  int event_fd = -1;  ///< Event descriptor of UCX.
  int wake_fd = -1;
  std::thread thread;
  std::weak_ptr<UcxWorker> owner;
  const std::shared_ptr<BufferPool> buffers = std::make_shared<BufferPool>(kMostUnusedBytes);

  Mutex mutex;
  std::vector<Task> posted QUIRE_GUARDED_BY(mutex);
  bool sleeping QUIRE_GUARDED_BY(mutex) = false;
  std::atomic<bool> has_posted{false};
  std::atomic<bool> stop{false};

  // Used by the thread only.
  std::multimap<TimePoint, Task> timers;
  std::map<UcxToken, UcxMessageSink*> sinks;
  UcxOperations operations;
  HelloHandler on_hello;
  uint64_t received_bytes = 0;  ///< Bytes received since the latest task.
};

Status UcxWorker::State::Open() {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.am_alignment = 64;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_worker_create(context->handle(), &params, &worker), "make a UCX worker"));
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_worker_get_efd(worker, &event_fd), "wait for a UCX worker"));
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ResourceExhausted("cannot make an event file descriptor");
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kUcxMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.arg = this;
  handler.cb = [](void* arg, const void* header, size_t header_bytes, void* data, size_t bytes,
                  const ucp_am_recv_param_t* param) {
    return static_cast<State*>(arg)->Receive({static_cast<const std::byte*>(header), header_bytes},
                                             data, bytes, *param);
  };
  return UcxToStatus(ucp_worker_set_am_recv_handler(worker, &handler), "receive UCX messages");
}

void UcxWorker::State::Loop() {
  constexpr TimePoint kBusy = TimePoint::max();
  TimePoint idle_since = kBusy;
  while (true) {
    const bool ran = RunPosted();
    if (!ran && stop.load(std::memory_order_acquire)) return;
    int progressed = 0;
    while (progressed < kProgressBurst && ucp_worker_progress(worker) != 0) ++progressed;
    RunDue();
    if (ran) received_bytes = 0;
    if (ran || progressed > 0) {
      idle_since = kBusy;
      continue;
    }
    if (options.busy_poll > Duration::zero() && received_bytes < kLargeReplyBytes) {
      const TimePoint now = SystemClock().Now();
      if (idle_since == kBusy) idle_since = now;
      if (now - idle_since < options.busy_poll) {
        std::this_thread::yield();  // The peer may need this core to answer.
        continue;
      }
    }
    Sleep();
  }
}

void UcxWorker::State::Post(Task task) {
  MutexLock lock(mutex);
  posted.push_back(std::move(task));
  has_posted.store(true, std::memory_order_release);
  if (!sleeping) return;
  sleeping = false;
  const uint64_t one = 1;
  // Fails only if the counter is full, and then the thread wakes up anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd, &one, sizeof one);
}

bool UcxWorker::State::RunPosted() {
  if (!has_posted.load(std::memory_order_acquire)) return false;
  std::vector<Task> tasks;
  {
    MutexLock lock(mutex);
    tasks.swap(posted);
    has_posted.store(false, std::memory_order_release);
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;  // Releases captured objects before the next task runs.
  }
  return true;
}

void UcxWorker::State::RunDue() {
  if (timers.empty()) return;
  const TimePoint now = SystemClock().Now();
  while (!timers.empty() && timers.begin()->first <= now) {
    const Task task = std::move(timers.begin()->second);
    timers.erase(timers.begin());
    task();
  }
}

int UcxWorker::State::SleepMillis() const {
  if (timers.empty()) return -1;
  const Duration left = timers.begin()->first - SystemClock().Now();
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(millis, 0, 60'000));
}

void UcxWorker::State::Sleep() {
  // UCX cannot be armed while it waits for room in shared memory. The peer makes that room, and may
  // need this core for it.
  if (ucp_worker_arm(worker) != UCS_OK) return std::this_thread::yield();
  const int millis = SleepMillis();
  {
    MutexLock lock(mutex);
    if (!posted.empty() || stop.load(std::memory_order_acquire)) return;
    sleeping = true;
  }
  pollfd fds[2] = {{event_fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  poll(fds, 2, millis);
  uint64_t count;
  [[maybe_unused]] const ssize_t read_bytes = read(wake_fd, &count, sizeof count);
  MutexLock lock(mutex);
  sleeping = false;
}

ucs_status_t UcxWorker::State::Receive(std::span<const std::byte> header_bytes, void* data,
                                       size_t bytes, const ucp_am_recv_param_t& param) {
  const auto header = DecodeUcxHeader(header_bytes, bytes);
  received_bytes += bytes;
  // Without a header the message belongs to no connection, so it is ignored.
  if (!header.ok()) return UCS_OK;
  const std::span<const std::byte> view(static_cast<const std::byte*>(data), bytes);
  const bool rendezvous = (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (header->kind == UcxKind::kHello) {
    if (rendezvous || (param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return UCS_OK;
    const auto hello = DecodeUcxHello(view);
    if (hello.ok() && on_hello) on_hello(param.reply_ep, *hello);
    return UCS_OK;
  }
  if (!sinks.contains(header->to)) return UCS_OK;
  if (rendezvous) return ReceiveRendezvous(*header, data, bytes);

  bool kept = false;
  // UCX allocates memory for each message of several fragments. The pool's is used again.
  const bool may_keep =
      (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0 && bytes <= kMostKeptBytes;
  const auto keeper = [this, data, may_keep,
                       &kept](std::span<const std::byte>* out) -> std::shared_ptr<const void> {
    const std::shared_ptr<UcxWorker> self = owner.lock();
    if (may_keep && self != nullptr) {
      kept = true;
      return {data, [self](const void* done) {
                self->Post(
                    [self, done] { ucp_am_data_release(self->handle(), const_cast<void*>(done)); });
              }};
    }
    const std::shared_ptr<std::byte[]> copy = BufferPool::Take(buffers, out->size());
    std::memcpy(copy.get(), out->data(), out->size());
    *out = {copy.get(), out->size()};
    return copy;
  };
  Deliver(UcxMessage(*header, view, keeper));
  return kept ? UCS_INPROGRESS : UCS_OK;
}

ucs_status_t UcxWorker::State::ReceiveRendezvous(const UcxHeader& header, void* descriptor,
                                                 size_t bytes) {
  UcxMessageSink* sink = sinks.at(header.to);
  if (bytes > options.max_frame_bytes + UcxHeader::kEncodedBytes + (uint64_t{1} << 20)) {
    sink->OnBrokenMessage(InvalidArgument("a UCX peer announced a frame of ", bytes, " bytes"));
    return UCS_OK;
  }
  struct Receiving {
    State* state;
    UcxHeader header;
    std::shared_ptr<std::byte[]> buffer;
    size_t bytes;
  };
  auto receiving =
      std::make_unique<Receiving>(Receiving{this, header, BufferPool::Take(buffers, bytes), bytes});
  const auto finish = [](void* request, ucs_status_t status, size_t, void* arg) {
    const std::unique_ptr<Receiving> done(static_cast<Receiving*>(arg));
    if (request != nullptr) ucp_request_free(request);
    // On failure the endpoint fails too, and reports it itself.
    if (status != UCS_OK) return;
    const std::span<const std::byte> view(done->buffer.get(), done->bytes);
    done->state->Deliver(UcxMessage(done->header, view, [&](auto*) { return done->buffer; }));
  };
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = finish;
  param.user_data = receiving.get();
  void* request = ucp_am_recv_data_nbx(worker, descriptor, receiving->buffer.get(), bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    sink->OnBrokenMessage(UcxToStatus(UCS_PTR_STATUS(request), "receive a UCX frame"));
    return UCS_INPROGRESS;
  }
  Receiving* const handed_over = receiving.release();
  if (request == nullptr) finish(nullptr, UCS_OK, bytes, handed_over);
  return UCS_INPROGRESS;
}

void UcxWorker::State::Deliver(UcxMessage message) {
  // The sink may have been removed while the data was in flight.
  const auto found = sinks.find(message.header().to);
  if (found != sinks.end()) found->second->OnMessage(std::move(message));
}

StatusOr<std::shared_ptr<UcxWorker>> UcxWorker::Create(std::shared_ptr<UcxContext> context,
                                                       const UcxOptions& options) {
  auto state = std::make_shared<State>(std::move(context), options);
  QUIRE_RETURN_IF_ERROR(state->Open());
  const std::shared_ptr<UcxWorker> worker(new UcxWorker(state));
  state->owner = worker;
  state->thread = std::thread([state] { state->Loop(); });
  return worker;
}

UcxWorker::UcxWorker(std::shared_ptr<State> state) : state_(std::move(state)) {}

UcxWorker::~UcxWorker() {
  State* const state = state_.get();
  state->stop.store(true, std::memory_order_release);
  Post([] {});  // Wakes the thread.
  if (OnThread()) {
    state->thread.detach();
  } else {
    state->thread.join();
  }
}

ucp_worker_h UcxWorker::handle() const { return state_->worker; }
UcxContext& UcxWorker::context() const { return *state_->context; }
void UcxWorker::Post(Task task) { state_->Post(std::move(task)); }
bool UcxWorker::OnThread() const { return std::this_thread::get_id() == state_->thread.get_id(); }

void UcxWorker::Run(const Task& task) {
  if (OnThread()) return task();
  Mutex mutex;
  CondVar done_cv;
  bool done = false;
  Post([&] {
    task();
    MutexLock lock(mutex);
    done = true;
    done_cv.NotifyOne();
  });
  MutexLock lock(mutex);
  while (!done) done_cv.Wait(mutex);
}

void UcxWorker::After(Duration delay, Task task) {
  state_->timers.emplace(SystemClock().Now() + delay, std::move(task));
}
void UcxWorker::AddSink(const UcxToken& token, UcxMessageSink* sink) {
  state_->sinks[token] = sink;
}
void UcxWorker::RemoveSink(const UcxToken& token) { state_->sinks.erase(token); }
UcxOperations& UcxWorker::operations() { return state_->operations; }
void UcxWorker::TuneLocalConnections() { quire::TuneLocalConnections(state_->event_fd); }
void UcxWorker::SetHelloHandler(HelloHandler handler) { state_->on_hello = std::move(handler); }

}  // namespace quire
