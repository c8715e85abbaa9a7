// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/metrics/testing/metrics_page.h"
#include "gpuworker/service/worker_server.h"
#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

TEST(WorkerMetricsDocTest, ThePageListsEveryMetricAsItIs) {
  testing::EngineFixture fixture;
  Health health(&SystemClock());
  const auto server = WorkerServer::Start({.health = &health}, &fixture.engine());
  ASSERT_TRUE(server.ok()) << server.status();
  quire::testing::ExpectSectionLists("Worker", **server, 15);
}

}  // namespace
}  // namespace quire::worker
